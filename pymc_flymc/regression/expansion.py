"""Collapsed sums of quadratics in the predictor, and log-likelihoods to second order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pytensor.tensor.variable import TensorVariable
from scipy.linalg import block_diag
from scipy.sparse import csr_array

from pymc_flymc.graphs.collapsed_ops import Quadratic
from pymc_flymc.kernels.collapsed import quadratic_kernel
from pymc_flymc.kernels.layout import ARROW, QuadraticParts, matrix_places, quadratic_places
from pymc_flymc.regression.matrices import LARGEST_DENSE, RowMatrix, SymmetricMatrix


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

        u is the distance of the predictors from those at the centre. Shapes: x (n, P / K), value
        (n,), slope (K, n), curvature (K, K, n), symmetric and not negative on the diagonal.
        """
        self.constant += float(value.sum())
        self.linear += (slope @ x).ravel()
        self._add_curvature(x.sandwich(0.5 * curvature))

    def _add_curvature(self, more: SymmetricMatrix) -> None:
        self.curvature = more if self.curvature is None else self.curvature + more

    def pack(self) -> np.ndarray:
        """Return all statistics as one float64 vector, as `collapsed_quadratic` reads them."""
        assert self.curvature is not None
        return pack_quadratic(self.constant, self.centre, self.linear, self.curvature)


def pack_quadratic(
    constant: float, centre: np.ndarray, linear: np.ndarray, curvature: SymmetricMatrix
) -> np.ndarray:
    """Pack a quadratic as `QuadraticStatistics.pack` does."""
    return np.concatenate(QuadraticParts([constant], centre, linear, curvature.pack()))


def _dense_curvatures(statistics: np.ndarray, sizes: tuple[int, ...]) -> list[np.ndarray] | None:
    """Return the matrices of packed quadratics of these sizes; None if columns are sparse."""
    found, place = [], 0
    for p in sizes:
        place += quadratic_places(p).curvature
        if p > LARGEST_DENSE:
            if statistics[place + ARROW.n_sparse]:
                return None
            place += len(ARROW)
        found.append(statistics[place : place + p * p].reshape(p, p))
        place += p * p
    return found


def quadratic_size(statistics: Any, n_coefficients: int) -> Any:
    """Return the length of what is packed first; of a graph, beyond `LARGEST_DENSE`, a graph."""
    p, start = n_coefficients, quadratic_places(n_coefficients).curvature
    if p <= LARGEST_DENSE:
        return start + p * p
    n_sparse = statistics[start + ARROW.n_sparse].astype("int64")
    n_pairs = statistics[start + ARROW.n_pairs].astype("int64")
    return matrix_places(start + len(ARROW), p - n_sparse, n_sparse, n_pairs).behind


def sparse_diagonal(
    statistics: TensorVariable, n_coefficients: int, n_sparse: int
) -> tuple[Any, TensorVariable]:
    """Return where the sparse columns of an arrow begin, and the diagonal of its sparse block."""
    arrow = quadratic_places(n_coefficients).curvature
    parts = matrix_places(arrow + len(ARROW), n_coefficients - n_sparse, n_sparse, 0)
    start = statistics[arrow + ARROW.start].astype("int64")
    return start, statistics[parts.diagonal : parts.lengths]


def collapsed_quadratic(
    w: TensorVariable, statistics: TensorVariable, n_coefficients: int
) -> TensorVariable:
    """Return the graph of the collapsed sum of log bounds at w, in time independent of N.

    Parameters
    ----------
    w : TensorVariable, shape (P,)
        Coefficients.
    statistics : TensorVariable
        As packed by `QuadraticStatistics.pack`; what follows is not read.
    n_coefficients : int
        P.
    """
    _, total, _ = quadratic_terms(w, statistics, n_coefficients)
    return total


def quadratic_terms(
    w: TensorVariable, statistics: TensorVariable, n_coefficients: int
) -> tuple[TensorVariable, TensorVariable, TensorVariable]:
    """Return the graphs of u = w - centre, of the collapsed sum, and of u' curvature u."""
    places = quadratic_places(n_coefficients)
    u = w - statistics[places.centre]
    terms: Any = Quadratic(n_coefficients > LARGEST_DENSE)(u, statistics)
    along, form, _ = terms
    return u, statistics[places.constant] + along - form, form


@dataclass(frozen=True)
class LikelihoodExpansion:
    """Log-likelihood of all rows around coefficients w, to second order."""

    value: float  #: Log-likelihood at w.
    gradient: np.ndarray
    information: SymmetricMatrix  #: Minus the Hessian.
    w: np.ndarray
    #: Information that rows lack far from the mode, if any do.
    missing: SymmetricMatrix | None = None
    #: What makes the rows of an arrow concave if it is added, if some are not.
    flattening: SymmetricMatrix | None = None

    def concave(self) -> SymmetricMatrix:
        """Return the information of a log-likelihood that is concave, or nearly so."""
        if self.flattening is None:
            return self.information.concave()
        return self.information.flattened(self.flattening)

    def pack(self) -> np.ndarray:
        """Return the expansion as the statistics of a collapsed quadratic."""
        return pack_quadratic(self.value, self.w, self.gradient, 0.5 * self.information)


@dataclass(frozen=True)
class JointExpansion:
    """Sum of several regressions' log-likelihoods to second order, each in its coefficients."""

    parts: tuple[LikelihoodExpansion, ...]

    @property
    def value(self) -> float:
        """Return the log-likelihood at the point of expansion."""
        return sum(part.value for part in self.parts)

    def pack(self) -> np.ndarray:
        """Return the statistics of collapsed quadratics, one after the other."""
        return np.concatenate([part.pack() for part in self.parts])

    def _with(self, matrices: Sequence[SymmetricMatrix]) -> JointExpansion:
        pairs = zip(self.parts, matrices, strict=True)
        return JointExpansion(
            tuple(replace(part, information=each, flattening=None) for part, each in pairs)
        )

    def concave(self) -> JointExpansion:
        """Return the sum with the curvature's sign changed where it is not concave, or flat."""
        return self._with([part.concave() for part in self.parts])

    @property
    def lacks_curvature(self) -> bool:
        """Return whether quadratics of rows exceed what log-likelihoods can reach."""
        return any(part.missing is not None for part in self.parts)

    def cautious(self) -> JointExpansion:
        """Return the sum with the curvature that rows lack added to it."""
        if not self.lacks_curvature:
            return self
        pairs = [(part.information, part.missing) for part in self.parts]
        return self._with([own if missing is None else own + missing for own, missing in pairs])

    def damped(self, factor: float, other: JointExpansion) -> JointExpansion:
        """Return the sum with another sum's curvature, times a factor, added to its curvature."""
        pairs = zip(self.parts, other.parts, strict=True)
        return self._with([a.information + factor * b.information for a, b in pairs])

    def flat(self) -> JointExpansion:
        """Return the expansion of log-likelihoods that are zero everywhere, of the same shapes."""

        def zero(part: LikelihoodExpansion) -> LikelihoodExpansion:
            nothing = np.zeros_like(part.gradient)
            return LikelihoodExpansion(0.0, nothing, 0.0 * part.information, part.w)

        return JointExpansion(tuple(zero(part) for part in self.parts))


#: Largest share of nonzero elements of a Jacobian for which products use sparse matrices.
SPARSE = 0.1


class AffineQuadratics:
    """Quadratics of coefficients with a constant Jacobian in theta, (P, D).

    NumPy does not warn of overflows: a search may try points at which numbers overflow.
    """

    def __init__(self, jacobian: np.ndarray, sizes: tuple[int, ...]) -> None:
        is_sparse = np.count_nonzero(jacobian) < SPARSE * jacobian.size
        self._jacobian: Any = csr_array(jacobian) if is_sparse else jacobian
        self._back, self._sizes = self._jacobian.T, sizes

    def _parts(self, statistics: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield the places of each likelihood's coefficients, and its statistics."""
        start = 0
        for n in self._sizes:
            yield slice(start, start + n), statistics
            start, statistics = start + n, statistics[quadratic_size(statistics, n) :]

    @np.errstate(all="ignore")
    def __call__(self, w: np.ndarray, statistics: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the sum at coefficients w, and its gradient in theta."""
        value, slope = 0.0, np.empty_like(w)
        for at, own in self._parts(statistics):
            of = quadratic_places(len(w[at]))
            along, form = _quadratic(w[at] - own[of.centre], own, slope[at])
            value += own[of.constant] + along - form
            slope[at] = own[of.linear] - 2.0 * slope[at]
        return value, np.asarray(self._back @ slope)

    @np.errstate(all="ignore")
    def times(self, statistics: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the product of the Hessian with a vector, (D,)."""
        change = self._jacobian @ v
        product = np.empty_like(change)
        for at, own in self._parts(statistics):
            _quadratic(change[at], own, product[at])
        return np.asarray(-2.0 * (self._back @ product))

    @np.errstate(all="ignore")
    def hessian(self, statistics: np.ndarray) -> np.ndarray:
        """Return the Hessian, (D, D)."""
        matrices = _dense_curvatures(statistics, self._sizes)
        if matrices is None:
            columns = np.eye(self._jacobian.shape[1])
            return np.stack([self.times(statistics, v) for v in columns])
        return np.asarray(-2.0 * (self._back @ (self._back @ block_diag(*matrices)).T))


def _quadratic(u: np.ndarray, statistics: np.ndarray, product: np.ndarray) -> tuple[float, float]:
    """Write the product of a packed matrix with u; return two terms, as `quadratic` does."""
    return quadratic_kernel(u, statistics, len(u) > LARGEST_DENSE, product)
