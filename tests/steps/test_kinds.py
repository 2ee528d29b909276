"""Steps of all kinds: settings, statistics, state."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import FireflyHMC, FireflyMALA, FireflyMH, FireflySlice
from tests.support.data import logistic_rows
from tests.support.models import logistic_model
from tests.support.native import arrays_of
from tests.support.steps import STEPS, advance, drive, identical, sample, step_of_kind


@pytest.fixture(scope="module")
def small():
    return logistic_model(*logistic_rows(30, [-0.5, 1.0], seed=1), 2.0)


@pytest.fixture(scope="module")
def built(small):
    """One step of each kind on the logistic model."""
    return small, {kind: step_of_kind(kind, small) for kind in STEPS}


@pytest.mark.slow
@pytest.mark.parametrize("kind", STEPS)
def test_same_draws_whatever_the_cores(built, kind):
    model, steps = built
    one = sample(model, steps[kind], cores=1)
    two = sample(model, steps[kind], cores=2)
    identical(one, two)


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("tuning", [True, False])
def test_state_round_trip(built, kind, tuning):
    """What a saved state resumes are the draws that would have followed."""
    model, steps = built
    step = steps[kind]
    step.setup_chain(np.random.default_rng(5), 100, 100)
    step.tune = True
    point = model.initial_point()
    for i in range(70 if tuning else 130):
        if i == 100:
            step.stop_tuning()
        point, _ = step.step(point)
    saved = step.sampling_state
    _, first = advance(step, point, 20)
    step.sampling_state = saved
    np.testing.assert_array_equal(advance(step, point, 20)[1], first)


@pytest.mark.parametrize("kind", STEPS)
def test_adaptation_ends_with_tuning(built, kind):
    model, steps = built
    step = steps[kind]

    def settings_now():
        chain = step.chain
        kept = arrays_of(chain.geometry)
        parameters = chain.kernel_parameters
        kept += [np.copy(parameters.width)] if hasattr(parameters, "width") else []
        kept += map(np.copy, getattr(parameters, "step_size", ()))
        return [*kept, np.array(step.tuning.transitions)]

    step.setup_chain(np.random.default_rng(6), 100, 100)
    step.tune = True
    point, _ = step.step(model.initial_point())
    first = settings_now()
    for _ in range(99):
        point, _ = step.step(point)
    step.stop_tuning()
    frozen = settings_now()
    assert any(not np.array_equal(a, b) for a, b in zip(first, frozen, strict=True))
    for _ in range(50):
        point, _ = step.step(point)
        for a, b in zip(settings_now(), frozen, strict=True):
            np.testing.assert_array_equal(a, b)


# Of so few rows the largest steps of trajectories are accepted in nine of ten cases.
@pytest.mark.parametrize(
    ("kind", "targets"),
    [("hmc", (0.94, 0.99)), pytest.param("mala", (0.6, 0.9), marks=pytest.mark.slow)],
)
def test_step_size_is_tuned_to_the_acceptance_asked_for(small, kind, targets):
    """Higher acceptance comes from shorter steps, in every chain; the recursion has a test."""
    steps, rates = [], []
    for target in targets:
        step = step_of_kind(kind, small, target_accept=target, transitions=20)
        _, drawn = drive(step, small.initial_point(), tune=400, draws=300, chains=4)
        steps.append(drawn["leapfrog_step_size"].reshape(4, -1)[:, -1])
        rates.append(drawn["acceptance_probability"].reshape(4, -1).mean(axis=1))
    assert steps[0].min() > steps[1].max()
    assert rates[0].max() < rates[1].min()


def test_statistics(built):
    model, steps = built
    n_steps = sample(model, steps["hmc"], draws=40).sample_stats["n_leapfrog_steps"]
    assert np.all(n_steps > 0)
    mala = sample(model, steps["mala"], draws=40).sample_stats
    np.testing.assert_array_equal(mala["n_leapfrog_steps"], mala["transitions"])
    assert np.all(sample(model, steps["slice"], draws=40).sample_stats["slice_width"] > 0.0)


def test_queries_of_trajectories_are_counted(small):
    """Each step of a trajectory, and the start of each draw, reads all rows without a bound."""
    step = step_of_kind("hmc", small, bound=None, transitions=5)
    _, drawn = drive(step, small.initial_point(), tune=20, draws=50)
    np.testing.assert_array_equal(drawn["likelihood_queries"], 30 * (drawn["n_leapfrog_steps"] + 1))


@pytest.mark.parametrize(
    ("cls", "settings", "message"),
    [
        (FireflyHMC, {"path_length": 0.0}, "path_length must be a positive number"),
        (FireflyHMC, {"target_accept": 1.0}, "target_accept must be a number between 0 and 1"),
        (FireflyMALA, {"target_accept": -0.1}, "target_accept must be a number between 0 and 1"),
        (FireflyHMC, {"metric": "full"}, "metric must be one of auto, dense, diagonal"),
        (FireflyHMC, {"bound": "tight"}, "bound must be a bound"),
        (FireflySlice, {"direction": "up"}, "direction must be one of coordinate, random"),
        (FireflySlice, {"transitions": 0}, "transitions must be a positive integer"),
    ],
)
def test_settings_are_checked(small, cls, settings, message):
    with small, pytest.raises(ValueError, match=message):
        cls(**settings)


def test_log(caplog, monkeypatch):
    """What was found, and what was chosen, with one parameter and with many."""
    monkeypatch.setattr("pymc_flymc.reporting.PATIENCE", 1e6)  # nothing on what takes long
    rng = np.random.default_rng(9)
    caplog.set_level("INFO", "pymc.flymc")
    for d in (1, 12):
        caplog.clear()
        with pm.Model():
            beta = pm.Normal("beta", 0.0, 1.0, shape=d)
            mu = rng.normal(size=(2000, d)) @ beta
            pm.StudentT("y", nu=4.0, mu=mu, sigma=1.0, observed=rng.normal(size=2000))
            FireflyMH()
        mode, choice, *_ = caplog.messages  # and perhaps how long it will take
        assert mode.startswith("FireflyMH: posterior mode found in ")
        assert choice.startswith("FireflyMH: conditional Hamiltonian moves read the bright ")
