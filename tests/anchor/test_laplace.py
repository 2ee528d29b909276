"""Coordinates of the Laplace approximation."""

import numpy as np
import pytest

from pymc_flymc.anchor.laplace import laplace_geometry
from pymc_flymc.kernels.geometry import dense_geometry
from tests.support.native import unwhiten, whiten_gradient


def random_geometry(seed=0):
    """Precision matrix in blocks, its elements shuffled, and coordinates around a point."""
    rng = np.random.default_rng(seed)
    dense, wide = np.array([6, 0, 3]), np.array([5, 1, 2, 4])
    diagonal, cross = rng.uniform(1, 3, 4), rng.normal(size=(4, 3))
    root = rng.normal(size=(3, 3))
    block = root @ root.T + np.eye(3) + cross.T @ (cross / diagonal[:, None])
    precision = np.zeros((7, 7))
    precision[np.ix_(dense, dense)], precision[wide, wide] = block, diagonal
    precision[np.ix_(wide, dense)] = cross
    precision[np.ix_(dense, wide)] = cross.T
    return precision, laplace_geometry(np.arange(7.0), dense, wide, block, diagonal, cross)


def test_laplace_geometry():
    precision, laplace = random_geometry()
    assert np.array_equal(laplace.factor, np.tril(laplace.factor))
    columns = np.stack([laplace.spread(v) for v in np.eye(7)], axis=1)
    np.testing.assert_allclose(columns @ columns.T, np.linalg.inv(precision), rtol=1e-10)
    v = np.random.default_rng(1).normal(size=7)
    np.testing.assert_allclose(laplace.whiten(laplace.unwhiten(v)), v, rtol=1e-12)
    np.testing.assert_allclose(laplace.whiten_gradient(v), columns.T @ v, rtol=1e-12)


def test_improper_blocks_give_a_factor():
    """Blocks that no law has: the coupling is left out."""
    _, good = random_geometry()
    laplace = laplace_geometry(
        good.centre, good.dense, good.wide, 0.01 * np.eye(3), 1.0 / good.scale**2, np.ones((4, 3))
    )
    assert not laplace.coupling.any()
    np.testing.assert_allclose(laplace.factor, 10.0 * np.eye(3))


@pytest.mark.parametrize("all_dense", [True, False])
def test_geometry_in_kernels(all_dense):
    geometry = random_geometry()[1]
    if all_dense:
        geometry = dense_geometry(np.arange(3.0), geometry.factor)
    v, gradient = np.random.default_rng(4).normal(size=(2, len(geometry.centre)))
    theta, out = np.empty_like(v), np.empty_like(v)
    unwhiten(geometry, v, theta)
    np.testing.assert_allclose(theta, geometry.unwhiten(v), rtol=1e-12)
    whiten_gradient(geometry, gradient.copy(), out)
    np.testing.assert_allclose(out, geometry.whiten_gradient(gradient), rtol=1e-12)
