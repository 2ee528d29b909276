"""Collapsed sums of quadratics in the predictor, and their sufficient statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.graphs.quadratic_op import Quadratic
from pymc_flymc.regression.matrices import LARGEST_DENSE, RowMatrix, SymmetricMatrix


class Places(NamedTuple):
    """Where the statistics of a quadratic in P coefficients stand, as they are packed.

    A constant, the centre, the gradient there, and the curvature.
    """

    constant: int = 0
    first: int = 1

    def centre(self, n_coefficients: int) -> slice:
        """Return the place of the centre."""
        return slice(self.first, self.first + n_coefficients)

    def linear(self, n_coefficients: int) -> slice:
        """Return the place of the gradient."""
        p = n_coefficients
        return slice(self.first + p, self.first + 2 * p)

    def curvature(self, n_coefficients: int) -> int:
        """Return where the curvature begins."""
        return self.first + 2 * n_coefficients


PLACES = Places()


@dataclass
class QuadraticStatistics:
    """Sufficient statistics of ``sum_n c_n + b_n eta_n - a_n eta_n^2``, eta_n = x_n . w + offset_n.

    Kept around a centre: with u = w - centre the sum is ``constant + linear . u - u' curvature u``.
    Near the posterior u is small, so that a sum over millions of rows loses no digits.

    Parameters
    ----------
    centre : ndarray, shape (P,), float64
        Coefficients at which `linear` is the gradient, normally the anchor.
    """

    centre: np.ndarray

    def __post_init__(self) -> None:
        self.constant = 0.0
        self.linear = np.zeros(len(self.centre))
        self.curvature: SymmetricMatrix | None = None

    def add(
        self, x: RowMatrix, eta: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray
    ) -> None:
        """Add rows.

        Parameters
        ----------
        x : RowMatrix, shape (n, P)
        eta : ndarray, shape (n,)
            Their predictors at the centre, offset included.
        a, b, c : ndarray, shape (n,)
            Coefficients of each row's quadratic in eta; a >= 0.
        """
        self.constant += float(np.sum(c + b * eta - a * eta**2))
        self.linear += (b - 2.0 * a * eta) @ x
        self._add_curvature(x.sandwich(a))

    def add_expansion(
        self, x: RowMatrix, value: np.ndarray, slope: np.ndarray, curvature: np.ndarray
    ) -> None:
        """Add rows with K predictors each, ``value + slope . u - u' curvature u / 2`` for each row.

        u is the distance of the predictors from those at the centre.

        Parameters
        ----------
        x : RowMatrix, shape (n, P / K)
        value : ndarray, shape (n,)
        slope : ndarray, shape (K, n)
        curvature : ndarray, shape (K, K, n)
            Symmetric, and not negative on the diagonal.
        """
        self.constant += float(value.sum())
        self.linear += (slope @ x).ravel()
        self._add_curvature(x.sandwich(0.5 * curvature))

    def _add_curvature(self, more: SymmetricMatrix) -> None:
        self.curvature = more if self.curvature is None else self.curvature + more

    def pack(self) -> np.ndarray:
        """All statistics as one float64 vector, the input `statistics` of `collapsed_quadratic`."""
        assert self.curvature is not None
        return pack_quadratic(self.constant, self.centre, self.linear, self.curvature)


def pack_quadratic(
    constant: float, centre: np.ndarray, linear: np.ndarray, curvature: SymmetricMatrix
) -> np.ndarray:
    """Pack a quadratic as `QuadraticStatistics.pack` does."""
    return np.concatenate([[constant], centre, linear, curvature.pack()])


def dense_curvatures(statistics: np.ndarray, sizes: tuple[int, ...]) -> list[np.ndarray] | None:
    """Return the matrices of quadratics packed one after the other; None if columns are sparse.

    Parameters
    ----------
    statistics : ndarray
        As packed by `QuadraticStatistics.pack`; what follows is not read.
    sizes : tuple of int
        Numbers of coefficients.
    """
    found, place = [], 0
    for p in sizes:
        place += PLACES.curvature(p)
        if p > LARGEST_DENSE:
            if statistics[place + 1]:
                return None
            place += 3
        found.append(statistics[place : place + p * p].reshape(p, p))
        place += p * p
    return found


def quadratic_size(statistics: TensorVariable, n_coefficients: int) -> Any:
    """Length of the vector packed by `QuadraticStatistics.pack`, behind which others may follow.

    A number for up to `LARGEST_DENSE` coefficients, and a graph of the statistics beyond.
    """
    p, start = n_coefficients, PLACES.curvature(n_coefficients)
    if p <= LARGEST_DENSE:
        return start + p * p
    _, n_sparse, n_pairs = (statistics[start + i].astype("int64") for i in range(3))
    m = p - n_sparse
    n_lengths: Any = pt.switch(n_pairs > 0, n_sparse, 0)
    return start + 3 + m * m + m * n_sparse + n_sparse + n_lengths + 2 * n_pairs


def sparse_diagonal(
    statistics: TensorVariable, n_coefficients: int, n_sparse: int
) -> tuple[Any, TensorVariable]:
    """Return where the sparse columns of an arrow begin, and the diagonal of its sparse block.

    Parameters
    ----------
    statistics : TensorVariable
        As packed by `QuadraticStatistics.pack`; what follows is not read.
    """
    header, m = PLACES.curvature(n_coefficients), n_coefficients - n_sparse
    first = header + 3 + m * m + m * n_sparse
    return statistics[header].astype("int64"), statistics[first : first + n_sparse]


def collapsed_quadratic(
    w: TensorVariable, statistics: TensorVariable, n_coefficients: int
) -> TensorVariable:
    """Graph of the collapsed sum of log bounds at coefficients w, in time independent of N.

    Parameters
    ----------
    w : TensorVariable, shape (P,)
    statistics : TensorVariable
        As packed by `QuadraticStatistics.pack`; what follows is not read.
    """
    _, linear, form = quadratic_terms(w, statistics, n_coefficients)
    return statistics[PLACES.constant] + linear - form


def quadratic_terms(
    w: TensorVariable, statistics: TensorVariable, n_coefficients: int
) -> tuple[TensorVariable, TensorVariable, TensorVariable]:
    """Graphs of u = w - centre, linear . u and u' curvature u."""
    u = w - statistics[PLACES.centre(n_coefficients)]
    terms: Any = Quadratic(n_coefficients > LARGEST_DENSE)(u, statistics)
    along, form, _ = terms
    return u, along, form
