"""Threads share the work on blocks of rows, and no number depends on how many there are.

Nor on what other threads build or sample.
"""

import multiprocessing
import sys
import threading
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from pymc_flymc import FireflyHMC, FireflyMH, JaakkolaJordan, Taylor
from pymc_flymc.graphs import memoise
from pymc_flymc.regression.matrices import DenseRows
from pymc_flymc.steps import setup
from pymc_flymc.threads import Lock, in_order


@pytest.fixture(params=[1, 2, 5])
def n_threads(request, monkeypatch):
    monkeypatch.setattr("numba.core.config.NUMBA_NUM_THREADS", request.param)
    return request.param


def blas_threads():
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def test_results_come_in_order(n_threads):
    """Though each item takes less time than the one before, and all but the first are shared."""
    workers = set()

    def work(i):
        time.sleep(0.002 * (12 - i))
        workers.add(threading.get_ident())
        assert blas_threads() == {1}
        return i * i

    with threadpool_limits(2, user_api="blas"):
        assert list(in_order(work, iter(range(12)), 12)) == [i * i for i in range(12)]
        assert blas_threads() == {2}
    assert len(workers) == (1 if n_threads == 1 else n_threads + 1)
    assert list(in_order(work, [], 0)) == []


def test_a_step_is_built_with_one_thread_of_blas(monkeypatch):
    """Products are small then, and threads would wait for each other."""
    found, read = [], setup.read

    def reading(*arguments):
        found.append(blas_threads())
        return read(*arguments)

    monkeypatch.setattr(setup, "read", reading)
    with threadpool_limits(2, user_api="blas"), pm.Model():
        a = pm.Normal("a", 0.0, 1.0)
        pm.Bernoulli("y", logit_p=np.ones(20) * a, observed=np.arange(20) % 2)
        FireflyMH()
        assert blas_threads() == {2}
    assert found == [{1}]


def test_no_thread_is_left(n_threads):
    """Neither at the end nor after an error, nor if nobody asks for the rest."""
    before = threading.enumerate()

    def work(i):
        if i == 5:
            raise ZeroDivisionError
        return i

    with pytest.raises(ZeroDivisionError):
        list(in_order(work, range(12), 12))
    assert threading.enumerate() == before
    results = in_order(work, range(12), 12)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    results.close()
    assert threading.enumerate() == before


def test_the_context_is_that_of_the_caller(n_threads):
    """NumPy's handling of overflow is part of it."""
    with np.errstate(over="raise"):
        results = in_order(lambda i: np.exp(np.float64(1000.0 * (i == 5))), range(12), 12)
        with pytest.raises(FloatingPointError):
            list(results)


def built(bound, monkeypatch, n):
    """Statistics, constants and first draws of a step whose set-up is done by n threads."""
    monkeypatch.setattr("numba.core.config.NUMBA_NUM_THREADS", n)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    y = rng.random(3000) < 1.0 / (1.0 + np.exp(-X @ [1.0, -0.5, 0.2]))
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=3)
        a = pm.Normal("a", 0.0, 1.0)
        pm.Bernoulli("y", logit_p=a + X @ beta, observed=y)
        step = FireflyMH(bound=bound)
    step.setup_chain(np.random.default_rng(1), 0, 10)
    point = model.initial_point()
    for _ in range(5):
        point, _ = step.step(point)
    (rows,) = step.target.data.parts
    return step.target.statistics, rows.constants, point["beta"]


@pytest.mark.parametrize(
    "bound",
    [Taylor(), pytest.param(Taylor(order=3), marks=pytest.mark.slow), JaakkolaJordan()],
    ids=lambda bound: bound.name,
)
def test_same_draws_whatever_the_threads(bound, monkeypatch):
    monkeypatch.setattr(DenseRows, "block_rows", 100)
    alone = built(bound, monkeypatch, 1)
    for n in (2, 5):
        for one, other in zip(alone, built(bound, monkeypatch, n), strict=True):
            np.testing.assert_array_equal(one, other)


def counts(seed):
    """A model of counts in groups; models with other seeds have equal graphs."""
    rng, group = np.random.default_rng(seed), np.arange(400) % 8
    with pm.Model() as model:
        scale = pm.HalfNormal("scale")
        effect = pm.Normal("effect", 0.0, scale, shape=8)
        eta = pm.Normal("a") + rng.normal(size=400) * pm.Normal("b") + effect[group]
        pm.Poisson("y", pm.math.exp(eta), observed=rng.poisson(1.5, 400))
    return model


def drawn(seed):
    """Draws of a chain that tunes far from its anchor, which moves meanwhile."""
    model = counts(seed)
    with model:
        step = FireflyHMC(anchor={"a": 2.0, "scale": 0.5})
    step.setup_chain(np.random.default_rng(seed), 100, 1)
    step.tune, point = True, model.initial_point()
    for _ in range(100):
        point, (stats,) = step.step(point)
    return np.concatenate([np.ravel(each) for each in point.values()]), stats["anchor_moved"]


def test_threads_that_build_and_sample_do_not_disturb_each_other():
    """PyTensor's functions are those of all equal models, and keep what they are called with."""
    alone, interval = [drawn(seed) for seed in range(2)], sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # collisions that are rare otherwise
    try:
        with ThreadPoolExecutor(2) as pool:
            together = list(pool.map(drawn, range(2)))
    finally:
        sys.setswitchinterval(interval)
    for (draw, moved), (expected, _) in zip(together, alone, strict=True):
        assert moved
        np.testing.assert_array_equal(draw, expected)


def test_models_are_read_one_at_a_time(monkeypatch):
    running, most = [], []

    def reading(*_):
        running.append(None)
        most.append(len(running))
        time.sleep(0.05)
        running.pop()
        raise ZeroDivisionError

    def build():
        with counts(0), pytest.raises(ZeroDivisionError):
            FireflyMH()

    monkeypatch.setattr(setup, "read", reading)
    builders = [threading.Thread(target=build) for _ in range(3)]
    for each in builders:
        each.start()
    for each in builders:
        each.join()
    assert most == [1, 1, 1]


def test_equal_graphs_are_compiled_by_one_thread(monkeypatch):
    monkeypatch.setattr(memoise, "_kept", OrderedDict())
    made = []

    def make():
        time.sleep(0.05)
        made.append(None)
        return len(made)

    def ask(_):
        x = pt.vector("x")
        return memoise.memoised(make, inputs=[x], outputs=[x + 1.0])

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(ask, range(3))) == [1, 1, 1]


def _enter(lock):
    with lock.held():
        pass


def test_a_forked_process_does_not_wait_for_threads_that_it_lacks():
    lock, held, done = Lock(), threading.Event(), threading.Event()

    def hold():
        with lock.held():
            held.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    process = multiprocessing.get_context("fork").Process(target=_enter, args=(lock,))
    process.start()
    process.join(20.0)
    process.kill()
    done.set()
    holder.join()
    assert process.exitcode == 0
