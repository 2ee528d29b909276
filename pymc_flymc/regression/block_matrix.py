"""Rows of a design with many sparse columns, and sums of their squares, never written out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from pytensor.tensor.variable import TensorVariable
from scipy.sparse import csr_array, diags_array, triu

__all__ = [
    "BlockMatrix",
    "SparseRows",
    "block_size",
    "pack_dense",
]

#: Pairs of sparse columns that meet in a row, at most: beyond, their squares are no statistic of a
#: bearable size.
MAX_PAIRS = 50_000_000


@dataclass(frozen=True)
class SparseRows:
    """Rows of a design, to be multiplied like an array of shape (n, P).

    Attributes
    ----------
    dense : ndarray, shape (n, P - Q), float64
        Dense columns, with the intercept's.
    sparse : csr_array, shape (n, Q)
    """

    dense: np.ndarray
    sparse: csr_array

    __array_ufunc__ = None  # leaves ``array @ rows`` to this class

    def __len__(self) -> int:
        return len(self.dense)

    def __matmul__(self, weights: np.ndarray) -> np.ndarray:
        """Return the product with an array of shape (P,) or (P, R)."""
        m = self.dense.shape[1]
        return self.dense @ weights[:m] + self.sparse @ weights[m:]

    def __rmatmul__(self, values: np.ndarray) -> np.ndarray:
        """Return ``values @ rows`` for an array of shape (n,) or (K, n)."""
        return np.concatenate([values @ self.dense, values @ self.sparse], axis=-1)


class BlockMatrix:
    """Symmetric matrix whose block of the sparse columns is sparse.

    Parameters
    ----------
    n : int
        Its size, P.
    n_sparse : int
        Number of sparse columns, Q.
    n_last : int
        Columns behind the sparse ones, which belong to the dense block.

    Attributes
    ----------
    dense : ndarray, shape (P - Q, P - Q)
    cross : ndarray, shape (P - Q, Q)
    sparse : csr_array, shape (Q, Q)
    """

    def __init__(self, n: int, n_sparse: int, n_last: int = 0) -> None:
        m = n - n_sparse
        self.start = m - n_last
        self.dense = np.zeros((m, m))
        self.cross = np.zeros((m, n_sparse))
        self.sparse = csr_array((n_sparse, n_sparse))

    def add_squares(self, x: SparseRows, a: np.ndarray) -> None:
        """Add sum_n a_n x_n x_n', for rows without the last columns, and a >= 0.

        Raises
        ------
        ValueError
            If too many pairs of sparse columns meet in a row.
        """
        start, weighted = self.start, x.dense * a[:, None]
        self.dense[:start, :start] += weighted.T @ x.dense
        self.cross[:start] += (x.sparse.T @ weighted).T
        self.sparse = self.sparse + x.sparse.T @ (diags_array(a) @ x.sparse).tocsc()
        if self.sparse.nnz > 2 * MAX_PAIRS:
            raise ValueError(
                f"more than {MAX_PAIRS:,} pairs of columns of the sparse design meet in a row: the "
                "statistics of a bound would be too large; use fewer columns, or fewer in each row"
            )

    def scaled(self, factor: float) -> BlockMatrix:
        """Return the matrix times a number."""
        out = object.__new__(BlockMatrix)
        out.start = self.start
        out.dense, out.cross = factor * self.dense, factor * self.cross
        out.sparse = factor * self.sparse
        return out

    def __add__(self, other: BlockMatrix) -> BlockMatrix:
        """Return the sum with a matrix of the same blocks."""
        out = object.__new__(BlockMatrix)
        out.start = self.start
        out.dense, out.cross = self.dense + other.dense, self.cross + other.cross
        out.sparse = self.sparse + other.sparse
        return out

    def pack(self) -> np.ndarray:
        """Return all numbers as one vector, which `kernels.quadratic` reads.

        These are the position of the sparse columns, their number and that of the pairs that meet;
        the two dense blocks; the diagonal of the sparse one; and of each pair twice its number
        (for it stands in the matrix twice) and its two positions.
        """
        pairs = triu(self.sparse, k=1, format="coo")
        header = [self.start, self.cross.shape[1], pairs.nnz]
        parts: list[Any] = [self.dense.ravel(), self.cross.ravel(), self.sparse.diagonal()]
        return np.concatenate([header, *parts, 2.0 * pairs.data, *pairs.coords])


def pack_dense(matrix: np.ndarray) -> np.ndarray:
    """Pack a dense matrix in the format of `BlockMatrix.pack`."""
    return np.concatenate([[len(matrix), 0, 0], matrix.ravel()])


def _sizes(packed: TensorVariable) -> list[Any]:
    return [packed[i].astype("int64") for i in range(3)]


def block_size(packed: TensorVariable, n: int) -> Any:
    """Graph of the length of a packed matrix of size n."""
    _, n_sparse, n_pairs = _sizes(packed)
    m = n - n_sparse
    return 3 + m * m + m * n_sparse + n_sparse + 3 * n_pairs
