"""Quadratics from packed coefficients, whatever these are."""

import numpy as np
import pytest

from pymc_flymc.kernels.collapsed import quadratic_kernel
from pymc_flymc.kernels.native import read_only
from pymc_flymc.regression.design import Design, SparseColumns
from pymc_flymc.regression.matrices import RowMatrix, SymmetricMatrix


@pytest.mark.parametrize(("start", "n_sparse", "n_behind"), [(2, 3, 2), (1, 2, 0), (0, 3, 1)])
def test_of_an_arrow(start, n_sparse, n_behind):
    """Dense columns before and behind sparse ones, of which some pairs are coupled."""
    rng = np.random.default_rng(0)
    n, m, stop = start + n_sparse + n_behind, start + n_behind, start + n_sparse
    outer = [*range(start), *range(stop, n)]
    matrix = rng.normal(size=(n, n))
    matrix += matrix.T
    inner = matrix[start:stop, start:stop]
    kept = np.eye(n_sparse, dtype=bool)
    kept[0, 1] = kept[1, 0] = True
    inner[~kept] = 0.0
    lengths = np.arange(n_sparse) == 0  # the first row has one pair
    pairs = [*lengths, inner[0, 1], 1.0]  # behind these its number, and its column
    dense, cross = matrix[np.ix_(outer, outer)], matrix[np.ix_(outer, range(start, stop))]
    packed = [[start, n_sparse, 1, 1], dense.ravel(), cross.ravel(), np.diag(inner), pairs]
    linear, u, out = rng.normal(size=n), rng.normal(size=n), np.empty(n)
    statistics = np.concatenate([[9.0], np.full(n, 9.0), linear, *packed, [9.0]])
    along, form = quadratic_kernel(read_only(u), read_only(statistics), True, out)
    assert along == pytest.approx(linear @ u, rel=1e-12)
    assert form == pytest.approx(u @ matrix @ u, rel=1e-12)
    np.testing.assert_allclose(out, matrix @ u, rtol=1e-12)
    assert m == len(outer)


def test_of_an_arrow_of_several_predictors():
    """The sparse columns are the last of each predictor."""
    rng, k, m, q = np.random.default_rng(0), 3, 2, 4
    x, columns = rng.normal(size=(20, m)), rng.integers(0, q, (20, 1))
    design = Design(x, np.empty((0, k)), False, sparse=SparseColumns.of_codes(columns, None, q))
    rows, a = design.matrix(slice(None)), rng.normal(size=(k, k, 20))
    full, a = rows.array, a + a.transpose(1, 0, 2)
    arrow = RowMatrix(rows.dense, rows.sparse).sandwich(a)
    expected = np.block([[(full.T * a[i, j]) @ full for j in range(k)] for i in range(k)])
    n = len(expected)
    linear, u, out = rng.normal(size=n), rng.normal(size=n), np.empty(n)
    statistics = np.concatenate([np.zeros(1 + n), linear, arrow.pack()])
    along, form = quadratic_kernel(u, statistics, True, out)
    assert along == pytest.approx(linear @ u, rel=1e-12)
    assert form == pytest.approx(u @ expected @ u, rel=1e-12)
    np.testing.assert_allclose(out, expected @ u, rtol=1e-11)
    assert arrow.form(u)[0] == pytest.approx(form, rel=1e-12)
    # As of a matrix that is written out.
    again = SymmetricMatrix(expected).arrow(q, k)
    np.testing.assert_allclose(again.pack(), arrow.pack(), rtol=1e-12, atol=1e-13)
    order = arrow.order()
    np.testing.assert_allclose(arrow.dense, expected[np.ix_(order, order)][: k * m, : k * m])


def test_of_a_matrix():
    rng = np.random.default_rng(1)
    matrix, linear, u, out = (
        rng.normal(size=(4, 4)),
        rng.normal(size=4),
        rng.normal(size=4),
        np.empty(4),
    )
    matrix += matrix.T
    statistics = np.concatenate([[9.0], np.full(4, 9.0), linear, matrix.ravel()])
    along, form = quadratic_kernel(read_only(u), read_only(statistics), False, out)
    assert along == pytest.approx(linear @ u, rel=1e-12)
    assert form == pytest.approx(u @ matrix @ u, rel=1e-12)
    with pytest.raises(ValueError, match="shorter than its coefficients need"):
        quadratic_kernel(read_only(u), read_only(statistics[:-1]), False, out)
