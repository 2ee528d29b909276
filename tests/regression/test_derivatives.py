"""Derivatives of rows are evaluated by several threads at a time."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from pymc_flymc.likelihoods import BernoulliLogit
from pymc_flymc.regression.derivatives import RowDerivatives

rng = np.random.default_rng(0)


def rows(n):
    return rng.normal(size=(1, n)), rng.integers(0, 2, n).astype(float)


def test_the_lock_of_python_is_not_held():
    """Another thread goes on in the middle of a call that takes long."""
    derivatives = RowDerivatives(BernoulliLogit())
    derivatives(*rows(10))  # compiles
    (eta,), y = rows(3_000_000)
    times, over = [], threading.Event()

    def tick():
        while not over.wait(0.001):
            times.append(time.perf_counter())

    thread = threading.Thread(target=tick)
    thread.start()
    began = time.perf_counter()
    derivatives._function(eta, y)
    ended = time.perf_counter()
    over.set()
    thread.join()
    third = (ended - began) / 3
    assert any(began + third < each < ended - third for each in times)


def test_threads_do_not_mix_their_rows():
    derivatives = RowDerivatives(BernoulliLogit())
    given = [rows(8192) for _ in range(40)]
    expected = [(derivatives(*each), derivatives.third(*each)) for each in given]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda each: (derivatives(*each), derivatives.third(*each)), given))
    for (a, third_a), (b, third_b) in zip(expected, found, strict=True):
        np.testing.assert_array_equal(third_a, third_b)
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)
