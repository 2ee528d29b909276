"""Expansion points, at which bounds are tuned, with the Laplace approximation there."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.regression.expansion import JointExpansion, LikelihoodExpansion

#: Least curvatures: at a mode, so that products of scales do not overflow; and elsewhere, where a
#: parameter without curvature would have an arbitrary scale.
LEAST_CURVATURES = 1e-200, 1e-8
#: Eigenvalues of a matrix of parameters in units of their conditional sds are known up to this
#: share of the largest. Smaller ones count as zero. All others count, however wide the posterior is
#: along a line: chains whose proposals ignored it would stay where they begin.
EIGENVALUE_ROUNDING = 64.0 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class AnchorPart:
    """Coefficients of one likelihood at an anchor: their covariance, and the rows around them.

    Attributes
    ----------
    w_factor : ndarray, shape (P, S)
        w_factor w_factor' is the Laplace covariance of the coefficients, to first order. With
        diagonal elements in the anchor's geometry it is so on average only, over random columns.
        Coefficients that rest at the mode have columns of their own, see `coefficient_factor`.
    expansion : LikelihoodExpansion
        Log-likelihood of all rows around the coefficients at which bounds touch.
    """

    w_factor: np.ndarray
    expansion: LikelihoodExpansion

    @property
    def w(self) -> np.ndarray:
        """Return the coefficients at which bounds touch, shape (P,).

        They are about those at the anchor's theta, unless the user gave the anchor or it has moved.
        """
        return self.expansion.w


@dataclass(frozen=True)
class Anchor:
    """A point near the mode, and the posterior's Laplace approximation there."""

    geometry: Geometry  #: Coordinates in which the Laplace approximation is standard normal.
    parts: tuple[AnchorPart, ...]  #: One for each likelihood.
    passes: float  #: Number of passes over the data that the search took.

    @property
    def theta(self) -> np.ndarray:
        """Return the centre of the Laplace approximation, (D,)."""
        return self.geometry.centre

    @property
    def w(self) -> np.ndarray:
        """Return the coefficients of all likelihoods at which bounds touch, (P,)."""
        return np.concatenate([part.w for part in self.parts])

    @property
    def expansion(self) -> JointExpansion:
        """Return the log-likelihoods of all rows around these coefficients."""
        return JointExpansion(tuple(part.expansion for part in self.parts))


def laplace_geometry(
    centre: np.ndarray,
    dense: np.ndarray,
    diagonal: np.ndarray,
    block: np.ndarray,
    precisions: np.ndarray,
    cross: np.ndarray,
    blocks: Sequence[tuple[int, np.ndarray]] = (),
) -> Geometry:
    """Return coordinates around a point (D,), for a precision matrix in blocks.

    In the notation of `Geometry`, `block` is C, (M, M), `precisions` are d, (D - M,), and `cross`
    is B', (D - M, M). `blocks` replace d for several effects of each group: where the effects begin
    among the diagonal elements, and their precisions (J, K, K) in J groups.
    """
    scale, coupling = 1.0 / np.sqrt(precisions), np.ascontiguousarray(cross.T / precisions)
    pairs, mixing = [], []
    for start, precision in blocks:
        j, k, _ = precision.shape
        span, inverse = slice(start, start + j * k), np.linalg.inv(precision)
        each = cross[span].reshape(k, j, -1)
        coupling[:, span] = np.einsum("jst,tjm->msj", inverse, each).reshape(-1, j * k)
        root = np.linalg.cholesky(inverse)
        scale[span] = np.diagonal(root, axis1=1, axis2=2).T.ravel()
        for s, t in zip(*np.tril_indices(k, -1), strict=True):
            pairs.append((start + s * j, start + t * j, j))
            mixing.append(root[:, s, t])
    factor, proper = _covariance_factor(block - coupling @ cross)
    if not proper:
        # Away from a mode, or with coupled diagonal elements: no covariance has these blocks.
        coupling = np.zeros_like(coupling)
        factor, _ = _covariance_factor(block)
    runs = np.array(pairs, np.int64).reshape(-1, 3), np.concatenate([np.empty(0), *mixing])
    return Geometry(centre, dense, diagonal, factor, scale, coupling, *runs)


def _covariance_factor(precision: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return the Cholesky factor of a matrix's inverse, and whether it is positive definite."""
    # Away from a mode (a funnel, a given anchor) the curvature can vanish or be negative somewhere.
    # There any moderate scale will do, because the Laplace covariance only guides proposals. At a
    # mode, parameters may have any units.
    curvature = np.abs(np.diag(precision))
    for least in LEAST_CURVATURES:
        scale = 1.0 / np.sqrt(np.maximum(curvature, least))
        values, vectors = np.linalg.eigh(scale[:, None] * precision * scale)
        known = EIGENVALUE_ROUNDING * np.max(np.abs(values), initial=0.0)
        if proper := bool(np.all(values > known)):
            break
    values = np.where(values > known, values, 0.1)
    return scale[:, None] * np.linalg.cholesky((vectors / values) @ vectors.T), proper
