"""Sparse columns of a design: effects of groups as codes, and any other sparse matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from operator import add

import numpy as np
from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False)
class SparseColumns:
    """A sparse matrix of shape (N, Q), stored without anything that is the same in each row.

    Row n has ones in the columns ``codes[n, :J - V]``, the numbers ``values[n]`` in the columns
    ``codes[n, J - V:]``, and ``numbers[indptr[n]:indptr[n + 1]]`` in the columns ``indices[...]``.
    A random intercept is a code, 4 bytes for each row; a random slope is a code and the covariate,
    12 bytes. If a column stands twice in a row, its numbers are summed.
    """

    n_columns: int = 0  #: Q.
    #: Shape (N, J), int32.
    codes: np.ndarray = field(default_factory=lambda: np.empty((0, 0), np.int32))
    #: Shape (N, V), V <= J, float64.
    values: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    #: For a matrix whose rows have different numbers of entries, else empty: int64, (N + 1,), with
    #: int32 `indices` and float64 `numbers`, (M,).
    indptr: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    indices: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    numbers: np.ndarray = field(default_factory=lambda: np.empty(0))

    __array_ufunc__ = None  # leaves ``array @ columns`` to this class

    @classmethod
    def of_codes(
        cls, codes: np.ndarray, values: np.ndarray | None, n_columns: int
    ) -> SparseColumns:
        """Return the matrix with `values`, or ones, in the columns `codes`, of the same shape."""
        codes = np.ascontiguousarray(codes, np.int32)
        if values is None or np.all(values == 1.0):
            return cls(n_columns, codes, np.empty((len(codes), 0)))
        return cls(n_columns, codes, np.ascontiguousarray(values, np.float64))

    @classmethod
    def of_matrix(cls, matrix: csr_array) -> SparseColumns:
        """Return a matrix, as codes if all rows have the same number of entries."""
        (n_rows, n_columns), n_each = matrix.shape, matrix.nnz // max(1, matrix.shape[0])
        if np.all(np.diff(matrix.indptr) == n_each):
            place = slice(0, matrix.nnz), (n_rows, n_each)
            codes, values = (a[place[0]].reshape(place[1]) for a in (matrix.indices, matrix.data))
            return cls.of_codes(codes, values, n_columns)
        codes = np.empty((n_rows, 0), np.int32)
        others = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False)
        return cls(n_columns, codes, codes.astype(np.float64), *others, matrix.data)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def n_ones(self) -> int:
        """Return how many of each row's codes stand for ones."""
        return self.codes.shape[1] - self.values.shape[1]

    @property
    def is_factor(self) -> bool:
        """Return whether each row has a single number, a one: the codes are those of one factor."""
        return self.codes.shape[1] == self.n_ones == 1 and not self.indptr.size

    @property
    def nnz(self) -> int:
        """Return the number of entries."""
        return self.codes.size + self.numbers.size

    @property
    def nbytes(self) -> int:
        """Return the number of bytes in memory."""
        return sum(getattr(self, each.name).nbytes for each in fields(self)[1:])

    def __getitem__(self, rows: slice | np.ndarray) -> SparseColumns:
        """Return some rows."""
        if not self.n_columns:
            return self
        some = replace(self, codes=self.codes[rows], values=self.values[rows])
        if not self.indptr.size:
            return some
        first = self.indptr[:-1][rows]
        counts = self.indptr[1:][rows] - first
        indptr = np.concatenate([[0], np.cumsum(counts)])
        # Position of each number: as far from the start of its row as in the copy.
        places = np.repeat(first - indptr[:-1], counts) + np.arange(indptr[-1])
        return replace(
            some, indptr=indptr, indices=self.indices[places], numbers=self.numbers[places]
        )

    def csr(self) -> csr_array:
        """Return all numbers written out as they are stored, 12 bytes each: for blocks of rows."""
        n_rows, n_each = self.codes.shape
        ones = np.ones((n_rows, self.n_ones))
        data = np.concatenate([ones, self.values], axis=1).ravel()
        indices, starts = self.codes.ravel(), n_each * np.arange(n_rows + 1)
        if self.indptr.size:
            coded = np.zeros(len(data) + len(self.numbers), bool)
            coded[(starts + self.indptr)[:-1, None] + np.arange(n_each)] = True
            starts += self.indptr
            indices, data = (
                _merged(coded, *both) for both in ((indices, self.indices), (data, self.numbers))
            )
        return _csr(data, indices, starts, (n_rows, self.n_columns))

    def __matmul__(self, w: np.ndarray) -> np.ndarray:
        """Return the product with an array of shape (Q,) or (Q, R)."""
        return self.csr() @ w

    def __rmatmul__(self, v: np.ndarray) -> np.ndarray:
        """Return ``v @ columns`` for an array of shape (n,) or (K, n)."""
        return v @ self.csr()

    def __add__(self, other: SparseColumns) -> SparseColumns:
        """Return the sum of matrices of the same shape."""
        return _joined([self, other], [0, 0], self.n_columns)

    def __abs__(self) -> SparseColumns:
        """Return the absolute values of all numbers as stored: duplicates are not summed."""
        return self._with(np.abs)

    def positive(self) -> tuple[SparseColumns, float]:
        """Return the matrix with a sign such that its first number is positive, and the sign."""
        numbers = self.values if self.values.size else self.numbers
        if self.n_ones or not numbers.size or numbers.flat[0] >= 0.0:
            return self, 1.0
        found = self._with(np.negative)
        if found.indptr.size:
            return found, -1.0
        return self.of_codes(found.codes, found.values, self.n_columns), -1.0

    def _with(self, function: Callable[[np.ndarray], np.ndarray]) -> SparseColumns:
        return replace(self, values=function(self.values), numbers=function(self.numbers))

    def same_as(self, other: SparseColumns) -> bool:
        """Return whether another matrix is stored in the same way, with the same numbers."""
        return all(
            np.array_equal(getattr(self, each.name), getattr(other, each.name))
            for each in fields(self)
        )

    def counts(self) -> np.ndarray:
        """Return how many numbers each column has, shape (Q,)."""
        kept = np.bincount(self.codes.ravel(), minlength=self.n_columns)
        return kept + np.bincount(self.indices, minlength=self.n_columns)

    def first_rows(self, columns: np.ndarray) -> np.ndarray:
        """Return the rows in which some columns have their first numbers, sorted."""
        wanted = np.zeros(self.n_columns, bool)
        wanted[columns] = True
        first = np.full(self.n_columns, len(self))
        rows, places = np.nonzero(wanted[self.codes])
        np.minimum.at(first, self.codes[rows, places], rows)
        places = np.flatnonzero(wanted[self.indices])
        np.minimum.at(first, self.indices[places], self._rows_of(places))
        return np.unique(first[first < len(self)])

    def count_bad_rows(self) -> int:
        """Return how many rows hold a NaN or an infinity."""
        bad = ~np.isfinite(self.values).all(axis=1)
        bad[self._rows_of(np.flatnonzero(~np.isfinite(self.numbers)))] = True
        return int(bad.sum())

    def _rows_of(self, places: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.indptr, places, side="right") - 1


def stack(parts: Sequence[SparseColumns]) -> SparseColumns:
    """Return sparse matrices next to each other, shape (N, sum of Q_i)."""
    if len(parts) <= 1:
        return parts[0] if parts else SparseColumns()
    starts = np.cumsum([0, *(part.n_columns for part in parts)])
    return _joined(parts, starts[:-1], int(starts[-1]))


def _joined(
    parts: Sequence[SparseColumns], starts: Sequence[int] | np.ndarray, n_columns: int
) -> SparseColumns:
    """Return the sum of matrices whose columns begin at `starts`; all ones come first."""
    pairs = list(zip(parts, np.asarray(starts, np.int32), strict=True))
    ones = [part.codes[:, : part.n_ones] + start for part, start in pairs]
    codes = [*ones, *(part.codes[:, part.n_ones :] + start for part, start in pairs)]
    values = [part.values for part in parts]
    joined = SparseColumns(n_columns, np.concatenate(codes, axis=1), np.concatenate(values, axis=1))
    others = [
        _csr(part.numbers, part.indices + start, part.indptr, (len(part), n_columns))
        for part, start in pairs
        if part.indptr.size
    ]
    if not others:
        return joined
    rest = reduce(add, others)
    indptr, indices = rest.indptr.astype(np.int64), rest.indices.astype(np.int32, copy=False)
    return replace(joined, indptr=indptr, indices=indices, numbers=rest.data)


def _csr(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int]
) -> csr_array:
    # SciPy uses the wider of the two types of positions for both, and for products.
    narrow = np.int32 if len(data) < 2**31 else np.int64
    return csr_array((data, indices, indptr.astype(narrow, copy=False)), shape=shape)


def _merged(first: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    out = np.empty(len(first), a.dtype)
    out[first], out[~first] = a, b
    return out
