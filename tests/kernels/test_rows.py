"""Kernels' view of the rows."""

import numpy as np
import pytest
from scipy import sparse

from pymc_flymc.bounds import TaylorInParts
from pymc_flymc.kernels.layout import PARTS_ROW, PARTS_SHARED
from pymc_flymc.regression.design import Design, SparseColumns, stack
from pymc_flymc.target.data import make_rows
from tests.support.native import add_rows, row_predictors

N = 40
RNG = np.random.default_rng(2)
X = RNG.normal(size=(N, 3))
S = sparse.random_array((N, 4), density=0.3, rng=np.random.default_rng(3), format="csr")
CODES = RNG.integers(0, 3, (N, 2))
COLUMNS = stack(  # ones, numbers at codes, and as many as there are
    [
        SparseColumns.of_matrix(sparse.csr_array(S)),
        SparseColumns.of_codes(CODES, X[:, :2], 3),
        SparseColumns.of_codes(CODES, None, 3),
    ]
)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("has_sparse", [True, False])
@pytest.mark.parametrize("room", [0, N])  # row by row, or by products of matrices
def test_rows_in_kernels(intercept, has_sparse, room):
    """The predictors are the design's, and their gradient is its transpose."""
    columns = COLUMNS if has_sparse else SparseColumns()
    design = Design(X, RNG.normal(size=(N, 2)), intercept, 1, columns)
    rows = make_rows(design, np.zeros((N, 1)))
    w, out = RNG.normal(size=design.n_coefficients), np.empty((N, 2))
    order = RNG.permutation(N)
    block = np.empty((room, 3))
    row_predictors(rows, w, order, 0, N, out, block)
    np.testing.assert_allclose(out, design.predictor(w)[order], rtol=1e-13)
    parts = [X, np.ones((N, int(intercept)))] + has_sparse * [COLUMNS.csr().toarray()]
    full = np.hstack(parts)
    factors, gradient = RNG.normal(size=(N, 2)), np.zeros(len(w))
    expected = factors.T @ full[order]
    add_rows(rows, order, 0, N, factors, gradient, block)
    np.testing.assert_allclose(gradient[:-1], expected.ravel(), rtol=1e-12, atol=1e-14)
    assert gradient[-1] == 0.0


def test_sums_of_several_predictors():
    """The sums of effects' powers follow the predictors, those on each predictor in turn."""
    design, q = Design(X, np.empty((0, 2)), True, 0, COLUMNS), COLUMNS.n_columns
    bound = TaylorInParts(q, 2)
    rows = make_rows(design, np.zeros((N, PARTS_ROW.row_data(2) + 1)), bound)
    p, order, out = design.n_coefficients, RNG.permutation(N), np.empty((N, 2 + bound.n_sums))
    w = RNG.normal(size=p + bound.n_shared)
    row_predictors(rows, w, order, 0, N, out, np.empty((0, 3)))
    np.testing.assert_allclose(out[:, :2], design.predictor(w[:p])[order], rtol=1e-13)
    sizes = design.matrix(slice(None)).sizes()[order]
    powers = w[p + PARTS_SHARED.effects :].reshape(bound.n_sums, q)
    np.testing.assert_allclose(out[:, 2:], sizes @ powers.T, rtol=1e-12)
    factors, gradient = RNG.normal(size=out.shape), np.zeros(len(w))
    add_rows(rows, order, 0, N, factors, gradient, np.empty((0, 3)))
    expected = (factors[:, 2:].T @ sizes).ravel()
    np.testing.assert_allclose(gradient[p + PARTS_SHARED.effects :], expected, rtol=1e-12)
    assert not gradient[p : p + PARTS_SHARED.effects].any()
