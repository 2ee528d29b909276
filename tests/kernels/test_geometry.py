"""The map from standardised coordinates, and its transpose."""

import numpy as np
import pytest

from tests.support.native import jacobian_of, standardise, standardise_gradient, unstandardise


@pytest.fixture(params=["geometry", "stretched"])
def either(request):
    return request.getfixturevalue(request.param)


def test_methods_are_the_same_map(either):
    jacobian = jacobian_of(either)
    v = np.random.default_rng(1).normal(size=5)
    np.testing.assert_allclose(either.spread(v), jacobian @ v, rtol=1e-12)
    np.testing.assert_allclose(either.standardise(either.unstandardise(v)), v, rtol=1e-12)
    np.testing.assert_allclose(either.standardise_gradient(v), jacobian.T @ v, rtol=1e-12)


@pytest.mark.parametrize("mixing", [0.0, 0.7])
def test_standardising_is_the_way_back(either, mixing):
    # The second diagonal element, alone, depends on the first.
    either = either._replace(pairs=np.array([[1, 0, 1]]), mixing=np.array([mixing]))
    v, theta, back = np.random.default_rng(3).normal(size=5), np.empty(5), np.empty(5)
    unstandardise(either, v, theta)
    standardise(either, theta, back)
    np.testing.assert_allclose(back, v, rtol=1e-12)
    np.testing.assert_allclose(either.standardise(theta), v, rtol=1e-12)


@pytest.mark.parametrize("mixing", [0.0, 0.7])
def test_gradients_are_pulled_back_by_the_transpose(either, mixing):
    either = either._replace(pairs=np.array([[1, 0, 1]]), mixing=np.array([mixing]))
    gradient, out = np.random.default_rng(2).normal(size=5), np.empty(5)
    expected = jacobian_of(either).T @ gradient
    standardise_gradient(either, np.zeros(5), gradient, out)
    np.testing.assert_allclose(out, expected, rtol=1e-12)


def test_directions_stretch_the_map(geometry, stretched):
    q, c = stretched.directions, stretched.stretch
    expected = jacobian_of(geometry) @ (np.eye(5) + (q.T * c) @ q)
    np.testing.assert_allclose(jacobian_of(stretched), expected, rtol=1e-12, atol=1e-14)


def test_rescaling_keeps_what_directions_add(geometry, stretched):
    """The covariance without them changes as it does where there are none."""
    factors, root = np.array([1.4, 0.8]), np.linalg.cholesky(0.9 * np.eye(3) + 0.2)
    covariances = [
        jacobian_of(each) @ jacobian_of(each).T
        for each in (
            geometry,
            stretched,
            geometry.rescaled(factors, root),
            stretched.rescaled(factors, root),
        )
    ]
    before, after = covariances[1] - covariances[0], covariances[3] - covariances[2]
    np.testing.assert_allclose(after, before, rtol=1e-10, atol=1e-12)
