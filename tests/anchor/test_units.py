"""Columns in units that people have: seconds since 1970, nanoseconds, parts in a billion."""

from functools import cache

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import FireflyHMC, FireflyMH, JaakkolaJordan
from pymc_flymc.anchor import newton
from pymc_flymc.anchor.newton import LARGEST_ERROR, TOLERANCE

N = 2000
RNG = np.random.default_rng(1)
Z = RNG.standard_normal(N)
Z = (Z - Z.mean()) / Z.std()
Y = RNG.binomial(1, 1 / (1 + np.exp(-0.3 - 0.8 * Z)))
COUNTS = RNG.poisson(np.exp(0.3 + 0.4 * Z))
CLASSES = np.where(Y == 1, 1, 2 * RNG.integers(0, 2, N))
X = RNG.standard_normal(N)
#: Means and spreads: dates within an hour, a day, a month, a year; nanoseconds; cents; ids.
UNITS = {
    "hour": (1.7e9, 1e3),
    "day": (1.7e9, 2.5e4),
    "month": (1.7e9, 7.5e5),
    "year": (1.7e9, 9e6),
    "nanoseconds": (1.7e18, 7.5e14),
    "cents": (1e7, 3e6),
    "ids": (1e9, 1e4),
    "billionths": (0.0, 1e-9),
    "far billionths": (5e-9, 1e-10),
}
#: The search ends so many posterior sds away from the mode, at most.
AWAY = np.sqrt(2.0 * TOLERANCE)


def bernoulli(eta):
    pm.Bernoulli("y", logit_p=eta, observed=Y)


def poisson(eta):
    pm.Poisson("y", pm.math.exp(eta), observed=COUNTS)


def normal(eta):
    pm.Normal("y", eta, pm.HalfNormal("sigma"), observed=0.3 + 0.8 * Z + np.cos(100.0 * Z))


def classes(eta):
    level = pm.Normal("level") * np.ones(N)
    pm.Categorical("y", logit_p=pm.math.stack([0.0 * level, eta, level], axis=1), observed=CLASSES)


def crossed(eta):
    for name, n in ("u", 8), ("v", 11):
        eta = eta + pm.Normal(name, 0.0, 0.3, shape=n)[np.arange(N) % n]
    bernoulli(eta)


def correlated(eta):
    """Intercepts and slopes of groups."""
    sds = pm.HalfNormal.dist(0.5, shape=2)
    factor, *_ = pm.LKJCholeskyCov("factor", n=2, eta=2.0, sd_dist=sds)
    effects = factor @ pm.Normal("z", shape=(2, 8))
    group = np.arange(N) % 8
    bernoulli(eta + effects[0][group] + effects[1][group] * X)


def model(outcome, mean, spread, effects=None):
    """A regression with wide priors, also where it is centred: with mean zero and spread one."""
    with pm.Model() as built:
        a, b = pm.Normal("a", 0.0, 1e9), pm.Normal("b", 0.0, max(1.0, 100.0 / spread))
        eta = a + b * (mean + spread * Z)
        if effects is not None:
            eta += pm.Normal("u", 0.0, 0.3, shape=effects)[np.arange(N) % effects]
        outcome(eta)
    return built


@cache
def level_and_change(outcome, mean, spread, effects):
    """Mode and Laplace covariance of the predictor's level, and of its change by one spread."""
    with model(outcome, mean, spread, effects):
        geometry = FireflyHMC().target.geometry
    back = np.array([[1.0, mean], [0.0, spread]])
    columns = [geometry.spread(v)[:2] for v in np.eye(len(geometry.centre))]
    factor = back @ np.stack(columns, axis=1)
    return back @ geometry.centre[:2], factor @ factor.T


def assert_same(outcome, units, effects=None):
    mode, covariance = level_and_change(outcome, *UNITS[units], effects)
    expected, exact = level_and_change(outcome, 0.0, 1.0, effects)
    sds = np.sqrt(np.diag(exact))
    assert np.all(np.abs(mode - expected) < AWAY * sds)
    # Of dates within an hour the covariance has lost digits: it says how to propose, and no more.
    # An error in log density of so much within an sd is one of twice as much in a precision of one.
    scale = np.outer(sds, sds)
    np.testing.assert_allclose(covariance / scale, exact / scale, atol=2.0 * LARGEST_ERROR)


@pytest.mark.parametrize("units", UNITS)
def test_mode_and_scale(units):
    assert_same(bernoulli, units)


@pytest.mark.slow
@pytest.mark.parametrize("outcome", [poisson, normal, classes, crossed, correlated])
def test_other_models(outcome):
    assert_same(outcome, "month")


@pytest.mark.parametrize("units", ["hour", "month"])
@pytest.mark.parametrize("effects", [20, 500])
@pytest.mark.slow_cases("500-hour", "500-month")
def test_beside_effects(effects, units):
    """With 20 effects the width along the line of both columns was lost among many parameters."""
    assert_same(bernoulli, units, effects)


def test_digits_are_lost_beside_many_effects():
    """Dates within a minute: no whole matrix says so, but the draws would be those of rounding."""
    with (
        model(bernoulli, 1.7e9, 17.0, effects=500),
        pytest.raises(ValueError, match="that a, b multiply are collinear but for about"),
    ):
        FireflyMH()


def test_message_of_columns_far_from_zero(monkeypatch):
    monkeypatch.setattr(newton, "MAX_STEPS", 0)
    with (
        model(bernoulli, *UNITS["month"]),
        pytest.raises(
            ValueError, match=r"no posterior mode found.* a, b multiply.*Centre"
        ) as error,
    ):
        FireflyHMC(bound=JaakkolaJordan())
    assert "separate" not in str(error.value)


def test_message_of_separated_outcomes(monkeypatch):
    monkeypatch.setattr(newton, "MAX_STEPS", 6)
    with pm.Model():
        b = pm.Normal("b", 0.0, 1e9)
        pm.Bernoulli("y", logit_p=b * Z, observed=Z > 0.0)
        with pytest.raises(ValueError, match=r"no posterior mode found.*b has reached.*separate"):
            FireflyHMC(bound=JaakkolaJordan())


def test_message_of_another_reason(monkeypatch):
    monkeypatch.setattr(newton, "MAX_STEPS", 0)
    with (
        model(bernoulli, 0.0, 1.0),
        pytest.raises(ValueError, match="One more step was to raise the log density by") as error,
    ):
        FireflyHMC(bound=JaakkolaJordan())
    assert "separate" not in str(error.value)
