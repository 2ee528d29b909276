"""The map from whitened coordinates, and its transpose."""

import numpy as np

from tests.support.native import jacobian_of, whiten_gradient


def test_methods_are_the_same_map(geometry):
    jacobian = jacobian_of(geometry)
    v = np.random.default_rng(1).normal(size=5)
    np.testing.assert_allclose(geometry.spread(v), jacobian @ v, rtol=1e-12)
    np.testing.assert_allclose(geometry.whiten(geometry.unwhiten(v)), v, rtol=1e-12)
    np.testing.assert_allclose(geometry.whiten_gradient(v), jacobian.T @ v, rtol=1e-12)


def test_gradients_are_pulled_back_by_the_transpose(geometry):
    gradient, out = np.random.default_rng(2).normal(size=5), np.empty(5)
    expected = jacobian_of(geometry).T @ gradient
    whiten_gradient(geometry, gradient, out)
    np.testing.assert_allclose(out, expected, rtol=1e-12)
