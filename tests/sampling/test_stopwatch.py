"""Times of stages: each part of a set-up has its own, and a chain goes on where it was."""

import time

import numpy as np

from pymc_flymc.reporting import SETUP, TIMES, Stopwatch
from tests.support.data import logistic_rows
from tests.support.steps import logistic_step, sample


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
