"""Derivatives of rows: by several threads at a time, and what curvature rows lack."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from pymc_flymc.likelihoods import BernoulliLogit, BinomialLogit, PoissonLog, Softmax
from pymc_flymc.likelihoods.location_scale import AsymmetricLaplace
from pymc_flymc.likelihoods.weighted import weighted_family
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


WEIGHTS = rng.uniform(0.5, 3.0, 300)
CLASSES = {
    "logistic": (BernoulliLogit(), rng.integers(0, 2, 300)),
    "binomial": (BinomialLogit(), np.column_stack([rng.integers(0, 6, 300), np.full(300, 5)])),
    "softmax": (Softmax(n_predictors=4), rng.integers(0, 4, 300)),
    "weighted softmax": weighted_family(Softmax(n_predictors=4), rng.integers(0, 4, 300), WEIGHTS),
}


@pytest.mark.parametrize("name", CLASSES)
def test_rows_of_classes_promise_no_more_than_there_is(name):
    """With what is missing, a row's quadratic rises to zero along its gradient, and no further."""
    family, y = CLASSES[name]
    derivatives = RowDerivatives(family)
    given = 4.0 * rng.normal(size=(family.n_predictors, len(y))), y.astype(float)
    of = derivatives(*given)
    few, missing = derivatives.missing_curvature(of, *given)
    steepest = of.first / np.sqrt(np.sum(of.first**2, axis=0))
    slope = np.sum(of.first * steepest, axis=0)

    def highest(second):
        return of.value - 0.5 * slope**2 / np.einsum("in,ijn,jn->n", steepest, second, steepest)

    second = of.second.copy()
    lack = np.isin(np.arange(len(y)), few)
    assert np.any(lack) and not np.all(lack)
    assert np.all(highest(second)[lack] > 0.0) and np.all(highest(second)[~lack] <= 0.0)
    second[:, :, few] -= missing
    # Zero is what is left of two terms as large as the row's value.
    np.testing.assert_allclose(highest(second)[few] / of.value[few], 0.0, atol=1e-12)


def test_other_rows_lack_no_curvature():
    """Zero is beyond what a count's log-likelihood can reach: its quadratics stay as they are."""
    derivatives = RowDerivatives(PoissonLog())
    given = np.full((1, 2), -20.0), np.array([3.0, 5.0])
    assert not len(derivatives.missing_curvature(derivatives(*given), *given)[0])


def test_steps_of_rows_that_are_not_smooth_end_at_their_outcomes():
    """Far from it such a row has a slope and no curvature: a step would go on for ever."""
    derivatives, y = RowDerivatives(AsymmetricLaplace()), np.array([-30.0, 5.0, 100.0])
    given = np.array([[0.0] * 3, [np.log(3.0)] * 3, [0.5] * 3]), y
    of = derivatives(*given)
    assert np.all(np.abs(of.first[0] / of.second[0, 0]) > 100.0 * np.abs(y))
    few, missing = derivatives.missing_curvature(of, *given)
    step = -of.first[0] / (of.second[0, 0] - missing[0, 0])
    np.testing.assert_array_equal(few, np.arange(3))
    # The smoothing, 0.3 scales wide, is left, times a over the flatter slope, a - d = 1/3.
    assert np.all(np.abs(step - y) < 0.3 * np.exp(0.5) * (5.0 / 3.0) / (1.0 / 3.0))
