"""The data side of a linear predictor: rows of a design matrix, offsets, an intercept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

_BLOCK_BYTES = 1 << 23
# Types whose every value is a float32.
_EXACT_IN_FLOAT32 = ("bool", "int8", "uint8", "int16", "uint16", "float16", "float32")


@dataclass(frozen=True)
class Design:
    """The arguments of each row's likelihood, as a function of coefficients w.

    Predictor k of row n is ``X[n] @ w_k[:P] + (w_k[P] if intercept) + offset[n, k]``; the
    coefficients w are those of all predictors, one after the other, and then the nuisance
    parameters, which are the same for all rows.

    Attributes
    ----------
    X : ndarray of shape (N, P)
        float64 or float32, C-contiguous; the user's own memory where that is possible. float32
        values stand for exact numbers: sums over them are taken in float64.
    offset : ndarray of shape (N, K) or (0, K)
        float64; empty when there is none.
    intercept : bool
        Whether each predictor has one more coefficient, which multiplies 1 in each row.
    n_nuisances : int
    """

    X: np.ndarray
    offset: np.ndarray
    intercept: bool
    n_nuisances: int = 0

    @property
    def n_rows(self) -> int:
        """Number of rows, N."""
        return self.X.shape[0]

    @property
    def n_predictors(self) -> int:
        """Number of predictors, K."""
        return self.offset.shape[1]

    @property
    def width(self) -> int:
        """Number of coefficients of a predictor: P, and one more if there is an intercept."""
        return self.X.shape[1] + int(self.intercept)

    @property
    def n_coefficients(self) -> int:
        """Length of the coefficient vector."""
        return self.n_predictors * self.width + self.n_nuisances

    def predictor(self, w: np.ndarray, rows: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Evaluate the linear predictors in float64.

        Parameters
        ----------
        w : ndarray of shape (n_coefficients,)
            Coefficients.
        rows : slice or integer ndarray
            Rows to evaluate; all by default.

        Returns
        -------
        ndarray of shape (len(rows), K)
            float64.
        """
        return self._combine(self.X[rows], self.offset, w, rows)

    def magnitude(self, w: np.ndarray) -> np.ndarray:
        """Return the sum of the absolute values of each predictor's terms, shape (N, K)."""
        out = np.empty((self.n_rows, self.n_predictors))
        for block in blocks(self.X):
            out[block] = self._combine(np.abs(self.X[block]), np.abs(self.offset), np.abs(w), block)
        return out

    def _combine(
        self, X: np.ndarray, offset: np.ndarray, w: np.ndarray, rows: slice | np.ndarray
    ) -> np.ndarray:
        """Return ``X @ w + offset[rows]`` for some rows' `X`, with float64 sums."""
        w = np.asarray(w, dtype=np.float64)
        if w.shape != (self.n_coefficients,):
            raise ValueError(f"w has shape {w.shape}, expected ({self.n_coefficients},)")
        width, n_columns = self.width, self.X.shape[1]
        weights = w[: self.n_predictors * width].reshape(self.n_predictors, width).T
        out = np.empty((X.shape[0], self.n_predictors))
        for block in blocks(X):
            out[block] = X[block].astype(np.float64, copy=False) @ weights[:n_columns]
        if self.intercept:
            out += weights[n_columns]
        if offset.size:
            out += offset[rows]
        return out


def blocks(array: np.ndarray) -> Iterator[slice]:
    """Yield slices that cut the first axis into pieces of about 8 MB."""
    rows = array.shape[0]
    step = max(1, _BLOCK_BYTES // max(1, array.nbytes // max(1, rows)))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def count_bad_rows(array: np.ndarray) -> int:
    """Return how many rows of a float array hold a NaN or an infinity, in one blocked pass."""
    bad = 0
    for block in blocks(array):
        finite = np.isfinite(array[block])
        if not finite.all():
            bad += int((~finite.reshape(finite.shape[0], -1).all(axis=1)).sum())
    return bad


def gather(parts: Sequence[np.ndarray], n_rows: int) -> np.ndarray:
    """Return blocks of columns as one C-contiguous float matrix.

    Parameters
    ----------
    parts : sequence of ndarray of shape (N, P_i)
        Blocks of numbers of any dtype.
    n_rows : int
        N, for the case without blocks.

    Returns
    -------
    ndarray of shape (N, sum of P_i)
        A single block that is C-contiguous and float64 or float32 comes back as it is, not
        copied. Otherwise a new matrix: float32 if the dtype of each block fits in it exactly,
        float64 if not.
    """
    if len(parts) == 1:
        (only,) = parts
        if only.dtype in (np.float64, np.float32) and only.flags.c_contiguous:
            return only
    narrow = bool(parts) and all(part.dtype.name in _EXACT_IN_FLOAT32 for part in parts)
    dtype = np.float32 if narrow else np.float64
    out = np.empty((n_rows, sum(part.shape[1] for part in parts)), dtype=dtype)
    start = 0
    for part in parts:
        out[:, start : start + part.shape[1]] = part
        start += part.shape[1]
    return out
