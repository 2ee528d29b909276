"""Steps on data that have changed since they were built."""

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from pymc.sampling import mcmc

from pymc_flymc import FireflyHMC, FireflyMH, weighted
from pymc_flymc.graphs import memoise
from tests.support.steps import identical, sample

N = 300


def simulated(seed=0, n=N, sign=1.0, groups=4):
    """Values of all data containers."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return {
        "X": X,
        "exposure": rng.normal(size=n),
        "group": rng.integers(0, groups, size=n),
        "size": rng.normal(size=groups),
        "outcome": (rng.random(n) < 1.0 / (1.0 + np.exp(-2.0 * sign * X[:, 0]))).astype(int),
    }


@pytest.fixture
def model():
    values = simulated()
    with pm.Model(coords={"coefficient": range(2)}) as model:
        X = pm.Data("X", values["X"], dims=("row", "coefficient"))
        exposure = pm.Data("exposure", values["exposure"], dims="row")
        group = pm.Data("group", values["group"], dims="row")
        size = pm.Data("size", values["size"], dims="group_of_rows")
        beta = pm.Normal("beta", 0.0, 1.0, dims="coefficient")
        effect = pm.Normal("effect", 0.1 * size, 1.0, dims="group_of_rows")
        eta = X @ beta + exposure + effect[group]
        outcome = pm.Data("outcome", values["outcome"], dims="row")
        pm.Bernoulli("y", logit_p=eta, observed=outcome, dims="row")
    return model


def change(model, what):
    """Put other values in the place of some data."""
    with model:
        if what == "all, of other lengths":
            new = simulated(seed=2, n=N - 60, groups=6)
            coords = {"row": range(N - 60), "group_of_rows": range(6)}
            pm.set_data(new, coords=coords)
        elif what == "in place":
            outcome = model["outcome"].get_value(borrow=True)
            outcome[:] = 1 - outcome
        else:
            sign = -1.0 if what == "outcome" else 1.0
            pm.set_data({what: simulated(seed=0 if what == "outcome" else 1, sign=sign)[what]})


CHANGES = ["outcome", "X", "exposure", "group", "size", "in place", "all, of other lengths"]
# Where data are read again, all of them are: other processes need not see each change.
# The quick suite has data of other lengths, and outcomes that change in place.
QUICK = [("all, of other lengths", 1), ("in place", 2)]
CASES = [
    pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow)
    for case in (*((what, 1) for what in CHANGES), QUICK[-1], ("all, of other lengths", 2))
]


@pytest.mark.parametrize(("what", "cores"), CASES)
@pytest.mark.slow_cases("all, of other lengths-1")
def test_the_draws_are_those_of_a_new_step(model, what, cores):
    with model:
        step = FireflyMH()
    before = sample(model, step, cores=cores)
    change(model, what)
    after = sample(model, step, cores=cores)  # the step has sampled before
    with model:
        identical(after, sample(model, FireflyMH(), cores=1))
    assert not np.array_equal(before.posterior["beta"].values, after.posterior["beta"].values)
    if what in ("outcome", "in place"):
        assert before.posterior["beta"][..., 0].mean() > 1.0
        assert after.posterior["beta"][..., 0].mean() < -1.0


def test_data_that_change_during_a_run_end_it(model):
    """Else the chains of one run would be of different data."""
    with model:
        step = FireflyMH()

    def changed(trace, draw):
        if len(trace) == 30:
            change(model, "outcome")

    with pytest.raises(ValueError, match=r"changed while pm\.sample ran"):
        sample(model, step, tune=10, draws=30, callback=changed)
    with model:
        identical(sample(model, step), sample(model, FireflyMH()))


def test_data_that_changed_before_a_run_do_not_end_it(model, monkeypatch):
    """Where processes share nothing the step is pickled, when the run has begun."""

    class Pickled(Exception):
        pass

    def pickle_step(*_, step, **__):
        cloudpickle.dumps(step)
        raise Pickled

    with model:
        step = FireflyMH()
    sample(model, step)
    before = step.data
    change(model, "in place")
    monkeypatch.setattr(mcmc, "_mp_sample", pickle_step)
    with pytest.raises(Pickled):
        sample(model, step, cores=2)
    assert step.data != before


@pytest.mark.parametrize(
    "cls", [FireflyMH, pytest.param(FireflyHMC, marks=pytest.mark.slow)], ids=lambda c: c.__name__
)
def test_a_step_that_has_not_sampled_before(model, cls):
    with model:
        step = cls()
    change(model, "outcome")
    after = sample(model, step, draws=40)
    with model:
        identical(after, sample(model, cls(), draws=40))


def test_other_weights():
    values = simulated()
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=2)
        weights = pm.Data("weights", np.ones(N))
        dist = pm.Bernoulli.dist(logit_p=values["X"] @ beta)
        weighted("y", dist, weights, observed=values["outcome"])
        step = FireflyMH(kernel="joint")
        before = sample(model, step)
        pm.set_data({"weights": np.full(N, 9.0)})
        after = sample(model, step)
        identical(after, sample(model, FireflyMH(kernel="joint")))
    spread = [draws.posterior["beta"].std(("chain", "draw")).values for draws in (before, after)]
    assert np.all(spread[1] < 0.6 * spread[0])  # a third, but for the prior


def test_nothing_is_read_again_without_need(model):
    with model:
        step = FireflyMH()
    target = step.target
    sample(model, step, tune=10, draws=10)
    sample(model, step, tune=10, draws=10)
    assert step.target is target
    change(model, "outcome")
    assert step.vars and step.target is not target


def test_data_of_the_same_shapes_compile_nothing(model, monkeypatch):
    with model:
        step = FireflyMH()

    def refuse(*arguments, **settings):
        raise AssertionError("compiled again")

    kept = dict(memoise._kept)
    monkeypatch.setattr("pymc_flymc.graphs.compilation._compile", refuse)
    for what in ("outcome", "X", "exposure", "group"):
        change(model, what)
        assert step.vars
    assert dict(memoise._kept) == kept


def test_data_that_cannot_be_sampled_never_are(model):
    with model:
        step = FireflyMH()
        good = simulated(seed=3)["X"]
        bad = good.copy()
        bad[5, 1] = np.nan
        pm.set_data({"X": bad})
        for _ in range(2):  # not the old ones when it is tried again, either
            with pytest.raises(ValueError, match="NaN or infinite values in 1 of 300 rows"):
                sample(model, step)
        pm.set_data({"X": good})
        identical(sample(model, step), sample(model, FireflyMH()))


def test_a_potential_added_later_counts(model):
    with model:
        step = FireflyMH()
        pm.Potential("pull", -500.0 * (model["beta"][1] - 3.0) ** 2)
        posterior = sample(model, step).posterior
    assert abs(posterior["beta"][..., 1].mean() - 3.0) < 0.5


def test_a_state_of_other_data_is_not_taken_over(model):
    with model:
        step = FireflyMH()
    point = model.initial_point()
    step.setup_chain(np.random.default_rng(0), 0, 10)
    point, _ = step.step(point)
    state = step.sampling_state
    step.sampling_state = state
    assert step.chain_state is not None
    change(model, "outcome")
    assert step.vars
    step.sampling_state = state
    assert step.chain_state is None
    step.step(point)
