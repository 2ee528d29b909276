"""Sparse columns, kept as codes where rows are alike."""

import numpy as np
import pytest
from scipy import sparse

from pymc_flymc.regression.design import SparseColumns, stack

N, Q = 30, 5
RNG = np.random.default_rng(1)
CODES, SLOPES = RNG.integers(0, Q, (N, 2)), RNG.normal(size=(N, 2))
S = sparse.random_array((N, Q), density=0.3, rng=np.random.default_rng(3), format="csr")
CONTRAST = sparse.csr_array((np.tile([1.0, -1.0], N), CODES.ravel(), 2 * np.arange(N + 1)))
OTHERS = sparse.csr_array(S)


def written_out(codes, values):
    full = np.zeros((N, Q))
    np.add.at(full, (np.arange(N)[:, None], codes), values)
    return full


MATRICES = {
    "ones": (SparseColumns.of_codes(CODES, None, Q), written_out(CODES, 1.0)),
    "slopes": (SparseColumns.of_codes(CODES, SLOPES, Q), written_out(CODES, SLOPES)),
    "equal counts": (SparseColumns.of_matrix(CONTRAST), CONTRAST.toarray()),
    "other counts": (SparseColumns.of_matrix(OTHERS), S.toarray()),
    "nothing": (SparseColumns.of_matrix(sparse.csr_array((N, 3))), np.zeros((N, 3))),
}
names = ("slopes", "ones", "other counts", "nothing", "other counts", "ones")
MATRICES["side by side"] = (
    stack([MATRICES[name][0] for name in names]),
    np.hstack([MATRICES[name][1] for name in names]),
)
MATRICES["sum"] = (
    MATRICES["slopes"][0] + MATRICES["other counts"][0] + MATRICES["ones"][0],
    sum(MATRICES[name][1] for name in ("slopes", "ones", "other counts")),
)


@pytest.mark.parametrize("name", MATRICES)
def test_they_are_the_matrix(name):
    """Products, rows, counts, signs and sizes are those of the matrix that is written out."""
    columns, full = MATRICES[name]
    q = full.shape[1]
    assert columns.n_columns == q and len(columns) == N
    np.testing.assert_allclose(columns.csr().toarray(), full)
    w, v = RNG.normal(size=(q, 2)), RNG.normal(size=(3, N))
    np.testing.assert_allclose(columns @ w, full @ w, atol=1e-14)
    np.testing.assert_allclose(v @ columns, v @ full, atol=1e-14)
    for rows in (slice(3, 9), slice(1, None, 7), np.array([4, 4, 0, 29])):
        np.testing.assert_allclose(columns[rows].csr().toarray(), full[rows])
    kept = columns.csr()
    assert kept.indices.dtype == kept.indptr.dtype == np.int32
    assert columns.nnz == kept.nnz
    np.testing.assert_array_equal(columns.counts(), np.bincount(kept.indices, minlength=q))
    sizes = abs(columns).csr()
    np.testing.assert_array_equal(sizes.data, np.abs(kept.data))
    np.testing.assert_array_equal(sizes.indices, kept.indices)
    found, sign = columns.positive()
    np.testing.assert_allclose(sign * found.csr().toarray(), full)
    assert not found.nnz or found.csr().data[0] >= 0.0
    assert columns.same_as(columns[:]) and not columns.same_as(columns[1:])
    firsts = [np.flatnonzero(np.diff(kept[:, [j]].tocsr().indptr))[:1] for j in range(q)]
    np.testing.assert_array_equal(
        columns.first_rows(np.arange(q)), np.unique(np.concatenate(firsts))
    )


def test_bytes_that_are_kept():
    """Four for each row and factor, twelve for a slope: ones and starts of rows are known."""
    intercepts, slopes = CODES[:, :1], SLOPES[:, :1]
    factors = [SparseColumns.of_codes(intercepts, None, Q)] * 2
    assert stack(factors).nbytes == 8 * N
    assert stack([*factors, SparseColumns.of_codes(intercepts, slopes, Q)]).nbytes == 20 * N
    indicators = sparse.csr_array((np.ones(N), CODES[:, 0], np.arange(N + 1)))
    assert SparseColumns.of_matrix(indicators).nbytes == 4 * N
    negative = SparseColumns.of_codes(intercepts, -np.ones((N, 1)), Q)
    assert negative.positive()[0].nbytes == 4 * N


def test_rows_that_are_not_finite():
    values, numbers = SLOPES.copy(), S.copy()
    values[[3, 3, 5], [0, 1, 0]] = np.nan
    numbers.data[-1] = np.inf
    both = stack(
        [
            SparseColumns.of_codes(CODES, values, Q),
            SparseColumns.of_matrix(sparse.csr_array(numbers)),
        ]
    )
    assert both.count_bad_rows() == 3
