"""Proposals of parameters given brightness."""

import numpy as np

from pymc_flymc.kernels.metropolis import propose_pcn
from tests.support.native import from_python


def test_pcn_is_reversible_for_a_standard_normal():
    """v' = rho v + beta e with rho^2 + beta^2 = 1, with the very normals that it draws."""
    v, found = np.array([1.5, -0.3, 2.0]), np.empty(3)
    propose = from_python(propose_pcn)
    for beta in (0.0, 0.6, 1.0):
        ours, theirs = (np.random.default_rng(1) for _ in range(2))
        propose(ours, beta, v, found)
        expected = np.sqrt(1.0 - beta**2) * v
        if beta > 0.0:
            expected = expected + beta * theirs.standard_normal(3)
        np.testing.assert_allclose(found, expected, rtol=1e-14)
        assert ours.random() == theirs.random()
