"""Units of parameters, predictors and outcomes: those of the data are the user's."""

import numpy as np
import pymc as pm
import pytest
from scipy.stats import norm, skewnorm, t

from pymc_flymc import FireflyHMC, FireflyMH, FireflySlice
from tests.support.comparison import assert_matches, quadrature
from tests.support.data import logistic_rows
from tests.support.steps import drive, step_of


@pytest.mark.slow
@pytest.mark.parametrize("cls", [FireflyMH, FireflyHMC])
def test_units_of_predictors_do_not_matter(cls):
    """The anchor, the choice and all draws are the same: powers of two round nothing."""
    X, y = logistic_rows(500, [0.5, -1.0])

    def draws_in(unit):
        with pm.Model() as model:
            beta = pm.Normal("beta", 0.0, 3.0 * unit, shape=2)
            pm.Bernoulli("y", logit_p=(X / unit) @ beta, observed=y)
            step = cls()
        draws, _ = drive(step, model.initial_point(), tune=40, draws=40, chains=1)
        return draws / unit

    expected = draws_in(1.0)
    assert np.ptp(expected) > 0.0
    for exponent in (-40, 330):
        np.testing.assert_allclose(draws_in(2.0**exponent), expected, rtol=1e-8)


@pytest.mark.slow
def test_units_of_outcomes_do_not_matter():
    """Nor do those of effects, here more than go with a dense matrix, as of prices in cents."""
    rng = np.random.default_rng(1)
    groups, x = rng.integers(0, 350, 2000), rng.normal(size=2000)
    outcomes = 0.5 * x + rng.normal(size=350)[groups] + rng.standard_t(4, 2000)

    def target_in(unit):
        with pm.Model():
            slope, tau = pm.Normal("slope", 0.0, 3.0 * unit), pm.HalfNormal("tau", 2.0 * unit)
            effects = pm.Normal("effects", 0.0, tau, shape=350)
            sigma, mu = pm.HalfNormal("sigma", 3.0 * unit), slope * x + effects[groups]
            pm.StudentT("y", nu=4.0, mu=mu, sigma=sigma, observed=unit * outcomes)
            return FireflyHMC().target

    here, there = target_in(1.0), target_in(2.0**20)
    sds = here.geometry.conditional_sds(), there.geometry.conditional_sds()
    assert len(sds[0]) == 350
    np.testing.assert_allclose(sds[1], 2.0**20 * sds[0], rtol=1e-6)
    bright = [target.parts[0].expected_bright for target in (here, there)]
    assert bright[1] == pytest.approx(bright[0], rel=1e-6)


DAY, NOISE = 2_459_000.0, 1e-5  # dates in days, noise of a second: the sd of their mean is 2e-13
RESIDUALS = skewnorm.rvs(6.0, size=400, random_state=0)


def far_model(outcomes_around):
    """Return a model of outcomes far from zero, around their mean."""
    with pm.Model() as model:
        mean = pm.Normal("mean", DAY, 1000.0 * NOISE)
        outcomes_around(mean + np.zeros(400))
    return model


@pytest.mark.parametrize(
    ("cls", "settings"),
    [
        (FireflySlice, {"transitions": 3}),
        (FireflyMH, {"kernel": "metropolis", "transitions": 10}),
        pytest.param(
            FireflyMH,
            {"kernel": "metropolis", "bound": None, "transitions": 10},
            marks=pytest.mark.slow,
        ),
        pytest.param(FireflyHMC, {}, marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow_cases("FireflySlice-settings0")
def test_outcomes_may_be_far_from_zero(cls, settings):
    """The sd of their mean was 10 % short."""
    y = DAY + NOISE * RESIDUALS
    model = far_model(lambda mu: pm.StudentT("y", nu=3.0, mu=mu, sigma=NOISE, observed=y))
    step = step_of(model, cls, **settings)
    draws, _ = drive(step, model.initial_point(), tune=500, draws=4000, chains=2)
    residuals = (y - DAY) / NOISE  # the difference is exact

    def log_density(points):
        return t.logpdf(residuals - points, 3.0).sum(axis=1)

    assert_matches((draws - DAY) / NOISE, quadrature(log_density, [-1.0], [2.0]))


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["joint", "surrogate"])
def test_outcomes_of_smooth_families_may_be_far_from_zero(kernel):
    """Joint and surrogate moves are for these."""
    latest = DAY + NOISE
    y = np.minimum(DAY + NOISE * RESIDUALS, latest)
    model = far_model(
        lambda mu: pm.Censored("y", pm.Normal.dist(mu, NOISE), None, latest, observed=y)
    )
    step = step_of(model, FireflyMH, kernel=kernel)
    draws, _ = drive(step, model.initial_point(), tune=500, draws=4000, chains=2)
    residuals, censored = (y - DAY) / NOISE, y == latest
    limit = residuals.max()

    def log_density(points):
        density = norm.logpdf(residuals[~censored] - points).sum(axis=1)
        return density + censored.sum() * norm.logsf(limit - points[:, 0])

    assert censored.any()
    assert_matches((draws - DAY) / NOISE, quadrature(log_density, [-1.0], [2.0]))
