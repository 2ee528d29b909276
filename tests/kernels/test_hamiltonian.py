"""Gradients, step sizes and their adaptation."""

from functools import cache

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import Bohning, FireflyHMC, JaakkolaJordan, Tangent, Taylor
from tests.support.data import log_sigmoid
from tests.support.native import (
    assert_is_gradient,
    density_and_gradient,
    row_force,
    take_dark,
    unstandardise,
)


def models():
    rng = np.random.default_rng(5)
    X = np.column_stack([np.ones(60), rng.normal(size=(60, 2))])
    eta = X @ np.array([0.5, 1.0, -1.0])
    with pm.Model() as logistic:
        scale = pm.HalfNormal("scale", 1.0)
        beta = pm.Normal("beta", 0.0, 1.0, shape=3)
        y = (rng.random(60) < np.exp(log_sigmoid(eta))).astype(int)
        pm.Bernoulli("y", logit_p=X @ (beta * (1.0 + scale)), observed=y)  # no product alone
    with pm.Model() as softmax:
        weights = pm.Normal("beta", 0.0, 1.0, shape=(3, 3))
        pm.Categorical("y", logit_p=X @ weights, observed=rng.integers(0, 3, 60))
    with pm.Model() as robust:
        beta = pm.Normal("beta", 0.0, 1.0, shape=3)
        nu, sigma = pm.Gamma("nu", 2.0, 0.1), pm.HalfNormal("sigma", 1.0)
        pm.StudentT("y", nu=nu, mu=X @ beta, sigma=sigma, observed=eta + rng.standard_t(3, 60))
    with pm.Model() as counts:
        beta = pm.Normal("beta", 0.0, 1.0, shape=3)
        pm.Poisson("y", pm.math.exp(X @ beta), observed=rng.poisson(np.exp(eta)))
    return {
        "logistic": (logistic, JaakkolaJordan()),
        "softmax": (softmax, Bohning()),
        "robust": (robust, Tangent(slack=100.0)),
        "poisson": (counts, Taylor()),
        "no bound": (logistic, None),
    }


@cache
def hmc_step(name):
    """Return an HMC step, built once."""
    model, bound = models()[name]
    with model:
        return FireflyHMC(bound=bound)


@pytest.mark.slow_cases("softmax", "robust", "poisson", "no bound")
@pytest.mark.parametrize("name", ["logistic", "softmax", "robust", "poisson", "no bound"])
def test_force_is_the_gradient_of_the_joint_density(name):
    """In standardised coordinates, z given: through transforms, nuisances and shared radii."""
    step, rng = hmc_step(name), np.random.default_rng(6)
    step.setup_chain(rng, 0, 1)
    chain = step.chain
    d = len(step.target.geometry.centre)
    chain.start(rng, 1.5 * rng.standard_normal(d))
    index = chain.bright.index[: chain.n_bright].copy()
    rows, state = step.target.data.rows, chain.state
    assert len(index) > 5

    def log_joint(v):
        unstandardise(chain.geometry, v, state.theta_new)
        total = step.target.density(state.theta_new, chain.statistics, state.w_new)
        k, p = rows.offset.shape[1], rows.X.shape[1]
        eta, odds = rows.X[index] @ state.w_new[: k * p].reshape(k, p).T, np.empty(len(index))
        step.target.parts[0].log_factor(eta, rows.constants[index], state.w_new[k * p :], odds)
        return total + odds.sum() - state.dark @ state.w_new

    posterior, *_ = chain._arguments()
    out = np.empty(len(index))
    dynamics = chain.kernel_parameters
    density_and_gradient(posterior, state.theta, state.w, dynamics.gradient)
    factors = posterior.rows, posterior.log_factor_gradient, chain.bright.index, len(index)
    take_dark(rows, chain.bright, state)
    at = state.theta, state.w, dynamics.gradient, state.dark
    log_odds = row_force(posterior, *factors, *at, dynamics, out, chain.scratch)
    v = state.v.copy()
    assert log_joint(v) == pytest.approx(state.log_density[0] + log_odds, rel=1e-12)

    assert_is_gradient(dynamics.force, log_joint, v, 1e-3, len(index))


@pytest.mark.slow_cases("no bound")
@pytest.mark.parametrize("name", ["logistic", "no bound"])
def test_no_force_is_stale(name):
    """Transitions made together are those made one by one, each of which begins again."""
    step, ends = hmc_step(name), []
    for runs in ([3], [1, 1, 1]):
        rng = np.random.default_rng(7)
        step.setup_chain(rng, 0, 1)
        chain = step.chain
        chain.start(rng, rng.standard_normal(len(chain.state.v)))
        for n in runs:
            chain.advance(rng, n, 0.0)
        ends.append(chain.state.theta.copy())
    np.testing.assert_array_equal(*ends)


def test_heavy_tails_are_left():
    """Steps from fifteen scales out are accepted: what is never left is never entered, either."""
    with pm.Model():
        b = pm.StudentT("b", nu=3.0, mu=0.0, sigma=1.0)
        pm.Bernoulli("y", logit_p=1e-3 * b * np.ones(20), observed=np.arange(20) % 2)
        step = FireflyHMC(bound=None)
    rng = np.random.default_rng(1)
    step.setup_chain(rng, 0, 1)
    chain, accept = step.chain, []
    for _ in range(100):
        chain.start_at(rng, np.array([15.0]))
        accept.append(chain.advance(rng, 1, 0.0))
    # It is 0.28, with an error of 0.03, and 3e-30 with a limit on what undoes the rotation, too.
    assert np.mean(accept) > 0.1
