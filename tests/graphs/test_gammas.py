"""The log gamma function in elementary functions."""

import numpy as np
import pytensor
import pytensor.tensor as pt
from scipy.special import gammaln, polygamma

from pymc_flymc.graphs.gammas import log_gamma_of_more


def test_agrees_with_scipy():
    """With two derivatives; errors are those of sums of numbers of the size of x log x."""
    x = pt.dvector("x")
    graphs = [log_gamma_of_more(x)]
    for _ in range(2):
        graphs.append(pytensor.grad(graphs[-1].sum(), x))
    mode = pytensor.compile.Mode(linker="py", optimizer=None)
    at = np.concatenate([[0.0], np.logspace(-300.0, 12.0, 500)])
    found = pytensor.function([x], graphs, mode=mode)(at)
    expected = gammaln(1.0 + at), polygamma(0, 1.0 + at), polygamma(1, 1.0 + at)
    sizes = 10.0 + at * np.log1p(at), 10.0 + np.log1p(at), 10.0 / (1.0 + at)
    for value, right, size in zip(found, expected, sizes, strict=True):
        assert np.all(np.abs(value - right) < 16 * np.finfo(float).eps * size)
