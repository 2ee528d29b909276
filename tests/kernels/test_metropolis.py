"""Proposals of Metropolis updates, and the adaptation of steps."""

import numpy as np
import pytest

from pymc_flymc.kernels.metropolis import propose_pcn
from pymc_flymc.kernels.trajectory import freeze_step, new_step_size
from tests.support.native import adapt_step, from_python


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


@pytest.mark.parametrize("gamma", [0.05, 0.2])
@pytest.mark.parametrize("largest", [np.inf, 0.5])
def test_dual_averaging(largest, gamma):
    """The recursion of Hoffman & Gelman (2014, section 3.2.1), written as there, with a limit."""
    t0, kappa, target = 10.0, 0.75, 0.8
    size = new_step_size(3, target, gamma)
    mu = np.log(2.0) + size.log_step[0]
    mean_error, log_average = 0.0, size.log_step[0]
    for t, accept in enumerate(np.random.default_rng(7).random(50), start=1):
        mean_error = (1.0 - 1.0 / (t + t0)) * mean_error + (target - accept) / (t + t0)
        log_step = min(mu - np.sqrt(t) / gamma * mean_error, np.log(largest))
        log_average = t**-kappa * log_step + (1.0 - t**-kappa) * log_average
        adapt_step(size, accept, np.log(largest))
        np.testing.assert_allclose(size.log_step[0], log_step, rtol=1e-12)
    freeze_step(size)
    np.testing.assert_allclose(size.log_step[0], log_average, rtol=1e-12)
