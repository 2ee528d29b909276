"""Functions that are called by their address."""

import numba
import numpy as np
import pytest
from numba import types

from pymc_flymc.compat.numba import address_of, generator_at, native_caller
from pymc_flymc.kernels.native import (
    LOG_FACTOR,
    NativeFunction,
    address_of_generator,
    kernel,
    vector,
)

call_log_factor = native_caller(LOG_FACTOR.args, LOG_FACTOR.return_type)
PAIR = types.Tuple([vector(), types.float64])(vector(), vector())
call_pair = native_caller(PAIR.args, PAIR.return_type, as_tuple=True)


class TooLargeError(ValueError):
    """An exception of a user's own."""


def log_factor(eta, constants, shared, out):
    for i in range(out.shape[0]):
        if eta[i, 0] > shared[0]:
            raise TooLargeError("eta is too large")
        out[i] = eta[i, 0] + constants[i, 0]


@numba.njit
def pair(*arguments):
    x, y = arguments
    if x[0] > y[0]:
        raise TooLargeError("x is larger by", x[0] - y[0])
    return x + y, x[0]


@numba.njit
def outer(address, eta, constants, shared, out):
    call_log_factor(address, eta, constants, shared, out)
    return out.sum()


def test_what_a_function_raises_is_raised_by_whoever_called_its_caller():
    function = NativeFunction(log_factor, LOG_FACTOR)
    eta, constants, out = np.array([[1.0], [2.0]]), np.ones((2, 1)), np.zeros(2)
    assert outer(function.address, eta, constants, np.array([2.0]), out) == 5.0
    for _ in range(2):
        with pytest.raises(TooLargeError, match=r"^eta is too large$"):
            outer(function.address, eta, constants, np.array([1.5]), out)
    assert outer(function.address, eta, constants, np.array([3.0]), out) == 5.0


def test_exceptions_with_arguments_known_when_they_are_raised():
    address, returned = address_of(pair, PAIR.args)
    assert returned == PAIR.return_type

    @numba.njit
    def caller(address, x, y):
        total, first = call_pair(address, x, y)
        return total[0] * first

    assert caller(address, np.array([2.0]), np.array([3.0])) == 10.0
    with pytest.raises(TooLargeError) as raised:
        caller(address, np.array([2.0]), np.array([0.5]))
    assert raised.value.args == ("x is larger by", 1.5)


def test_kernels_take_no_other_arguments():
    """They are compiled for one signature: numbers of another type are an error, not other code."""

    @kernel(types.float64(vector()))
    def total(x):
        return x.sum()

    assert total(np.ones(3)) == 3.0
    for other in (np.ones(3, np.float32), np.ones((3, 1)), np.ones(6)[::2], [1.0, 2.0]):
        with pytest.raises(TypeError, match="No matching definition"):
            total(other)


@numba.njit
def draw(rng, out):
    out[0] = rng.random()
    out[1] = rng.standard_normal()
    out[2] = rng.standard_exponential()
    out[3] = rng.integers(0, 1000)  # of 32 bits
    out[4] = rng.integers(0, 2**40)  # of 64 bits
    out[5] = rng.poisson(30.0)
    out[6] = rng.geometric(0.01)


@numba.njit
def draw_at(address, out):
    draw(generator_at(address), out)


@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.Philox])
def test_draws_are_those_of_the_generator(bits):
    """They are numba's for the same generator, which moves on by as much."""
    ours, theirs = (np.random.Generator(bits(1)) for _ in range(2))
    found, expected = np.zeros(7), np.zeros(7)
    for _ in range(100):
        draw_at(address_of_generator(ours), found)
        draw(theirs, expected)
        np.testing.assert_array_equal(found, expected)
    assert ours.random() == theirs.random()
