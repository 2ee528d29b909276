"""Sums of squares in blocks."""

import numpy as np
import pytensor
import pytensor.tensor as pt
from scipy import sparse

from pymc_flymc.graphs.quadratic import Quadratic
from pymc_flymc.regression.block_matrix import BlockMatrix, SparseRows, block_size

N = 40
RNG = np.random.default_rng(2)
X = RNG.normal(size=(N, 3))
S = sparse.random_array((N, 4), density=0.3, rng=np.random.default_rng(3), format="csr")


def test_block_matrix():
    """Sums of squares, packed and unpacked, are those of the dense matrix."""
    x = SparseRows(X, sparse.csr_array(S))
    full, weights = np.hstack([X, S.toarray()]), np.arange(14.0).reshape(7, 2)
    np.testing.assert_allclose(x @ weights, full @ weights)
    np.testing.assert_allclose(X.T @ x, X.T @ full)
    matrix, q = BlockMatrix(9, 4, 2), RNG.random(N)
    matrix.add_squares(x, q)
    matrix.add_squares(x, q)
    matrix.dense[3:, 3:] = [[2.0, 0.5], [0.5, 1.0]]
    expected = np.zeros((9, 9))
    expected[:7, :7], expected[7:, 7:] = 2.0 * (full.T * q) @ full, matrix.dense[3:, 3:]
    u, packed = pt.dvector("u"), pt.dvector("packed")
    statistics = pt.concatenate([np.zeros(19), packed])
    graphs = [Quadratic(structured=True)(u, statistics)[1], block_size(packed, 9)]
    function = pytensor.function(
        [u, packed], [*graphs, pytensor.grad(graphs[0], u)], mode="FAST_COMPILE"
    )
    numbers, at = (matrix.scaled(0.2) + matrix.scaled(0.3)).pack(), RNG.normal(size=9)
    value, size, slope = function(at, np.append(numbers, [1.0, 2.0]))
    np.testing.assert_allclose(value, 0.5 * at @ expected @ at, rtol=1e-12)
    np.testing.assert_allclose(slope, expected @ at, rtol=1e-11)
    assert size == len(numbers)
