"""Logarithms of gamma functions and of rising factorials, and their derivatives."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy.special import gammaln, polygamma

from pymc_flymc.graphs.gammas import FIRST, log_gamma, log_rising_of_exp

MODES = ["NUMBA", pytensor.compile.Mode(linker="py", optimizer=None)]
ENDS = [-1e3, -700.0, 700.0, 1e3]
NUMBERS = [0, 1, 2, FIRST - 1, FIRST, FIRST + 1, 30, 1000, 10**5]


def with_derivatives(graph, argument, order):
    graphs = [graph]
    for _ in range(order):
        graphs.append(pytensor.grad(graphs[-1].sum(), argument))
    return graphs


@pytest.mark.parametrize("mode", MODES)
def test_log_gamma(mode):
    """With three derivatives; errors are those of sums of numbers of the size of x log x."""
    x = pt.dvector("x")
    function = pytensor.function([x], with_derivatives(log_gamma(x), x, 3), mode=mode)
    at = np.concatenate([np.logspace(-100.0, 12.0, 500), np.linspace(0.1, 30.0, 999)])
    expected = gammaln(at), *(polygamma(order, at) for order in range(3))
    sizes = (
        10.0 + np.abs(at * np.log(at)) + np.abs(np.log(at)),
        10.0 + 1.0 / at,
        *np.abs(expected[2:]),
    )
    for value, right, size in zip(function(at), expected, sizes, strict=True):
        assert np.all(np.abs(value - right) < 16 * np.finfo(float).eps * size)
    for value, right in zip(function(np.array([0.0, 1e-320])), (1, -1, 1, -1), strict=True):
        np.testing.assert_array_equal(value[0], right * np.inf)
        assert value[1] * right > 700.0


@pytest.mark.parametrize("mode", MODES)
def test_log_rising_of_exp(mode):
    """Up to rounding errors of k terms, in the orders from zero to three."""
    a, k = pt.dvectors("a", "k")
    graphs = with_derivatives(log_rising_of_exp(a, k), a, 3)
    function = pytensor.function([a, k], graphs, mode=mode)
    for many in NUMBERS:
        at = np.append(ENDS, np.linspace(-40.0, 45.0, 9 if many > 1000 else 35))
        x, j = np.exp(at.astype(np.longdouble))[:, None], np.arange(1, many, dtype=np.longdouble)
        p, q = x / (x + j), j / (x + j)
        first = float(many > 0)
        sums = (at * first, np.log(x + j)), (first, p), (0.0, p * q), (0.0, p * q * (q - p))
        for found, (start, terms) in zip(function(at, np.full(at.shape, many)), sums, strict=True):
            expected = (start + terms.sum(axis=1)).astype(float)
            size = np.maximum(np.abs(expected), many)
            np.testing.assert_array_less(np.abs(found - expected), 4e-15 * size + 1e-300)


def test_what_has_no_derivative():
    """The number of factors, and the last of the orders."""
    a, k = pt.dvectors("a", "k")
    with pytest.raises(pytensor.gradient.NullTypeGradError):
        pytensor.grad(log_rising_of_exp(a, k).sum(), k)
    for graph, order in ((log_rising_of_exp(a, k), 3), (log_gamma(a), 3)):
        with pytest.raises(pytensor.gradient.NullTypeGradError):
            pytensor.grad(with_derivatives(graph, a, order)[-1].sum(), a)
