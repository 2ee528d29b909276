"""Jacobians of graphs that are affine."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_flymc.graphs.affine import constant_jacobian

THETA = pt.vector("theta", shape=(6,), dtype="float64")
FIXED = np.arange(12.0).reshape(2, 6)
MATRIX = THETA.reshape((3, 2))


@pytest.mark.parametrize(
    "graph",
    [
        THETA[[4, 0]],
        pt.join(0, THETA[:2] - 3.0, [THETA[5] / 2.0]),
        (MATRIX[:, 1:] - MATRIX[:, :1]).T.ravel(),
        pt.dot(FIXED, THETA) + 1.0,
        pt.stack([MATRIX.sum(), pt.log(pt.exp(THETA[3])).squeeze()]),
        pt.set_subtensor(pt.zeros(4)[1:3], -THETA[2:4]),
        pt.log(2.0 * pt.exp(THETA[:2]) * pt.exp(THETA[3]) / pt.exp(THETA[5])),
    ],
)
def test_affine(graph):
    found = constant_jacobian(graph, THETA)
    points = np.random.default_rng(1).standard_normal((2, 6))
    near, far = (graph.eval({THETA: point}) for point in points)
    np.testing.assert_allclose(far - near, found @ (points[1] - points[0]), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    "graph",
    [
        THETA**2,
        THETA * THETA[0],
        pt.exp(THETA),
        pt.log(THETA),
        pt.log(pt.exp(THETA) + 1.0),
        pt.log(pt.exp(THETA) * THETA),
        2.0 / THETA,
        pt.maximum(THETA, 0.0),
        pt.dot(MATRIX, MATRIX[:2]).ravel(),
        THETA[pt.argmax(THETA) :],
        pt.zeros(6)[THETA.astype("int64")],
        THETA.astype("float32").astype("float64"),
        pm.math.invlogit(THETA),
        pt.zeros(3),
    ],
)
def test_not_affine(graph):
    assert constant_jacobian(graph, THETA) is None
