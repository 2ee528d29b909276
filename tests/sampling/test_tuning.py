"""The number of transitions that a chain learns."""

import time

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import FireflyHMC, FireflyMALA, FireflyMH, JaakkolaJordan, Taylor
from pymc_flymc.reporting import SETUP, TIMES, Stopwatch
from pymc_flymc.sampling.adaptation import GRADIENTS
from pymc_flymc.sampling.costs import CHEAP, DEAR, GATHERED, ROW
from pymc_flymc.sampling.tuning import (
    LARGEST_AUTOCORRELATION,
    TARGET_AUTOCORRELATION,
    Tuning,
    slowest_autocorrelation,
)
from tests.support.data import logistic_rows
from tests.support.steps import logistic_step, sample

CORRELATION = 0.9


@pytest.mark.parametrize("target", [TARGET_AUTOCORRELATION, LARGEST_AUTOCORRELATION])
@pytest.mark.parametrize("sparing", [False, True])
def test_transitions_are_chosen_by_how_dependent_draws_are(sparing, target):
    """Draws of an autoregression, whose autocorrelation is known, whatever their number."""
    rng, steps, first = np.random.default_rng(1), 2000, 2
    tuning = Tuning(steps, first, 1, 1000, True, sparing, target)
    v, made = rng.standard_normal(1), []
    for _ in range(steps):
        made.append(tuning.transitions)
        correlation = CORRELATION**tuning.transitions
        v = correlation * v + np.sqrt(1.0 - correlation**2) * rng.standard_normal(1)
        tuning.record(v, 0)
    wanted = np.log(target) / np.log(CORRELATION)
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


@pytest.mark.parametrize(("rows", "is_dear"), [(1000, False), (20_000, True)])
def test_rows_that_many_transitions_would_read_are_not_cheap(rows, is_dear):
    """Nor must draws be nearly independent where a transition takes a millisecond."""
    X, y = logistic_rows(rows, [-0.5, 1.0])
    with pm.Model():
        pm.Bernoulli("y", logit_p=X @ pm.Normal("b", 0, 1, shape=2), observed=y)
        sampler = FireflyHMC(bound=JaakkolaJordan(xi=8.0)).sampler
    bright = sampler.target.expected_bright
    assert bright > 0.1 * CHEAP
    tuning = sampler.new_tuning(100)
    assert tuning.fewest == 1
    # Each of a trajectory's gradients reads the bright rows, and gathers them from among all.
    each = 1.0 + GATHERED / ROW
    assert is_dear == (GRADIENTS * each * bright > DEAR)
    expected = LARGEST_AUTOCORRELATION if is_dear else TARGET_AUTOCORRELATION
    assert tuning.autocorrelation == sampler.autocorrelation == expected


def test_all_rows_are_dear_where_they_are_many():
    X, y = logistic_rows(20_000, [-0.5, 1.0])
    with pm.Model():
        pm.Bernoulli("y", logit_p=X @ pm.Normal("b", 0, 1, shape=2), observed=y)
        assert FireflyHMC(bound=None).sampler.autocorrelation == LARGEST_AUTOCORRELATION


def test_one_slow_coordinate_among_many_is_seen():
    """Before, it was taken for noise: of a thousand, 0.25 was taken off."""
    rng = np.random.default_rng(2)
    draws = rng.normal(size=(200, 1000))
    assert slowest_autocorrelation(draws) < 0.1
    for i in range(1, 200):
        draws[i, 7] = 0.8 * draws[i - 1, 7] + 0.6 * draws[i, 7]
    assert 0.6 < slowest_autocorrelation(draws) < 0.85


def test_parts_and_chains():
    watch = Stopwatch()
    time.sleep(0.02)
    watch.lap("mode_time")
    watch.lap("check_time")
    watch.begin_chain(100.0)
    found = watch.statistics()
    assert list(found) == list(TIMES)
    assert found["mode_time"] >= 0.02 > found["check_time"] and found["reading_time"] == 0.0
    assert 100.0 <= found["elapsed_time"] < 110.0


def test_times_are_saved_with_the_draws():
    """The parts are those of one set-up; together they are no longer than it took."""
    X, y = logistic_rows(200, 2)
    began = time.perf_counter()
    model, step = logistic_step(X, y, kernel="joint")
    took = time.perf_counter() - began
    stats = sample(model, step, draws=30, tune=20).sample_stats
    parts = [stats[name].values for name in SETUP]
    assert all(np.ptp(part) == 0.0 and part.min() > 0.0 for part in parts)
    assert 0.5 * took < sum(part[0, 0] for part in parts) < took
    elapsed = stats["elapsed_time"].values
    assert np.all(np.diff(elapsed, axis=1) > 0.0) and elapsed.min() > 0.0
