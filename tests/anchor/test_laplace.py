"""The factor of the Laplace approximation."""

import numpy as np
import pytest

from pymc_flymc.anchor.laplace import LaplaceFactor, wide_factor
from pymc_flymc.kernels.geometry import Geometry
from tests.support.native import unwhiten, whiten_gradient


def random_factor(seed=0):
    """Precision matrix in blocks, its elements shuffled, and its factor."""
    rng = np.random.default_rng(seed)
    dense, wide = np.array([6, 0, 3]), np.array([5, 1, 2, 4])
    diagonal, cross = rng.uniform(1, 3, 4), rng.normal(size=(4, 3))
    root = rng.normal(size=(3, 3))
    block = root @ root.T + np.eye(3) + cross.T @ (cross / diagonal[:, None])
    precision = np.zeros((7, 7))
    precision[np.ix_(dense, dense)], precision[wide, wide] = block, diagonal
    precision[np.ix_(wide, dense)] = cross
    precision[np.ix_(dense, wide)] = cross.T
    return precision, wide_factor(dense, wide, block, diagonal, cross)


def test_laplace_factor():
    precision, laplace = random_factor()
    assert np.array_equal(laplace.factor, np.tril(laplace.factor))
    columns = np.stack([laplace.apply(v) for v in np.eye(7)], axis=1)
    np.testing.assert_allclose(columns @ columns.T, np.linalg.inv(precision), rtol=1e-10)
    v = np.random.default_rng(1).normal(size=7)
    np.testing.assert_allclose(laplace.solve(laplace.apply(v)), v, rtol=1e-12)
    np.testing.assert_allclose(laplace.apply_transposed(v), columns.T @ v, rtol=1e-12)


def test_improper_blocks_give_a_factor():
    """Blocks that no law has: the coupling is left out."""
    _, good = random_factor()
    laplace = wide_factor(
        good.dense, good.wide, 0.01 * np.eye(3), 1.0 / good.scale**2, np.ones((4, 3))
    )
    assert not laplace.coupling.any()
    np.testing.assert_allclose(laplace.factor, 10.0 * np.eye(3))


@pytest.mark.parametrize("all_dense", [True, False])
def test_geometry_in_kernels(all_dense):
    laplace = random_factor()[1]
    if all_dense:
        laplace = LaplaceFactor(
            np.arange(3), np.empty(0, np.int64), laplace.factor, np.empty(0), np.empty((0, 3))
        )
    rng = np.random.default_rng(4)
    centre, v, gradient = rng.normal(size=(3, 3 if all_dense else 7))
    geometry, theta, out = Geometry(centre, *laplace), np.empty_like(v), np.empty_like(v)
    unwhiten(geometry, v, theta)
    np.testing.assert_allclose(theta, centre + laplace.apply(v), rtol=1e-12)
    whiten_gradient(geometry, gradient.copy(), out)
    np.testing.assert_allclose(out, laplace.apply_transposed(gradient), rtol=1e-12)
