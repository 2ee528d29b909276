"""Factors without any effect, whose scale is nearly zero, against quadrature."""

import arviz as az
import numpy as np
import pymc as pm
import pytest
from scipy.stats import halfnorm, multivariate_normal

from pymc_flymc import FireflyHMC
from tests.support.steps import sample, step_of

N, GROUPS, DRAWS = 4000, 40, 2000


@pytest.mark.slow
def test_small_scales_are_as_frequent_as_they_should_be():
    rng = np.random.default_rng(1)
    group, y = rng.integers(0, GROUPS, N), rng.normal(size=N)
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1.0)
        effects = pm.Normal("a", 0.0, tau, shape=GROUPS)
        pm.Normal("y", pm.Normal("mu", 0.0, 1.0) + effects[group], 1.0, observed=y)
    step = step_of(model, FireflyHMC)
    posterior = sample(model, step, draws=DRAWS, tune=1000, chains=4).posterior
    log_tau = np.log(posterior["tau"].to_numpy())
    logs, size = np.linspace(-12.0, 1.0, 1301), np.bincount(group)
    means = np.bincount(group, y) / size
    log_p = logs + halfnorm.logpdf(np.exp(logs))
    for i, each in enumerate(logs):
        covariance = np.diag(np.exp(2.0 * each) + 1.0 / size) + 1.0
        log_p[i] += multivariate_normal.logpdf(means, cov=covariance)
    below = np.cumsum(np.exp(log_p - log_p.max()))
    below /= below[-1]
    for share in (0.01, 0.05, 0.5, 0.99):
        smaller = log_tau < np.interp(share, below, logs)
        ess = float(az.ess(smaller.astype(float)))
        assert ess > 0.1 * log_tau.size
        assert abs(smaller.mean() - share) < 4.0 * np.sqrt(share * (1.0 - share) / ess)
