"""Anchors that move in tuning: when they do, what they save, and that draws stay exact."""

import logging
import pickle

import cloudpickle
import numpy as np
import pymc as pm
import pytest

from pymc_flymc import (
    FireflyHMC,
    FireflyMH,
    FireflySlice,
    JaakkolaJordan,
    Taylor,
    UnsupportedModelError,
)
from pymc_flymc.sampling.reanchoring import Anchors
from tests.support.comparison import assert_matches, quadrature, reference_from_draws
from tests.support.data import log_sigmoid, logistic_rows
from tests.support.models import logistic_model, logistic_posterior
from tests.support.native import arrays_of
from tests.support.nuts import draws_of
from tests.support.steps import advance, begin, drive

POOR = {"beta": np.array([-0.2, 1.5])}
STEPS = {
    "conditional": (FireflyMH, {"bound": JaakkolaJordan(), "transitions": 20}),
    "joint": (FireflyMH, {"bound": Taylor(), "transitions": 4}),
    "hmc": (FireflyHMC, {"transitions": 4}),
    "hmc-diagonal": (FireflyHMC, {"transitions": 6, "metric": "diagonal"}),
    "slice": (FireflySlice, {"transitions": 6}),
}


def rows(n=3000, d=2, seed=3):
    return logistic_rows(n, np.linspace(-1.5, 0.5, d), seed)


def logistic(n=3000, d=2):
    return logistic_model(*rows(n, d), 2.0)


@pytest.fixture(scope="module")
def poor():
    """Model, and steps with an anchor some ten posterior sds from the posterior."""
    model = logistic()
    steps = {}

    def get(kind):
        if kind not in steps:
            cls, settings = STEPS[kind]
            with model:
                steps[kind] = cls(anchor=POOR, **settings)
        return model, steps[kind]

    return get


@pytest.fixture(scope="module")
def reference():
    density = logistic_posterior(*rows(), 2.0)
    return quadrature(density, [-3.0, -1.0], [0.0, 2.0], size=101)


def bright_while_tuning(step, model, tune):
    """Bright rows of each tuning draw."""
    point, bright = begin(step, model, tune), []
    for _ in range(tune):
        point, [stats] = step.step(point)
        bright.append(stats["n_bright"])
    step.stop_tuning()
    return np.array(bright)


# --- a poor anchor --------------------------------------------------------------------------------


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=SLOW if "-" in kind else ()) for kind in STEPS]
)
@pytest.mark.slow_cases("hmc", "slice")
def test_poor_anchor_is_repaired(poor, reference, kind):
    """Far fewer rows are bright after tuning, and the posterior is that by quadrature."""
    model, step = poor(kind)
    before = bright_while_tuning(step, model, 20)  # too short a tuning for the anchor to move
    assert step.chain.target is step.target
    draws, stats = drive(step, model.initial_point(), tune=300, draws=4000, chains=2)
    assert step.chain.target is not step.target
    assert stats["n_bright"].mean() < 0.1 * before.mean()
    assert_matches(draws, reference)


@pytest.mark.slow
def test_several_likelihoods(reference):
    """The anchors of all of them move together."""
    X, y = rows()
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.0, shape=2)
        for name, some in (("first", slice(1200)), ("second", slice(1200, None))):
            pm.Bernoulli(name, logit_p=X[some] @ beta, observed=y[some])
        step = FireflySlice(anchor=POOR, transitions=6)
    assert len(step.target.parts) == 2
    draws, stats = drive(step, model.initial_point(), tune=300, draws=4000, chains=2)
    assert stats["n_bright"].mean() < 30
    assert_matches(draws, reference)


def test_move_is_reported(poor, caplog):
    model, step = poor("hmc")
    caplog.set_level(logging.INFO, "pymc.flymc")
    bright_while_tuning(step, model, 300)
    assert "FireflyHMC: a chain's anchor moves to the mean of 30 tuning draws" in caplog.text


def test_rows_are_not_copied(poor):
    model, step = poor("hmc")
    bright_while_tuning(step, model, 300)
    assert np.shares_memory(step.chain.target.data.rows.X, step.target.data.rows.X)


def test_nothing_moves_after_tuning(poor, monkeypatch):
    model, step = poor("hmc")
    bright_while_tuning(step, model, 300)
    target = step.chain.target
    kept = arrays_of((target.statistics, step.chain.geometry))
    monkeypatch.setattr(Anchors, "better", lambda *args: pytest.fail("a decision after tuning"))
    advance(step, model.initial_point(), 50)
    assert step.chain.target is target
    for before, now in zip(kept, arrays_of((target.statistics, step.chain.geometry)), strict=True):
        np.testing.assert_array_equal(before, now)


def test_tuning_lasts_as_long_as_asked(poor):
    """Steps begin to count again, and end with the last of them."""
    model, step = poor("conditional")
    bright_while_tuning(step, model, 300)
    assert step.tuning.steps < 300 and step.tuning.is_over
    frozen = np.copy(step.chain.kernel_parameters.log_scale)
    advance(step, model.initial_point(), 20)
    np.testing.assert_array_equal(step.chain.kernel_parameters.log_scale, frozen)


# --- chains, processes, state ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pytest.param("hmc", marks=SLOW), "joint"])
def test_same_draws_whatever_the_cores(poor, kind):
    """Each chain moves its own anchor; the next one starts from the step's first."""
    model, step = poor(kind)
    options = dict(tune=200, draws=20, chains=2, random_seed=1, progressbar=False)
    with model:
        one, two = (
            pm.sample(step=step, cores=cores, compute_convergence_checks=False, **options)
            for cores in (1, 2)
        )
    np.testing.assert_array_equal(one.posterior["beta"].values, two.posterior["beta"].values)
    for name in ("n_bright", "likelihood_queries"):
        a, b = one.sample_stats[name].values, two.sample_stats[name].values
        np.testing.assert_array_equal(a, b)
    assert one.sample_stats["n_bright"].values.mean() < 30


@pytest.mark.parametrize("kind", ["hmc", "joint"])
def test_pickled_step_moves_alike(poor, kind):
    """A process that has nothing but a pickle builds the same target."""
    model, step = poor(kind)
    begin(step, model)
    other = cloudpickle.loads(cloudpickle.dumps(step))
    results = [advance(s, begin(s, model), 320)[1] for s in (step, other)]
    np.testing.assert_array_equal(*results)
    assert other.chain.anchor is not None


@pytest.mark.parametrize(
    ("kind", "n"),
    [("conditional", 310), ("joint", 150), ("hmc", 150), pytest.param("hmc", 310, marks=SLOW)],
)
def test_state_round_trip(poor, kind, n):
    """While tuning goes on and after it: in the same step, and in one at the first anchor."""
    model, step = poor(kind)
    fresh = cloudpickle.loads(cloudpickle.dumps(step))
    fresh.chain_state = None
    point = begin(step, model)
    for i in range(n):
        if i == 300:
            step.stop_tuning()
        point, _ = step.step(point)
    assert step.chain.anchor is not None
    saved = pickle.loads(pickle.dumps(step.sampling_state))
    target = step.chain.target
    _, expected = advance(step, point, 60)
    step.sampling_state = saved
    if n > 300:
        assert step.chain.target is target, "no pass over the data if the anchor is the same"
    np.testing.assert_array_equal(advance(step, point, 60)[1], expected)
    begin(step, model)  # another chain at the first anchor
    step.sampling_state = saved
    np.testing.assert_array_equal(advance(step, point, 60)[1], expected)
    fresh.sampling_state = saved
    np.testing.assert_array_equal(advance(fresh, point, 60)[1], expected)


# --- ordinary models ------------------------------------------------------------------------------


@pytest.mark.parametrize(("cls", "transitions"), [(FireflyMH, 20), (FireflyHMC, 3)])
def test_good_anchor_stays(cls, transitions, monkeypatch):
    """Many bright rows are no reason: no pass is made, and draws are as if nothing could move."""
    model = logistic(3000, 40)
    with model:
        step = cls(bound=JaakkolaJordan(), transitions=transitions)
    looks, far = [], Anchors._keep_away
    monkeypatch.setattr(Anchors, "_keep_away", lambda *args: looks.append(far(*args)) or looks[-1])
    monkeypatch.setattr(Anchors, "target_at", lambda *args: pytest.fail("built"))
    options = dict(tune=300, draws=20, chains=2)
    draws, stats = drive(step, model.initial_point(), **options)
    assert stats["n_bright"].mean() > 30
    assert looks and not any(looks)
    monkeypatch.setattr(Anchors, "better", lambda *args: None)
    again, same = drive(step, model.initial_point(), **options)
    np.testing.assert_array_equal(draws, again)
    for name, values in stats.items():
        np.testing.assert_array_equal(values, same[name])


def test_bound_that_touches_elsewhere_stays(poor):
    """Where the user's xi say, an anchor nearer to the posterior saves nothing."""
    model, _ = poor("hmc")
    with model:
        step = FireflyMH(bound=JaakkolaJordan(xi=np.full(3000, 4.0)), anchor=POOR, transitions=20)
    assert bright_while_tuning(step, model, 300).mean() > 100
    assert step.chain.target is step.target


def test_a_place_without_a_mode_is_no_anchor():
    """A chain in the tail of a probability that is nearly zero goes on with the anchor it has."""
    group, rng = np.arange(60) % 2, np.random.default_rng(1)
    with pm.Model():
        p = pm.Beta("p", 0.4, 0.4, shape=2)
        pm.Bernoulli("y", p=p[group], observed=(group == 0) & (rng.random(60) < 0.6))
        step = FireflyMH(kernel="joint")
    step.setup_chain(rng, 100, 100)
    step.step(step.model.initial_point())
    anchors, draws = step.sampler.anchors, rng.normal([0.25, -12.0], 0.01, (20, 2))
    chain = step.chain
    theta, w = draws.mean(axis=0), chain.target.coefficients(draws.mean(axis=0), chain.statistics)
    with pytest.raises(UnsupportedModelError, match="no posterior mode found"):
        anchors._anchor(chain, theta, w)
    assert anchors.better(chain, draws, bright=1e4) is None


# --- hierarchies ----------------------------------------------------------------------------------


def weak_coefficients(n=6000, d=140):
    """Many small coefficients times a free scale: at the mode they are not shrunk at all."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, d))
    y = (rng.random(n) < np.exp(log_sigmoid(X @ rng.normal(0.0, 0.01, d) - 1.5))).astype(int)
    with pm.Model() as model:
        level = pm.Normal("level", 0.0, 2.0)
        tau = pm.HalfNormal("tau", 1.0)
        z = pm.Normal("z", 0.0, 1.0, shape=d)
        pm.Bernoulli("y", logit_p=level + X @ (tau * z), observed=y)
    return model


@pytest.mark.slow
def test_mode_far_from_the_posterior():
    model = weak_coefficients()
    with model:
        step = FireflyHMC(transitions=3)
    bright = bright_while_tuning(step, model, 300)
    assert step.chain.target is not step.target
    assert bright[-100:].mean() < 0.5 * bright[30:60].mean()


@pytest.mark.slow
def test_mode_far_from_the_posterior_against_nuts():
    model = weak_coefficients(n=3000, d=100)
    options = dict(model=model, chains=2, cores=2, progressbar=False, random_seed=4)

    with model:
        step = FireflyHMC(transitions=10)
    ours = pm.sample(step=step, tune=1000, draws=20_000, **options)
    assert ours.sample_stats["n_bright"].mean() < 0.5 * step.target.parts[0].expected_bright
    reference = pm.sample(tune=1000, draws=9000, nuts_sampler="pymc", **options)
    theirs, ours = (draws_of(idata, ["level", "tau", "z"]) for idata in (reference, ours))
    assert_matches(ours, reference_from_draws(theirs))
