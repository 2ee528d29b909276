"""Runs that go on are, to the last bit, those that were never interrupted."""

import os

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import (
    ExplicitResampling,
    FireflyHMC,
    FireflyMALA,
    FireflyMH,
    FireflySlice,
    JaakkolaJordan,
    Taylor,
    checkpoint,
    reporting,
)
from pymc_flymc.reporting import TIMES
from pymc_flymc.sampling.choice import KERNEL_NAMES
from tests.support import out_of_core
from tests.support.data import logistic_rows
from tests.support.killing import run_killed, same, values
from tests.support.models import intercepts_model, logistic_model
from tests.support.steps import sample, step_of

STEPS = {
    **{
        each: (FireflyMH, {"kernel": each})
        for each in KERNEL_NAMES
        if each not in ("auto", "local")
    },
    "hmc": (FireflyHMC, {}),
    "hmc-diagonal": (FireflyHMC, {"metric": "diagonal"}),
    "mala": (FireflyMALA, {}),
    "slice": (FireflySlice, {}),
    "cycle": (FireflyMH, {"brightness": ExplicitResampling(0.1, "cycle"), "proposal": "pcn"}),
    "all-rows": (FireflyHMC, {"bound": None}),
}
SLOW = "hmc-diagonal", "mala", "all-rows"
TUNE, DRAWS = 70, 30


@pytest.fixture(scope="module")
def model():
    return logistic_model(*logistic_rows(400))


@pytest.fixture
def saved_each_time(monkeypatch):
    """A state after each draw."""
    for name in ("INTERVAL", "RATIO"):
        monkeypatch.setattr(checkpoint, name, 0.0)
    monkeypatch.setattr(checkpoint.os, "fsync", lambda _: None)


def chain_of(step, model, stop=None, tune=TUNE):
    """All draws of a chain up to some draw, with its statistics but for times."""
    step.setup_chain(np.random.default_rng(1).spawn(1)[0], tune, DRAWS)
    point, found = model.initial_point(), []
    for i in range(stop or tune + DRAWS):
        if i == tune:
            step.stop_tuning()
        if i % 10 == 0:
            assert step.sampling_state is not None  # as PyMC's ZarrTrace looks at it
        point, [stats] = step.step(point)
        assert stats.pop("warning") is None
        kept = [value for name, value in stats.items() if name not in TIMES]
        found.append((*np.concatenate([np.ravel(v) for v in point.values()]), *kept))
    return np.array(found)


def forget_chains(folder):
    for file in folder.glob("chain-*"):
        file.unlink()


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow if kind in SLOW else ()) for kind in STEPS]
)
@pytest.mark.slow_cases("surrogate", "hamiltonian", "slice")
def test_state_is_all_that_the_next_draw_depends_on(kind, model, tmp_path, saved_each_time):
    """Abandoned at a draw of tuning, at its last, and after it: each time from the disk."""
    cls, settings = STEPS[kind]
    assert_resumed(step_of(model, cls, checkpoint=tmp_path, **settings), model, tmp_path)


@pytest.mark.slow
def test_state_of_local_sweeps(any_size, tmp_path, saved_each_time):
    model = intercepts_model()
    assert_resumed(step_of(model, kernel="local", checkpoint=tmp_path), model, tmp_path)


def assert_resumed(step, model, tmp_path):
    expected = chain_of(step, model)
    for stop in (17, TUNE, TUNE + 9):
        forget_chains(tmp_path)
        chain_of(step, model, stop)
        np.testing.assert_array_equal(expected, chain_of(step, model))


@pytest.mark.parametrize(
    ("cls", "settings"),
    [
        pytest.param(FireflyMH, {"bound": Taylor()}, marks=pytest.mark.slow),
        (FireflySlice, {}),
    ],
)
def test_anchors_that_have_moved(cls, settings, tmp_path, saved_each_time):
    model = logistic_model(*logistic_rows(3000, [-1.5, 0.5]), 2.0)
    settings = settings | {"anchor": {"beta": [-0.2, 1.5]}, "transitions": 4}
    step = step_of(model, cls, checkpoint=tmp_path, **settings)
    expected = chain_of(step, model, tune=220)
    forget_chains(tmp_path)
    for stop in (30, 90, 230):
        chain_of(step, model, stop, tune=220)
        assert (step.chain.anchor is None) == (stop == 30)
        step = step_of(model, cls, checkpoint=tmp_path, **settings)
    np.testing.assert_array_equal(expected, chain_of(step, model, tune=220))


def test_rows_out_of_core(tmp_path, saved_each_time):
    X, y = logistic_rows(500)
    data = {"X": X, "y": y}
    model = out_of_core.written_on_head(data, out_of_core.logistic)
    step = out_of_core.step_elsewhere(model, data, checkpoint=tmp_path)
    expected = chain_of(step, model)
    forget_chains(tmp_path)
    chain_of(step, model, 40)
    again = out_of_core.step_elsewhere(model, data, checkpoint=tmp_path)
    np.testing.assert_array_equal(expected, chain_of(again, model))
    with pytest.raises(ValueError, match="other data"):
        others = np.concatenate([y[:40], 1 - y[40:]])
        out_of_core.step_elsewhere(model, {"X": X, "y": others}, checkpoint=tmp_path)


def test_time_goes_on(model, tmp_path, monkeypatch, saved_each_time):
    """A chain's time is that of all its processes, but for what lay between them."""
    now = 0.0
    monkeypatch.setattr(reporting, "perf_counter", lambda: now)
    step = step_of(model, checkpoint=tmp_path)

    def times(seconds):
        nonlocal now
        step.setup_chain(np.random.default_rng(1).spawn(1)[0], TUNE, DRAWS)
        point = model.initial_point()
        for each in seconds:
            now += each
            point, [stats] = step.step(point)
            yield stats["elapsed_time"]

    assert list(times([100.0, 100.0])) == [100.0, 200.0]
    now += 1e6
    assert list(times([0.0, 0.0, 5.0])) == [100.0, 200.0, 205.0]


@pytest.mark.slow
def test_nothing_changes_without_a_kill(model, tmp_path):
    """Draws are those without a checkpoint; a second run returns them, a third more or fewer."""
    plain = step_of(model)
    step = step_of(model, checkpoint=tmp_path)
    same(values(whole(model, plain)), values(whole(model, step)))
    before = {file: file.stat().st_mtime_ns for file in tmp_path.glob("chain-*")}
    again = step_of(model, checkpoint=tmp_path)
    same(values(whole(model, plain)), values(whole(model, again, cores=2)))
    assert before == {file: file.stat().st_mtime_ns for file in tmp_path.glob("chain-*")}
    for settings in ({"draws": 130}, {"draws": 20}, {"chains": 3}):
        same(
            values(whole(model, plain, **settings)),
            values(whole(model, step_of(model, checkpoint=tmp_path), **settings)),
        )


def whole(model, step, **settings):
    return sample(model, step, discard_tuned_samples=False, **settings)


def test_state_on_disk_does_not_grow_with_the_rows(tmp_path):
    sizes = []
    for n in (1_000, 30_000):
        model, folder = logistic_model(*logistic_rows(n)), tmp_path / str(n)
        step = step_of(model, checkpoint=folder, kernel="joint")
        chain_of(step, model)
        sizes.append(sum(file.stat().st_size for file in folder.iterdir()))
    assert abs(sizes[0] - sizes[1]) < 500


@pytest.mark.filterwarnings("ignore:vars leaves out")
def test_beside_another_step(tmp_path):
    """The others make their draws again, and must come to the same ones."""
    X, y = logistic_rows(40, [-0.5])
    with pm.Model() as model:
        log_tau = pm.Normal("log_tau", 0.0, 1.0)
        beta = pm.Normal("beta", 0.0, pm.math.exp(log_tau), shape=1)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)

    def steps(**settings):
        with model:
            own = FireflyMH([model["beta"]], bound=JaakkolaJordan(), **settings)
            other = pm.Slice([model["log_tau"]], compile_kwargs={"mode": "NUMBA"})
        return [own, other]

    plain = values(whole(model, steps()))
    for draws in (40, 80):
        found = values(whole(model, steps(checkpoint=tmp_path), draws=draws))
    same(plain, found)
    with pytest.raises(ValueError, match="other step methods"):
        own, _ = steps(checkpoint=tmp_path)
        with model:
            other = pm.Metropolis([model["log_tau"]])
        sample(model, [own, other])


def kinds_for_kills(model, kind):
    """What builds model and step. A draw is one transition: else it is as long as it may be."""
    if kind == "local":
        model = intercepts_model()
    cls, settings = STEPS.get(kind, (FireflyMH, {"kernel": kind}))
    settings = settings | {"transitions": 1}
    return lambda folder: (model, step_of(model, cls, checkpoint=folder, **settings))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
# Two processes write as the one does, a file for each chain, and take twice as long.
@pytest.mark.parametrize("cores", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_killed(cores, model, tmp_path):
    """Processes that are killed, in the set-up, in tuning and after it, and begun again."""
    build = kinds_for_kills(model, "metropolis")
    settings = dict(cores=cores, tune=300, draws=20_000)  # a second, for who kills it to be in time
    expected = values(whole(*build(None), **settings))
    found, on_disk = run_killed(tmp_path, build, settings, [0.05, 100, 1500])
    assert on_disk[0] == 0 and 100 <= on_disk[1] < on_disk[2] < 20_300 and 1500 <= on_disk[2]
    same(expected, found)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("cores", [1, 2])
def test_killed_with_rows_out_of_core(cores, tmp_path):
    """Of maps, opened again by each process; superbatches that were under way are lost."""
    for name, values_of in zip("Xy", logistic_rows(20_000), strict=True):
        np.save(tmp_path / f"{name}.npy", values_of)

    def build(folder):
        data = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "Xy"}
        model = out_of_core.written_on_head(data, out_of_core.logistic)
        return model, out_of_core.step_elsewhere(model, data, checkpoint=folder)

    settings = dict(cores=cores, tune=100, draws=20_000)
    expected = values(whole(*build(None), **settings))
    found, on_disk = run_killed(tmp_path, build, settings, [0.5, 100, 1500, 5000, 15_000])
    assert 100 <= on_disk[1] < on_disk[2] < on_disk[3]
    same(expected, found)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("kind", [*STEPS, "local"])
def test_killed_at_twenty_random_moments(kind, cores, model, tmp_path, any_size):
    build = kinds_for_kills(model, kind)
    settings = dict(cores=cores, tune=500, draws=4000)
    expected = values(whole(*build(None), **settings))
    rng = np.random.default_rng()
    moments = [*rng.uniform(0.0, 1.0, 8).tolist(), *np.sort(rng.integers(1, 4400, 12)).tolist()]
    found, on_disk = run_killed(tmp_path, build, settings, moments)
    print(kind, cores, on_disk)
    same(expected, found)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_that_share_nothing(method, model, tmp_path):
    plain = values(whole(model, step_of(model)))
    for draws in (30, 80):
        step = step_of(model, checkpoint=tmp_path)
        found = values(whole(model, step, draws=draws, cores=2, mp_ctx=method))
    same(plain, found)
