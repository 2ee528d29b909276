"""Rows of a design, and sums of their squares, in dense and in sparse formats."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import block_array, csr_array, diags_array, triu

from pymc_flymc.kernels.layout import Arrow, MatrixParts

#: Beyond this many coefficients of a predictor, matrices with sparse columns are not written out.
LARGEST_DENSE = 300
#: Sparse columns beyond which rows are not written out: a product of matrices with B columns takes
#: B^2 operations a row, and sums over the numbers that are not zero about 200 in all.
FEW_SPARSE = 32
#: Largest number of pairs of sparse columns that occur in the same row: with more, the matrix of
#: their squares would take too much memory.
MAX_PAIRS = 50_000_000
#: Least share of a sparse column's curvature that is left in all directions, without flat rows.
LEAST_CONCAVE = 0.1
#: Number of rows in a block, unless they have many columns.
BLOCK = 8192
#: Weights that count as zero: products of numbers that underflow are slow.
TINY = 1e-200


def _nothing() -> csr_array:
    return csr_array((0, 0))


def are_sparse(n: int, width: int, n_sparse: int, n_predictors: int) -> np.ndarray:
    """Return which of n coefficients are those of sparse columns, the last of each predictor.

    A predictor has `width` coefficients, `n_sparse` of them of sparse columns.
    """
    places = np.arange(n)
    return (places % max(width, 1) >= width - n_sparse) & (places < n_predictors * width)


@dataclass(frozen=True)
class SymmetricMatrix:
    """A symmetric matrix (P, P) of the coefficients; with many columns an arrow, in part sparse.

    The coefficients of each predictor are those of dense columns, then those of sparse columns.
    Nuisance parameters come after all predictors. An arrow has the sparse columns of all predictors
    together, Q, and nuisance parameters count as dense columns.
    """

    dense: np.ndarray  #: Shape (P - Q, P - Q).
    #: Shape (P - Q, Q), or (0, 0).
    cross: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    sparse: csr_array = field(default_factory=_nothing)  #: Shape (Q, Q).
    start: int = 0  #: Number of dense columns of each predictor.
    n_predictors: int = 1

    @property
    def n_sparse(self) -> int:
        """Return the number of columns of the sparse block, zero if the matrix is written out."""
        return self.cross.shape[1]

    def _are_sparse(self, n: int) -> np.ndarray:
        """Return which of n coefficients, in their own order, are those of sparse columns."""
        each = self.n_sparse // self.n_predictors
        return are_sparse(n, self.start + each, each, self.n_predictors)

    def order(self) -> np.ndarray:
        """Return the indices of the coefficients in the order of an arrow, sparse columns last."""
        return np.argsort(self._are_sparse(len(self.dense) + self.n_sparse), kind="stable")

    def diagonal(self) -> np.ndarray:
        """Return the diagonal, in the order of the coefficients, shape (P,)."""
        if not self.n_sparse:
            return np.diag(self.dense)
        found = np.empty(len(self.dense) + self.n_sparse)
        found[self.order()] = np.concatenate([np.diag(self.dense), self.sparse.diagonal()])
        return found

    @property
    def array(self) -> np.ndarray:
        """Return the matrix, written out; an arrow is refused."""
        if self.n_sparse:
            raise ValueError(
                f"a matrix of {len(self.dense) + self.n_sparse} coefficients with effects of "
                f"groups or sparse columns is not written out: use at most {LARGEST_DENSE}"
            )
        return self.dense

    def __add__(self, other: SymmetricMatrix | int) -> SymmetricMatrix:
        if isinstance(other, int):  # zero, for a sum of nothing
            return self
        dense = self.dense + other.dense
        if not self.n_sparse:
            return SymmetricMatrix(dense)
        sparse = self.sparse + other.sparse
        if sparse.nnz > 2 * MAX_PAIRS:
            raise ValueError(
                f"more than {MAX_PAIRS:,} pairs of columns of the sparse design meet in a row: the "
                "statistics of a bound would be too large; use fewer columns, or fewer in each row"
            )
        return replace(self, dense=dense, cross=self.cross + other.cross, sparse=sparse)

    __radd__ = __add__

    def __rmul__(self, factor: float) -> SymmetricMatrix:
        dense, cross, sparse = factor * self.dense, factor * self.cross, factor * self.sparse
        return replace(self, dense=dense, cross=cross, sparse=sparse)

    def bordered(self, mixed: np.ndarray, own: np.ndarray) -> SymmetricMatrix:
        """Return the matrix with S more rows and columns, `mixed` (P, S) and `own` (S, S)."""
        is_sparse = self._are_sparse(len(mixed))
        ahead = mixed[~is_sparse]
        upper = np.triu(np.block([[self.dense, ahead], [ahead.T, own]]))
        dense = upper + np.triu(upper, 1).T
        if not self.n_sparse:
            return SymmetricMatrix(dense)
        cross = np.concatenate([self.cross, mixed[is_sparse].T])
        return replace(self, dense=dense, cross=cross)

    def unbordered(self) -> SymmetricMatrix:
        """Return the matrix without the last row and column, those of a nuisance parameter."""
        return replace(self, dense=self.dense[:-1, :-1], cross=self.cross[:-1])

    def concave(self) -> SymmetricMatrix:
        """Return the matrix with the signs of negative eigenvalues changed."""
        # A log-likelihood with this information has a maximum, and no direction in which it rises
        # forever. Arrows are made so row by row, see `flattened`.
        if self.n_sparse or not np.all(np.isfinite(self.dense)):
            return self
        with suppress(np.linalg.LinAlgError):
            np.linalg.cholesky(self.dense)  # a hundred times as fast as the lines below
            return self
        values, vectors = np.linalg.eigh(self.dense)
        return SymmetricMatrix((vectors * np.abs(values)) @ vectors.T)

    def flattened(self, more: SymmetricMatrix) -> SymmetricMatrix:
        """Return an arrow, plus what makes its rows concave, for sparse columns that need it.

        Most columns have enough rows for a sum that is concave: it is the better approximation.
        """
        k, q = self.n_predictors, self.n_sparse // self.n_predictors
        own, others = (
            np.array(
                [
                    [each[i * q : (i + 1) * q, j * q : (j + 1) * q].diagonal() for j in range(k)]
                    for i in range(k)
                ]
            )
            for each in (self.sparse, more.sparse)
        )
        size = np.sqrt(np.maximum(np.einsum("iij->ij", own + others), 0.0))
        empty = size == 0.0
        size[empty] = 1.0
        shares = own / (size[:, None] * size)
        shares[range(k), range(k)] += empty
        needy = np.linalg.eigvalsh(np.moveaxis(shares, 2, 0))[:, 0] < LEAST_CONCAVE
        kept = diags_array(np.tile(needy, k).astype(np.float64))
        sparse = csr_array(kept @ more.sparse @ kept)
        # Dense columns get the share of these rows, predictor by predictor. All of it would hold an
        # intercept back, which moves along with the effects of the other rows.
        each = others[range(k), range(k)]
        whole = each.sum(axis=1)
        share = np.where(whole > 0.0, (each @ needy) / np.where(whole > 0.0, whole, 1.0), 1.0)
        root = np.ones(len(more.dense))
        root[: k * self.start] = np.repeat(np.sqrt(share), self.start)
        dense, cross = root[:, None] * more.dense * root, more.cross @ kept
        return self + replace(more, dense=dense, cross=cross, sparse=sparse)

    def form(self, u: np.ndarray) -> tuple[float, float]:
        """Return u' A u, and the sum of the absolute values of its terms."""
        sparse = self._are_sparse(len(u))
        us, ud = u[sparse], u[~sparse]
        form = float(ud @ (self.dense @ ud))
        size = float(np.abs(ud) @ (np.abs(self.dense) @ np.abs(ud)))
        if self.n_sparse:
            form += float(us @ (self.sparse @ us) + 2.0 * ud @ (self.cross @ us))
            absolute = np.abs(us) @ (abs(self.sparse) @ np.abs(us))
            size += float(absolute + 2.0 * np.abs(ud) @ (np.abs(self.cross) @ np.abs(us)))
        return form, size

    def arrow(self, n_sparse: int, n_predictors: int = 1) -> SymmetricMatrix:
        """Return the matrix as an arrow: each predictor's last `n_sparse` columns are sparse."""
        if self.n_sparse:
            return self
        start = len(self.dense) // n_predictors - n_sparse
        is_sparse = are_sparse(len(self.dense), start + n_sparse, n_sparse, n_predictors)
        (m, s), a = (np.flatnonzero(each) for each in (~is_sparse, is_sparse)), self.dense
        dense, cross, sparse = a[np.ix_(m, m)], a[np.ix_(m, s)], csr_array(a[np.ix_(s, s)])
        return SymmetricMatrix(dense, cross, sparse, start, n_predictors)

    def pack(self) -> np.ndarray:
        """Return all numbers as one vector: `MatrixParts`, for large matrices after an `Arrow`."""
        if not self.n_sparse:
            n = len(self.dense)
            header: Any = Arrow(n, 0, 0, 1) if n > LARGEST_DENSE else ()
            return np.concatenate([header, self.dense.ravel()])
        pairs = triu(self.sparse, k=1, format="csr")
        parts = MatrixParts(
            dense=self.dense.ravel(),
            cross=self.cross.ravel(),
            diagonal=self.sparse.diagonal(),
            lengths=np.diff(pairs.indptr) if pairs.nnz else (),
            values=pairs.data,
            columns=pairs.indices,
        )
        header = Arrow(self.start, self.n_sparse, pairs.nnz, self.n_predictors)
        return np.concatenate([header, *parts])


@dataclass(frozen=True)
class RowMatrix:
    """Rows of a design in float64, shape (n, P), with the intercept's column of ones.

    ``rows @ w`` are their products with coefficients of shape (P,) or (P, R), and ``v @ rows``
    sums of the rows, with weights of shape (n,) or (K, n).
    """

    dense: np.ndarray  #: Shape (n, P - Q).
    sparse: csr_array  #: Shape (n, Q), with duplicates and zeros as they are stored.

    #: Number of rows in a block, and whether several threads work on blocks. An arrow of few rows
    #: is about as large as one of many rows, and as the statistics.
    block_rows, threaded = 4 * BLOCK, False
    #: Whether columns are written out, and whether one radius is used for all coefficients.
    written_out = one_radius = False

    __array_ufunc__ = None  # leaves ``array @ rows`` to this class

    def __len__(self) -> int:
        return len(self.dense)

    @cached_property
    def array(self) -> np.ndarray:
        """Return all columns, written out, shape (n, P)."""
        if not self.sparse.shape[1]:
            return self.dense
        return np.hstack([self.dense, self.sparse.toarray()])

    def __matmul__(self, w: np.ndarray) -> np.ndarray:
        m = self.dense.shape[1]
        return self.dense @ w[:m] + self.sparse @ w[m:]

    def __rmatmul__(self, v: np.ndarray) -> np.ndarray:
        return np.concatenate([v @ self.dense, v @ self.sparse], axis=-1)

    def predictors(self, w: np.ndarray) -> np.ndarray:
        """Return the predictors (K, n) for coefficients (K, P)."""
        return (self @ w.T).T

    def sandwich(self, a: np.ndarray) -> SymmetricMatrix:
        """Return sum_n a_n x_n x_n' for weights (n,); (K P, K P) for weights (K, K, n)."""
        if a.ndim == 1:
            return self._arrow(a)
        k = len(a)
        upper = {(i, j): self._arrow(a[i, j]) for i in range(k) for j in range(i, k)}
        blocks = [[upper[min(i, j), max(i, j)] for j in range(k)] for i in range(k)]
        return SymmetricMatrix(
            np.block([[each.dense for each in row] for row in blocks]),
            np.block([[each.cross for each in row] for row in blocks]),
            block_array([[each.sparse for each in row] for row in blocks], format="csr"),
            self.dense.shape[1],
            k,
        )

    def _arrow(self, a: np.ndarray) -> SymmetricMatrix:
        """Return the sandwich for weights (n,)."""
        weights = np.where(np.abs(a) > TINY, a, 0.0)
        weighted = self.dense * weights[:, None]
        cross = (self.sparse.T @ weighted).T
        sparse = self.sparse.T @ (diags_array(weights) @ self.sparse).tocsc()
        return SymmetricMatrix(weighted.T @ self.dense, cross, sparse, self.dense.shape[1])

    def taken(self, places: np.ndarray) -> RowMatrix:
        """Return the rows of some indices."""
        return replace(self, dense=self.dense[places], sparse=self.sparse[places])

    def sizes(self) -> csr_array:
        """Return the absolute values of all sparse numbers, zeros and duplicates included."""
        kept = np.abs(self.sparse.data), self.sparse.indices, self.sparse.indptr
        return csr_array(kept, shape=self.sparse.shape)

    def largest(self, of_rows: np.ndarray) -> np.ndarray:
        """Return the largest number in some rows, or zero, for each sparse column, shape (Q,)."""
        found = np.zeros(self.sparse.shape[1])
        np.maximum.at(found, self.sparse.indices, np.repeat(of_rows, np.diff(self.sparse.indptr)))
        return found


class SquareRows(RowMatrix):
    """Rows with few coefficients, whose sums of squares are written out."""

    block_rows, threaded = BLOCK, True
    written_out = one_radius = True

    def sandwich(self, a: np.ndarray) -> SymmetricMatrix:
        """Return sum_n a_n x_n x_n', as the base class does, but never as an arrow."""
        weights = np.where(np.abs(a) > TINY, a, 0.0)
        weights = weights if a.ndim == 3 else weights[None, None]
        k, p = len(weights), self.dense.shape[1] + self.sparse.shape[1]
        out = np.empty((k, p, k, p))
        for i in range(k):
            for j in range(i, k):
                out[i, :, j] = out[j, :, i] = self._square(weights[i, j])
        return SymmetricMatrix(out.reshape(k * p, k * p))

    def _square(self, a: np.ndarray) -> np.ndarray:
        arrow = self._arrow(a)
        return np.block([[arrow.dense, arrow.cross], [arrow.cross.T, arrow.sparse.toarray()]])


class DenseRows(SquareRows):
    """Rows of few columns, which are written out: products take less time."""

    def __matmul__(self, w: np.ndarray) -> np.ndarray:
        return self.array @ w

    def __rmatmul__(self, v: np.ndarray) -> np.ndarray:
        return v @ self.array

    def predictors(self, w: np.ndarray) -> np.ndarray:
        """Return the predictors for coefficients of shape (K, P), shape (K, n)."""
        return w @ self.array.T

    def taken(self, places: np.ndarray) -> RowMatrix:
        """Return some of the rows."""
        return replace(self, dense=self.array[places], sparse=_nothing())

    def _square(self, a: np.ndarray) -> np.ndarray:
        x = self.array
        for sign in (1.0, -1.0):
            if np.all(sign * a >= 0.0):
                # The same array twice: BLAS computes one triangle only.
                root = x * np.sqrt(sign * a)[:, None]
                return np.asarray(sign * (root.T @ root))
        return np.asarray(x.T @ (x * a[:, None]))
