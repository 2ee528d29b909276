"""Scores of draws whose distribution is known: calibrated, and large where draws are wrong."""

import numpy as np
import pytest
from scipy.signal import lfilter

from tests.sweep.comparison import compare
from tests.sweep.reference import Posterior

N = 40_000


@pytest.fixture(scope="module")
def normal():
    """Two independent standard normal variables."""
    axis = np.linspace(-7.0, 7.0, 301)
    return Posterior([axis, axis], -0.5 * np.add.outer(axis**2, axis**2))


def autoregressive(rho, seed, n=N):
    """Chains with that posterior, and an autocorrelation."""
    noise = np.random.default_rng(seed).normal(size=(2, n, 2))
    noise[:, 1:] *= np.sqrt(1.0 - rho**2)
    return lfilter([1.0], [1.0, -rho], noise, axis=1)


def test_quadrature(normal):
    np.testing.assert_allclose(normal.mean, 0.0, atol=1e-12)
    np.testing.assert_allclose(normal.variance, 1.0, rtol=1e-9)
    np.testing.assert_allclose(normal.quantiles(0, [0.001, 0.999]), [-3.09023, 3.09023], rtol=2e-5)
    # Of two squares half the sum is exponential.
    assert normal.contour(1e-3) == pytest.approx(np.log(1e-3), abs=0.01)
    points = np.array([[0.3, -2.1], [8.0, 0.0]])
    np.testing.assert_allclose(normal.log_density(points), [-2.25, -np.inf], rtol=1e-6)


@pytest.mark.parametrize("rho", [0.0, 0.8, -0.4])
def test_scores_of_exact_draws_are_standard(normal, rho):
    found = [compare(autoregressive(rho, seed), normal) for seed in range(12)]
    z = np.array([list(each.z.values()) for each in found])
    assert np.abs(z).max() < 4.5
    assert 0.5 < np.mean(z**2) < 1.4  # of tails the variance is the larger of two estimates
    assert all(each.long for each in found)


def stopped(draws, allowed):
    """Chains that stay where they are where they would go outside."""
    at = np.where(allowed, np.arange(draws.shape[1]), 0)
    return np.take_along_axis(draws, np.maximum.accumulate(at, axis=1)[..., None], axis=1)


def test_wrong_draws_have_large_scores(normal):
    draws = autoregressive(0.8, 1)
    assert compare(draws + np.array([0.05, 0.0]), normal).z["mean 0"] > 4.0
    assert compare(draws * np.array([1.0, 0.95]), normal).z["variance 1"] < -4.0
    # Walls that a chain never crosses, one of them where it hardly ever would be.
    inside = compare(stopped(draws, draws[..., 0] < 3.0), normal)
    assert inside.shares["high 0"] == 0.0
    assert inside.z["high 0"] < -5.0 < inside.z["low 0"]
    ring = np.sum(draws**2, axis=2) < -2.0 * np.log(1e-3)
    assert compare(stopped(draws, ring), normal).z["contour"] < -5.0
    # Mean and variance are right, and the shape is not.
    two = 0.6 * draws + 0.8 * np.sign(autoregressive(0.8, 2))
    assert compare(two, normal).z["whole 0"] > 5.0


def test_draws_that_do_not_move_tell_nothing(normal):
    found = compare(np.repeat(autoregressive(0.0, 3, 40), N // 40, axis=1), normal)
    assert not found.is_telling
    stuck = compare(np.full((2, N, 2), 0.7), normal)
    assert min(stuck.z["mean 0"], stuck.z["whole 0"]) > 30.0
