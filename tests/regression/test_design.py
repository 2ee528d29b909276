"""Designs: gathered, stacked, evaluated in blocks."""

import numpy as np
import pytest

from pymc_flymc.regression.design import Design, SparseColumns, count_bad_rows, gather

N = 20
RNG = np.random.default_rng(1)
X = RNG.normal(size=(N, 3))
X32 = X.astype(np.float32)
X8 = RNG.integers(-4, 5, size=(N, 3)).astype(np.int8)
OFFSET = RNG.normal(size=N)


@pytest.mark.parametrize(
    ("parts", "dtype"),
    [
        ([X8], np.float32),
        ([X > 0], np.float32),
        ([X8.astype(np.uint16), X32], np.float32),
        ([X8.astype(np.int32)], np.float64),
        ([X8.astype(np.int64)], np.float64),
        ([X32, X], np.float64),
        ([], np.float64),
    ],
)
def test_gathered_dtype(parts, dtype):
    out = gather(parts, N)
    assert out.dtype == dtype
    assert out.flags.c_contiguous
    np.testing.assert_array_equal(out, np.hstack([np.empty((N, 0)), *parts]))


ROWS = [slice(None), slice(3, 9), slice(1, None, 3), slice(9, None, -2), np.array([4, 4, 0])]


@pytest.mark.parametrize("rows", ROWS)
def test_design_predictor(rows):
    design = Design(X32, OFFSET[:, None], True)
    w = np.array([1.0, 2.0, 3.0, 4.0])
    expected = (X32.astype(np.float64)[rows] @ w[:3] + 4.0 + OFFSET[rows])[:, None]
    np.testing.assert_allclose(design.rows(rows).predictor(w), expected, rtol=1e-14)
    assert (design.n_rows, design.n_coefficients) == (N, 4)


def test_blocked_passes(monkeypatch):
    beta = np.array([0.3, -1.2, 0.7])
    monkeypatch.setattr("pymc_flymc.regression.design._BLOCK_BYTES", 100)
    bad = X.copy()
    bad[[2, 2, 17], [0, 1, 2]] = [np.nan, np.inf, -np.inf]
    assert count_bad_rows(bad) == 2
    design = Design(X, OFFSET[:, None], False)
    np.testing.assert_allclose(design.predictor(beta)[:, 0], X @ beta + OFFSET)
    both = np.stack([beta, -2.0 * beta])
    predictors, magnitudes = design.predictors(both)
    sizes = np.outer(np.abs(X) @ np.abs(beta), [1.0, 2.0]) + np.abs(OFFSET)[:, None]
    np.testing.assert_allclose(magnitudes[:, :, 0], sizes)
    for i, each in enumerate(both):
        np.testing.assert_allclose(predictors[:, i], design.predictor(each), rtol=1e-13)


def test_sums_of_rows(monkeypatch):
    monkeypatch.setattr("pymc_flymc.regression.design._BLOCK_BYTES", 100)
    columns = SparseColumns.of_codes(RNG.integers(0, 4, (N, 1)), None, 4)
    design = Design(X, np.empty((0, 1)), True, sparse=columns)
    full, weights = np.column_stack([X, np.ones(N), columns.csr().toarray()]), RNG.random(N)
    np.testing.assert_allclose(design.sum_rows(weights), weights @ full)
