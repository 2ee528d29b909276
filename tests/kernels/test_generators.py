"""Generators that kernels are given by address."""

import numba
import numpy as np
import pytest

from pymc_flymc.compat.numba import generator_at
from pymc_flymc.kernels.native import address_of_generator


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
