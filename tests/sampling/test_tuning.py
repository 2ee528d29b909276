"""The number of transitions that a chain learns."""

import numpy as np
import pytest

from pymc_flymc.sampling.tuning import TARGET_AUTOCORRELATION, Tuning, slowest_autocorrelation

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
