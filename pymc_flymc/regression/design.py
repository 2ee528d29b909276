"""The data side of a linear predictor: dense and sparse columns, offsets, an intercept."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from pymc_flymc.regression import matrices
from pymc_flymc.regression.common_shifts import CommonShifts, find_common_shifts
from pymc_flymc.regression.sparse_columns import SparseColumns
from pymc_flymc.threads import in_order

_BLOCK_BYTES = 1 << 21
# Types whose every value is a float32.
_EXACT_IN_FLOAT32 = ("bool", "int8", "uint8", "int16", "uint16", "float16", "float32")


@dataclass(frozen=True)
class Design:
    """The arguments of each row's likelihood, as a function of coefficients w.

    Predictor k of row n is ``X[n] @ a + (b if intercept) + sparse[n] @ c + offset[n, k]``, where
    its coefficients are ``w_k = [a, b, c]`` in this order: those of the P dense columns, of the
    intercept, of the sparse columns. The coefficients w are those of all predictors, one after the
    other, and then the nuisance parameters, which are the same for all rows.

    Effects of groups are sparse columns, one for each group: a random intercept has the value 1 in
    the column of the row's group, a random slope the value of the covariate.
    """

    #: Shape (N, P), float64 or float32, C-contiguous; the user's own memory if possible. float32
    #: values stand for exact numbers: sums over them are computed in float64.
    X: np.ndarray
    offset: np.ndarray  #: Shape (N, K), float64, or (0, K) without offsets.
    intercept: bool
    n_nuisances: int = 0
    #: Shape (N, Q), never written out as a dense matrix.
    sparse: SparseColumns = field(default_factory=SparseColumns)
    #: All rows, if they are out of core: then `X`, `offset` and `sparse` have no rows.
    stored: StoredRows | None = None

    @property
    def n_rows(self) -> int:
        """Return the number of rows, N."""
        return self.X.shape[0] if self.stored is None else self.stored.n_rows

    @property
    def n_predictors(self) -> int:
        """Return the number of predictors, K."""
        return self.offset.shape[1]

    @property
    def n_sparse(self) -> int:
        """Return the number of sparse columns, Q."""
        return self.sparse.n_columns

    @property
    def width(self) -> int:
        """Return the number of coefficients of a predictor: of the columns, and of an intercept."""
        return self.X.shape[1] + int(self.intercept) + self.n_sparse

    @property
    def n_coefficients(self) -> int:
        """Return the length of the coefficient vector."""
        return self.n_predictors * self.width + self.n_nuisances

    @property
    def format(self) -> type[matrices.RowMatrix]:
        """Return the class of rows as matrices: with many sparse columns squares are arrows."""
        if self.n_sparse > 0 and self.width > matrices.LARGEST_DENSE:
            return matrices.RowMatrix
        many = self.n_sparse > matrices.FEW_SPARSE
        return matrices.SquareRows if many else matrices.DenseRows

    @cached_property
    def common_shifts(self) -> CommonShifts:
        """Directions in the coefficients of sparse columns that change no predictor."""
        return find_common_shifts(self.sparse)

    def check_one_radius(self, name: str) -> None:
        """Refuse a bound with one radius for all coefficients if rows depend on few of them."""
        if not self.format.one_radius:
            raise ValueError(
                f"the {name} bound has one radius for all coefficients, and does not work for "
                f"{self.n_coefficients} of them with effects of groups or sparse columns: at most "
                f"{matrices.LARGEST_DENSE}; in conditional moves Taylor() has one for each part of "
                "a row"
            )

    def matrix(self, rows: slice | np.ndarray) -> matrices.RowMatrix:
        """Return rows in float64, with the intercept's column of ones; a view if possible."""
        part, sparse = self.X[rows], self.sparse[rows].csr()
        n, n_columns = part.shape
        x = part
        if part.dtype != np.float64 or not part.flags.c_contiguous or self.intercept:
            x = np.empty((n, n_columns + self.intercept))
            x[:, :n_columns], x[:, n_columns:] = part, 1.0
        return self.format(x, sparse)

    def rows(self, rows: slice | np.ndarray) -> Design:
        """Return the design of some rows, as a view for a slice."""
        offset = self.offset[rows] if len(self.offset) else self.offset
        return Design(self.X[rows], offset, self.intercept, self.n_nuisances, self.sparse[rows])

    def count_bad_rows(self) -> dict[str, int]:
        """Return how many rows hold a NaN or an infinity, for each part of the design."""
        return {
            "design": count_bad_rows(self.X),
            "offset": count_bad_rows(self.offset),
            "sparse design": self.sparse.count_bad_rows(),
        }

    def sum_rows(self, weights: np.ndarray) -> np.ndarray:
        """Return the sum of the rows of all columns times weights (N,), shape (width,)."""
        total, step = np.zeros(self.width), self._step()
        parts = np.split(total, np.cumsum([self.X.shape[1], int(self.intercept)]))
        for start in range(0, self.n_rows, step):
            rows = slice(start, start + step)
            parts[0] += weights[rows] @ self.X[rows]
            if self.n_sparse:
                parts[2] += weights[rows] @ self.sparse[rows]
        parts[1][:] = weights.sum()
        return total

    def predictor(self, w: np.ndarray) -> np.ndarray:
        """Return the linear predictors of all rows in float64, shape (N, K)."""
        out = np.empty((self.n_rows, 1, self.n_predictors))
        self._combine(w[None], slice(None), _same, out)
        return out[:, 0]

    def predictors(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return predictors (N, R, K) at R coefficients `w`, and absolute sums of their terms."""
        shape = self.n_rows, len(w), self.n_predictors
        found, sizes = np.empty(shape), np.empty(shape)

        def both(start: int) -> None:
            rows = slice(start, start + step)
            for out, of in ((found, _same), (sizes, abs)):
                self._combine(of(w), rows, of, out[rows])

        step = self._step()
        starts = range(0, self.n_rows, step)
        deque(in_order(both, starts, len(starts)), maxlen=0)
        return found, sizes

    def _combine(
        self, w: np.ndarray, rows: slice | np.ndarray, of: Callable[[Any], Any], out: np.ndarray
    ) -> None:
        """Write predictors (n, R, K) at `w` (R, P), with `of` applied to all numbers first."""
        k, width, n_columns = self.n_predictors, self.width, self.X.shape[1]
        weights = w[:, : k * width].reshape(len(w) * k, width).T
        flat = out.reshape(len(out), len(w) * k)
        flat[:] = of(self.X[rows]).astype(np.float64, copy=False) @ weights[:n_columns]
        if self.n_sparse:
            flat += of(self.sparse[rows]) @ weights[width - self.n_sparse :]
        if self.offset.size:
            out += of(self.offset[rows])[:, None]
        if self.intercept:
            flat += weights[n_columns]

    def _step(self) -> int:
        """Return the number of rows of a block in which products are computed."""
        n_bytes = self.X.nbytes + self.sparse.nbytes
        return max(1, _BLOCK_BYTES * self.n_rows // max(1, n_bytes))


@dataclass(frozen=True)
class Sample:
    """Rows out of core of which a sample is in memory."""

    design: Design
    y: np.ndarray
    numbers: np.ndarray  #: Indices of the sample's rows among all rows, (n,).
    #: Returns these rows of the model's data containers.
    containers: Callable[[], Mapping[Any, np.ndarray]]


class StoredRows(Protocol):
    """The rows of a design that are out of core: in files, or on other machines."""

    @property
    def n_rows(self) -> int:
        """Return the number of rows, N."""

    def sample(self, stride: int) -> Sample:
        """Return about every stride-th row, from all of them."""

    def sums(self, terms: Callable[[Design, np.ndarray], Iterable[Any]]) -> Iterable[Any]:
        """Read all rows, with their outcomes, and yield sums of their terms."""


def _same(columns: Any) -> Any:
    return columns


def blocks(array: np.ndarray) -> Iterator[slice]:
    """Yield slices that cut the first axis into pieces of about 2 MB."""
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
    """Return blocks (N, P_i) as one C-contiguous float matrix; a single one without a copy."""
    # A new matrix is float32 if the dtypes of all blocks fit in it exactly, else float64.
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
