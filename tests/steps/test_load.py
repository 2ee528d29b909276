"""Many chains, many steps, many draws: nothing grows, and nothing is left behind."""

import gc
import os
import sys
import tempfile
import threading
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

from pymc_flymc import FireflyHMC, FireflyMH, JaakkolaJordan
from pymc_flymc.graphs import memoise
from tests.support.data import logistic_rows
from tests.support.models import logistic_model
from tests.support.steps import drive, identical, sample, step_of

#: Bytes by which a process may grow that has no reason to: what allocators keep.
SLACK = 16 * 2**20
SHARED_MEMORY = Path("/dev/shm")


def resident():
    """Bytes of this process in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def left_behind(folder):
    """Return what there is in temporary folders, of this process, and its open files.

    PyTensor leaves the sources that it generates.
    """
    shared = sorted(SHARED_MEMORY.glob(f"*-{os.getpid()}-*"))
    return sorted(folder.glob("pymc-flymc-*")), shared, len(os.listdir("/proc/self/fd"))


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.slow
def test_64_chains_in_sequence(shared):
    """The last are those that they are among fewer."""
    model, step = shared()
    many = sample(model, step, chains=64, tune=20, draws=20)
    few = sample(model, step, chains=3, tune=20, draws=20)
    for name, values in few.posterior.data_vars.items():
        np.testing.assert_array_equal(values, many.posterior[name][:3])
    ends = many.posterior["beta"].values[:, -1]
    assert len(np.unique(ends, axis=0)) == 64


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks itself up in /proc")
def test_16_chains_at_once(shared, temporary):
    """Far more processes than cores, forked or not."""
    model, step = shared()
    expected = sample(model, step, chains=16, tune=20, draws=20)
    sample(model, step, cores=2)  # what Python keeps open for processes, once
    before = left_behind(temporary)
    identical(expected, sample(model, step, chains=16, cores=16, tune=20, draws=20))
    assert left_behind(temporary) == before


def test_steps_of_two_models_take_turns(shared):
    """In one process: neither disturbs the other."""
    model, step = shared()
    other = logistic_model(*logistic_rows(300, [0.2, 0.4, -0.3], seed=5))
    second = step_of(other, FireflyHMC, bound=JaakkolaJordan())
    alone = [drive(*given, tune=30, draws=30) for given in of((step, model), (second, other))]
    chains = [np.random.default_rng(0).spawn(1)[0] for _ in range(2)]
    points, steps = [model.initial_point(), other.initial_point()], [step, second]
    for each, rng in zip(steps, chains, strict=True):
        each.setup_chain(rng, 30, 30)
        each.tune = True
    for i in range(60):
        for k in range(2):
            if i == 30:
                steps[k].stop_tuning()
            points[k], _ = steps[k].step(points[k])
    for point, (draws, _) in zip(points, alone, strict=True):
        found = np.concatenate([np.ravel(value) for value in point.values()])
        np.testing.assert_array_equal(found, draws[0, -1])


def of(*pairs):
    return [(step, model.initial_point()) for step, model in pairs]


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks itself up in /proc")
def test_a_thousand_steps(temporary, monkeypatch):
    """Built on new data each time, used, and dropped."""
    monkeypatch.setattr(memoise, "KEPT", 100)  # as users have it; tests keep all that they compile
    monkeypatch.setattr(memoise, "_kept", OrderedDict())
    sizes = {}
    for i in range(1000):
        X, y = logistic_rows(2000, [-0.5, 1.0], seed=i)
        model = logistic_model(X, y)
        step = step_of(model, FireflyMH, bound=JaakkolaJordan())
        drive(step, model.initial_point(), tune=2, draws=2)
        del step, model
        if i in (200, 999):
            sizes[i] = resident()
            assert left_behind(temporary)[0] == []
            open_files = sizes.setdefault("files", left_behind(temporary)[2])
            assert left_behind(temporary)[2] == open_files
    print(sizes)
    # The tables of a step are 80 kB: 800 of them would be 64 MB.
    assert sizes[999] - sizes[200] < SLACK


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks itself up in /proc")
@pytest.mark.parametrize("kernel", ["metropolis", "joint", "hamiltonian"])
def test_ten_million_transitions(kernel):
    """A day's worth, and draws as PyMC makes them."""
    model = logistic_model(*logistic_rows(400))
    step = step_of(model, kernel=kernel)
    drive(step, model.initial_point(), tune=200, draws=2000)
    before, point = resident(), model.initial_point()
    step.chain.advance(step.rng, 10_000_000, 0.0)
    for _ in range(50_000):
        point, _ = step.step(point)
    assert resident() - before < SLACK


def test_threads_at_once(shared):
    """Chains of two steps in two threads of one process are what they are one after the other."""
    built = [shared("implicit-by-row"), shared("cycle")]
    expected = [drive(step, model.initial_point(), tune=30, draws=300) for model, step in built]
    found = [None, None]

    def run(k):
        model, step = built[k]
        found[k] = drive(step, model.initial_point(), tune=30, draws=300)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for (draws, _), (others, _) in zip(expected, found, strict=True):
        np.testing.assert_array_equal(draws, others)
