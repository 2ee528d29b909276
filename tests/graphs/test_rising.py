"""Logarithms of rising factorials and their derivatives."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pymc_flymc.graphs.rising import FIRST, log_rising_of_exp

ENDS = [-1e3, -700.0, 700.0, 1e3]
NUMBERS = [0, 1, 2, FIRST - 1, FIRST, FIRST + 1, 30, 1000, 10**5]


@pytest.mark.parametrize("mode", ["NUMBA", pytensor.compile.Mode(linker="py", optimizer=None)])
def test_agrees_with_sums(mode):
    """Up to rounding errors of k terms, in the orders from zero to three."""
    a, k = pt.dvectors("a", "k")
    graphs = [log_rising_of_exp(a, k)]
    for _ in range(3):
        graphs.append(pytensor.grad(graphs[-1].sum(), a))
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
    """The number of factors, and the third derivative."""
    a, k = pt.dvectors("a", "k")
    graph = log_rising_of_exp(a, k)
    with pytest.raises(pytensor.gradient.NullTypeGradError):
        pytensor.grad(graph.sum(), k)
    for _ in range(3):
        graph = pytensor.grad(graph.sum(), a)
    with pytest.raises(pytensor.gradient.NullTypeGradError):
        pytensor.grad(graph.sum(), a)
