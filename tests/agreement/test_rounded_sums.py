"""Collapsed sums that lose more digits than those of the likelihoods: of rare events."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import FireflyHMC, JaakkolaJordan, Taylor
from pymc_flymc.agreement import compiled
from pymc_flymc.agreement.compiled import check_rounded_sums, rounding_within_sd
from pymc_flymc.anchor.newton import EPSILON, LARGEST_ERROR
from pymc_flymc.sampling.proposal_weights import LogDensity

N, NONE = 100_000, np.empty(0)
#: Dates in seconds, within some twenty minutes.
MEAN, SPREAD = 1.7e9, 500.0
RNG = np.random.default_rng(1)
Z = RNG.standard_normal(N)
EVENTS = (RNG.random(N) < 1 / (1 + np.exp(9.0 - 0.8 * Z))).astype(np.int8)


def target_of(bound, mean=MEAN, spread=SPREAD):
    """Return the target of an intercept with a wide prior, and the effect of a date."""
    with pm.Model():
        a, b = pm.Normal("a", 0.0, 1e9), pm.Normal("b", 0.0, 1.0)
        pm.Bernoulli("y", logit_p=a + b * (mean + spread * Z), observed=EVENTS)
        return FireflyHMC(bound=bound).target


def largest_error(target):
    """Error of the log density at draws of the Laplace approximation, by predictors of rows."""
    points = np.random.default_rng(2).standard_normal((8, 2))
    log_density, residuals = LogDensity(target, NONE), (MEAN + SPREAD * Z) - MEAN

    def exact(theta):
        a, b = theta.astype(np.longdouble)
        eta = a + b * MEAN + b * residuals
        return (EVENTS * eta - np.logaddexp(0.0, eta)).sum() - 0.5 * ((a / 1e9) ** 2 + b**2)

    thetas = [target.geometry.unstandardise(v) for v in points]
    errors = [log_density(v) - float(exact(t)) for v, t in zip(points, thetas, strict=True)]
    return np.ptp(errors)


def test_sums_of_rare_events_are_refused():
    """The bound is five hundred times as curved as the likelihoods, whose sums have the digits."""
    with pytest.raises(ValueError, match="Jaakkola-Jordan bound are rounding errors along a line"):
        target_of(JaakkolaJordan())


def test_sums_of_centred_columns_have_their_digits():
    points = np.random.default_rng(2).standard_normal((8, 2))
    target = target_of(JaakkolaJordan(), 0.0, 1.0)
    # A rounding error of a number of size one for each row.
    assert rounding_within_sd(target, NONE, points) < N * EPSILON


@pytest.mark.slow
def test_draws_would_show_such_an_error(monkeypatch):
    """And none of the expansion of the same rows."""
    assert largest_error(target_of(Taylor())) < LARGEST_ERROR
    monkeypatch.setattr(compiled, "LARGEST_ERROR", np.inf)
    target = target_of(JaakkolaJordan())
    assert largest_error(target) > LARGEST_ERROR
    monkeypatch.setattr(compiled, "LARGEST_ERROR", LARGEST_ERROR)
    with pytest.raises(ValueError, match="rounding errors"):
        check_rounded_sums(target, [], NONE, LogDensity(target, NONE))
