"""The number of transitions that a chain learns."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import FireflyHMC, FireflyMALA, FireflyMH, JaakkolaJordan, Taylor
from pymc_flymc.sampling.costs import CHEAP
from pymc_flymc.sampling.tuning import TARGET_AUTOCORRELATION, Tuning, slowest_autocorrelation
from tests.support.data import logistic_rows

CORRELATION = 0.9


@pytest.mark.parametrize("sparing", [False, True])
def test_transitions_are_chosen_by_how_dependent_draws_are(sparing):
    """Draws of an autoregression, whose autocorrelation is known, whatever their number."""
    rng, steps, first = np.random.default_rng(1), 2000, 2
    tuning = Tuning(steps, first, 1, 1000, True, sparing)
    v, made = rng.standard_normal(1), []
    for _ in range(steps):
        made.append(tuning.transitions)
        correlation = CORRELATION**tuning.transitions
        v = correlation * v + np.sqrt(1.0 - correlation**2) * rng.standard_normal(1)
        tuning.record(v, 0)
    wanted = np.log(TARGET_AUTOCORRELATION) / np.log(CORRELATION)
    # Of n draws the estimate of a correlation r has the variance (1 - r^2) / n: four of its sds.
    n = 0.4 * steps
    r = CORRELATION ** made[-1]
    error = 4.0 * np.sqrt((1.0 - r**2) / n) / r / -np.log(r)
    noise = np.sqrt(2.0 * np.log(2.0) / n) / r / -np.log(r)  # taken off, lest it mislead
    assert abs(tuning.transitions / wanted - 1.0) < error + noise + 0.5 / wanted
    # Until tuning is over they cost as little as may be, if nothing else is learnt from draws.
    assert (set(made) == {first}) == sparing


def test_what_never_moves_is_the_slowest():
    """Whatever rounding makes of the mean of equal draws."""
    rng = np.random.default_rng(0)
    moving = rng.normal(size=(120, 2))
    for value in rng.normal(size=(100, 1)):
        constant = np.repeat(value[None], 120, axis=0)
        assert slowest_autocorrelation(constant) == 0.98
        assert slowest_autocorrelation(np.hstack([moving, constant])) > 0.6
    assert slowest_autocorrelation(moving) < 0.2


@pytest.mark.parametrize(
    ("step", "settings", "cheap"),
    [
        (FireflyHMC, {"bound": JaakkolaJordan()}, True),
        (FireflyMALA, {"bound": JaakkolaJordan()}, True),
        (FireflyMH, {"kernel": "metropolis"}, True),
        (FireflyMH, {"bound": Taylor()}, False),
        (FireflyMH, {"kernel": "surrogate"}, False),
        (FireflyHMC, {"bound": None}, False),
    ],
    ids=["hmc", "mala", "metropolis", "joint", "surrogate", "all rows"],
)
def test_a_draw_has_what_is_cheap(step, settings, cheap):
    """Whatever a chain of conditional updates learns; a transition is expected to read few rows."""
    X, y = logistic_rows(2000, [-0.5, 1.0])
    with pm.Model():
        pm.Bernoulli("y", logit_p=X @ pm.Normal("b", 0, 1, shape=2), observed=y)
        sampler = step(**settings).sampler
    tuning = sampler.new_tuning(100)
    least = sampler.adaptation.fewest
    assert (tuning.fewest > least) == cheap
    assert tuning.fewest * sampler.target.expected_bright < CHEAP or not cheap
    for v in np.random.default_rng(1).standard_normal((100, 2)):  # independent: few are enough
        tuning.record(v, 0)
    assert tuning.transitions == tuning.fewest


def test_rows_that_many_transitions_would_read_are_not_cheap():
    X, y = logistic_rows(2000, [-0.5, 1.0])
    with pm.Model():
        pm.Bernoulli("y", logit_p=X @ pm.Normal("b", 0, 1, shape=2), observed=y)
        sampler = FireflyHMC(bound=JaakkolaJordan(xi=8.0)).sampler
    assert sampler.target.expected_bright > 0.1 * CHEAP
    assert sampler.new_tuning(100).fewest == 1
