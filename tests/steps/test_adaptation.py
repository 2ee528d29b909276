"""Adaptation happens in tuning, and only then."""

import numpy as np

from tests.support.native import arrays_of
from tests.support.steps import sample


def test_adaptation_ends_with_tuning(shared):
    model, step = shared()
    step.setup_chain(np.random.default_rng(0), 150, 150)
    step.tune = True
    point = model.initial_point()

    def settings_now():
        moves = step.chain.kernel_parameters
        learnt = (*moves.log_scale, *moves.weight, *moves.gain)
        return *(float(x) for x in learnt), step.tuning.transitions

    first = None
    for _ in range(150):
        point, _ = step.step(point)
        first = first or settings_now()
    assert settings_now()[0] != first[0], "tuning moved the scale"
    step.stop_tuning()
    point, _ = step.step(point)
    frozen = settings_now()
    geometry = arrays_of(step.target.geometry)
    statistics = step.target.statistics.copy()
    for _ in range(150):
        point, [stats] = step.step(point)
        assert settings_now() == frozen
        assert stats["transitions"] == frozen[-1]
    assert step.chain.kernel_parameters.gain[0] == 0.0
    np.testing.assert_array_equal(statistics, step.target.statistics)
    for before, after in zip(geometry, arrays_of(step.target.geometry), strict=True):
        np.testing.assert_array_equal(before, after)


def test_adaptation_is_frozen_in_the_draws_of_parallel_chains(shared):
    model, step = shared()
    stats = sample(model, step, cores=2, draws=60).sample_stats
    for name in ("random_walk_scale", "pcn_scale", "transitions"):
        assert np.all(stats[name].values == stats[name].values[:, :1])


def test_no_tuning(shared):
    model, step = shared()
    for cores in (1, 2):
        stats = sample(model, step, tune=0, draws=40, cores=cores).sample_stats
        assert np.all(stats["random_walk_scale"].values == 2.38 / np.sqrt(3))
