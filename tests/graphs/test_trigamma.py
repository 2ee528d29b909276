"""The trigamma function in native code."""

import numpy as np
import pytensor
import pytensor.tensor as pt
from scipy.special import polygamma

from pymc_flymc.graphs.trigamma import with_native_trigammas


def test_agrees_with_scipy():
    x = pt.vector("x")
    graphs = with_native_trigammas([pt.grad(pt.grad(pt.gammaln(x).sum(), x).sum(), x)])
    at = np.concatenate(
        [[0.0, 1e-320], 10.0 ** np.linspace(-12, 12, 200), np.linspace(0.1, 30, 999)]
    )
    found = pytensor.function([x], graphs, mode="NUMBA")(at)[0]
    np.testing.assert_allclose(found, polygamma(1, at), rtol=10 * np.finfo(float).eps)
