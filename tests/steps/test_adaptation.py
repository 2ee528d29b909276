"""Adaptation happens in tuning, and only then."""

from collections import OrderedDict

import numpy as np
import pymc as pm
import pytensor
import pytest

from pymc_flymc import FireflyMH
from pymc_flymc.graphs import memoise
from tests.support.data import logistic_rows
from tests.support.models import logistic_model
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


def hierarchy(n=2000, n_groups=40):
    rng = np.random.default_rng(4)
    group, x = rng.integers(0, n_groups, n), rng.normal(size=n)
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1.0)
        effects = pm.Normal("effects", pm.Normal("mu"), tau, shape=n_groups)
        eta = effects[group] + pm.Normal("slope") * x
        pm.Poisson("y", pm.math.exp(eta), observed=rng.poisson(np.exp(0.3 * x)))
    return model


@pytest.mark.parametrize(
    ("model", "kernel", "n_functions"),
    [
        # Of PyMC the initial point; derivatives of rows, their factors, and the density.
        (lambda: logistic_model(*logistic_rows(2000, [0.5, -0.3])), "joint", 4),
        # And gradients of the latter two, and of the coefficients.
        (hierarchy, "hamiltonian", 6),
    ],
    ids=["logistic", "groups"],
)
def test_few_functions_are_made(monkeypatch, model, kernel, n_functions):
    """What is evaluated a few times is not compiled."""
    monkeypatch.setattr(memoise, "_kept", OrderedDict())  # of no other test
    monkeypatch.setattr(memoise, "load", lambda *_: None)  # and nothing is on disk
    made, function = [], pytensor.function

    def counting(*arguments, **settings):
        made.append(arguments)
        return function(*arguments, **settings)

    monkeypatch.setattr(pytensor, "function", counting)
    with model():
        step = FireflyMH(kernel=kernel)
    assert step.target.spec.name == kernel
    assert len(made) == n_functions
