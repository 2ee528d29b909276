"""Columns that are nearly multiples of each other, such as an intercept's and dates in seconds."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import FireflyHMC, FireflyMH, JaakkolaJordan
from pymc_flymc.anchor.newton import TOLERANCE

N = 2000
RNG = np.random.default_rng(1)
Z = RNG.standard_normal(N)
Y = RNG.binomial(1, 1 / (1 + np.exp(-0.3 - 0.8 * Z)))


def model(away):
    """A regression on an intercept and a column with a mean of so many standard deviations."""
    with pm.Model() as built:
        b = pm.Normal("b", 0.0, [10.0 * away, 10.0], shape=2)
        pm.Bernoulli("y", logit_p=np.column_stack([np.ones(N), away + Z]) @ b, observed=Y)
    return built


def anchor(away=0.0):
    """Mode and covariance by Newton steps in columns that are centred."""
    X, w = np.column_stack([np.ones(N), Z]), np.zeros(2)
    prior = np.array([0.0, 0.01])
    for _ in range(20):
        p = 1 / (1 + np.exp(-X @ w))
        precision = (X.T * (p * (1 - p))) @ X + np.diag(prior)
        w += np.linalg.solve(precision, X.T @ (Y - p) - prior * w)
    return np.array([w[0] - away * w[1], w[1]]), np.linalg.inv(precision)


@pytest.mark.parametrize("away", [1e4, 1e5, 1e6])
def test_mode_and_scale(away):
    """Chains would stay where they begin, all at one place, if the posterior's width were lost."""
    mode, covariance = anchor(away)
    with model(away):
        geometry = FireflyHMC(bound=JaakkolaJordan()).target.geometry
    sd = np.sqrt(covariance[1, 1])
    away_from_mode = np.sqrt(2.0 * TOLERANCE)  # in sds, at most
    assert abs(geometry.centre[1] - mode[1]) < away_from_mode * sd
    np.testing.assert_allclose(np.linalg.norm(geometry.factor[1]), sd, rtol=0.01)
    # What all rows determine, in digits of the intercept's.
    level = geometry.centre @ [1.0, away]
    assert abs(level - anchor()[0][0]) < away_from_mode * np.sqrt(covariance[0, 0])


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("away", [1e7, 1e8])
def test_lost_digits(away, given):
    """Sums that are collapsed are rounding errors along the line of both columns."""
    settings = {"anchor": {"b": anchor(away)[0]}} if given else {}
    with model(away), pytest.raises(ValueError, match="are collinear but for about"):
        FireflyMH(kernel="metropolis", bound=JaakkolaJordan(), **settings)


def test_prior_far_wider_than_the_data():
    """An intercept beside the effects of all categories: their level is the prior's alone."""
    group = np.arange(N) % 2
    X = np.column_stack([np.ones(N), group == 0, group == 1]).astype(float)
    with pm.Model():
        b = pm.Normal("b", 0.0, 1e4, shape=3)
        pm.Bernoulli("y", logit_p=X @ b, observed=Y)
        geometry = FireflyHMC(bound=JaakkolaJordan()).target.geometry
    sds = np.linalg.norm(geometry.factor, axis=1)
    np.testing.assert_allclose(sds, 1e4 / np.sqrt(3.0), rtol=0.01)
