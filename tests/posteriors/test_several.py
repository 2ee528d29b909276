"""Models of two likelihoods by quadrature."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from pymc_flymc import ExplicitResampling, FireflyHMC, FireflyMH, FireflySlice
from tests.support.comparison import assert_matches, quadrature
from tests.support.data import log_sigmoid
from tests.support.steps import drive


def two_regressions():
    """Intercept and slope of a logistic regression, the slope also that of a robust one."""
    rng = np.random.default_rng(5)
    x, z = rng.normal(size=30), rng.normal(size=20)
    y = (rng.random(30) < np.exp(log_sigmoid(-0.5 + x))).astype(int)
    t = 0.5 * z + 0.7 * rng.standard_t(4, size=20)
    with pm.Model() as model:
        a, b = pm.Normal("a", 0.0, 2.0), pm.Normal("b", 0.0, 2.0, shape=1)
        pm.Bernoulli("y", logit_p=a + x[:, None] @ b, observed=y)
        pm.StudentT("t", nu=4.0, mu=z[:, None] @ b, sigma=0.7, observed=t)

    def log_density(points):
        a, b = points.T[:, :, None]
        value = log_sigmoid((2.0 * y - 1.0) * (a + b * x)).sum(axis=1)
        value += stats.t.logpdf(t, 4.0, b * z, 0.7).sum(axis=1)
        return value - 0.5 * np.sum((points / 2.0) ** 2, axis=1)

    return model, quadrature(log_density, [-12.0, -12.0], [12.0, 12.0])


def counts_and_noise():
    """A rate that is also the location of noise with a free scale: radius and nuisance."""
    rng = np.random.default_rng(6)
    x, z = rng.normal(size=25), rng.normal(size=20)
    y, t = rng.poisson(np.exp(0.4 * x)), 0.4 * z + 0.7 * rng.standard_t(4, size=20)
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 2.0, shape=1)
        s = pm.HalfNormal("s", 2.0)
        pm.Poisson("y", mu=pm.math.exp(x[:, None] @ b), observed=y)
        pm.StudentT("t", nu=4.0, mu=z[:, None] @ b, sigma=s, observed=t)

    def log_density(points):
        b, log_s = points.T[:, :, None]
        value = stats.poisson.logpmf(y, np.exp(b * x)).sum(axis=1)
        value += stats.t.logpdf(t, 4.0, b * z, np.exp(log_s)).sum(axis=1)
        prior = -0.5 * (points[:, 0] / 2.0) ** 2 - 0.5 * (np.exp(points[:, 1]) / 2.0) ** 2
        return value + prior + points[:, 1]

    return model, quadrature(log_density, [-3.0, -5.0], [3.0, 4.0])


PROBLEMS = {"two regressions": two_regressions, "counts and noise": counts_and_noise}


@pytest.fixture(scope="module")
def problems():
    return {name: make() for name, make in PROBLEMS.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "problem", "settings"),
    [
        (FireflyMH, "two regressions", {"transitions": 25}),
        (FireflyMH, "counts and noise", {"transitions": 40}),
        (FireflyMH, "two regressions", {"transitions": 15, "bound": None}),
        (
            FireflyMH,
            "two regressions",
            {"transitions": 50, "brightness": ExplicitResampling(0.1, "cycle")},
        ),
        (FireflyHMC, "two regressions", {"transitions": 4}),
        (FireflyHMC, "counts and noise", {"transitions": 6}),
        (FireflySlice, "two regressions", {"transitions": 6}),
    ],
)
def test_posterior_by_quadrature(any_size, problems, kind, problem, settings):
    model, reference = problems[problem]
    with model:
        step = kind(**settings)
    assert len(step.bounds) == 2
    draws, _ = drive(step, model.initial_point(), tune=300, draws=4000, chains=2, seed=1)
    assert_matches(draws, reference)
