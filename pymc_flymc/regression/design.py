"""The data side of a linear predictor: dense and sparse columns, offsets, an intercept."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, reduce
from operator import add
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array

from pymc_flymc.regression import matrices
from pymc_flymc.regression.matrices import SymmetricMatrix
from pymc_flymc.threads import in_order

#: A dense column is the same in all rows of a level if this share of its square, or less, is left.
LEFT = 1e-11


@dataclass(frozen=True)
class CommonShifts:
    """Shifts, each of which adds a number to some coefficients and takes it from others.

    Attributes
    ----------
    sources, targets : list of ndarray of int64
        Columns to whose coefficients each shift adds, and from whose it takes. They are in an order
        in which no later shift changes the sum over an earlier one's sources.
    factors : list of ndarray of int64
        Columns of which each row has exactly one, the largest sets first.
    """

    sources: list[np.ndarray]
    targets: list[np.ndarray]
    factors: list[np.ndarray]


@dataclass(frozen=True)
class _Block:
    """Columns that do not occur beside others in the same places of rows.

    Attributes
    ----------
    columns : ndarray of int64
    places : list of int
        Places among each row's codes.
    sums : ndarray, shape (N,)
        Of each row's numbers in these columns.
    """

    columns: np.ndarray
    places: list[int]
    sums: np.ndarray


def find_common_shifts(sparse: SparseColumns) -> CommonShifts:
    """Find the common shifts of sparse columns.

    Those of pairs of blocks with the same sums in all rows, and of single blocks whose sums are
    zero, as in ``a[home] - a[away]``. Numbers that are not kept as codes have none.
    """
    blocks = sorted(_blocks(sparse), key=lambda block: len(block.columns))
    sources: list[np.ndarray] = []
    targets: list[np.ndarray] = []
    for i, block in enumerate(blocks):
        others = [each for each in blocks[i + 1 :] if np.array_equal(each.sums, block.sums)]
        pairs = [(_components(sparse, block, other), len(other.columns)) for other in others]
        if not block.sums.any():
            pairs = [(_components(sparse, block, block), 0)]
        # Into the larger factor: of nested ones the coarser effects vanish altogether.
        components, _ = max(pairs, key=lambda pair: (len(pair[0]), pair[1]), default=([], 0))
        is_source = np.zeros(sparse.n_columns, bool)
        is_source[block.columns] = True
        for component in components:
            sources.append(component[is_source[component]])
            targets.append(component[~is_source[component]])
    factors = [block.columns for block in reversed(blocks) if len(block.places) == 1]
    return CommonShifts(sources, targets, factors)


def within_factors(
    information: SymmetricMatrix, factors: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return G, shape (Q, M), of dense columns that are the same in all rows of a level.

    The second result says which these are: the effects of one factor stand for them. Their own
    coefficient is a common shift, such as an intercept, whatever the prior of the effects is.
    """
    dense, diagonal = np.diag(information.dense), information.sparse.diagonal()
    within = np.zeros(information.cross.T.shape)
    spanned = np.zeros(len(dense), bool)
    for factor in factors:
        known = factor[diagonal[factor] > 0.0]
        means = information.cross[:, known] / diagonal[known]
        rest = dense - np.sum(information.cross[:, known] * means, axis=1)
        new = ~spanned & (dense > 0.0) & (rest <= LEFT * dense)
        within[np.ix_(known, new)] = means[new].T
        spanned |= new
    return within, spanned


def _blocks(sparse: SparseColumns) -> list[_Block]:
    """Return the places of codes in blocks: places that have columns in common are together."""
    n_places, q = sparse.codes.shape[1], sparse.n_columns
    if not len(sparse):
        return []
    used = [np.bincount(sparse.codes[:, j], minlength=q) > 0 for j in range(n_places)]
    taken = np.zeros(q, bool)
    taken[sparse.indices] = True
    groups: list[tuple[np.ndarray, list[int]]] = []
    for j, own in enumerate(used):
        meet = [group for group in groups if np.any(group[0] & own)]
        groups = [group for group in groups if not any(group is each for each in meet)]
        columns = np.logical_or.reduce([own, *(group[0] for group in meet)])
        groups.append((columns, [j, *(place for group in meet for place in group[1])]))
    return [
        _Block(np.flatnonzero(columns), places, reduce(add, (_numbers(sparse, j) for j in places)))
        for columns, places in groups
        if not np.any(columns & taken)
    ]


def _numbers(sparse: SparseColumns, place: int) -> np.ndarray:
    if place < sparse.n_ones:
        return np.broadcast_to(1.0, len(sparse))
    return sparse.values[:, place - sparse.n_ones]


def _components(sparse: SparseColumns, a: _Block, b: _Block) -> list[np.ndarray]:
    """Return the columns of each component of the graph of two blocks, in which rows are edges."""
    from scipy.sparse.csgraph import connected_components  # slow to import

    q, first = sparse.n_columns, sparse.codes[:, a.places[0]]
    edges, ones = csr_array((q, q), dtype=bool), np.ones(len(sparse), bool)
    for j in {*a.places, *b.places} - {a.places[0]}:
        edges = edges + csr_array((ones, (first, sparse.codes[:, j])), shape=(q, q))
    _, label = connected_components(edges, directed=False)
    columns = np.union1d(a.columns, b.columns)
    columns = columns[np.argsort(label[columns], kind="stable")]
    return np.split(columns, np.flatnonzero(np.diff(label[columns])) + 1)


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
