"""The parts of a row, dense columns and effects of groups, and how far each is from the anchor."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import diags_array

from pymc_flymc.anchor.anchor import AnchorPart
from pymc_flymc.bounds.chi import chi_moment, chi_quantile
from pymc_flymc.kernels.radius_powers import PackedShift
from pymc_flymc.regression.common_shifts import CommonShifts, within_factors
from pymc_flymc.regression.matrices import RowMatrix

#: Limits beyond which remainders have a second power. That of an effect is so many posterior sds.
#: That of the dense part's radius is this quantile times this width.
EFFECT_LIMIT, DENSE_QUANTILE, DENSE_WIDTH = 3.0, 0.999, 1.5
#: Largest number of iterations that separate effects of several factors. Any result is valid.
ITERATIONS = 30
#: Share of a coefficient's precision that counts for the radius if effects stand for its column.
SPANNED = 1e-4
#: E(|N|^3)^(1/3) of a standard normal number.
CUBIC_MEAN = float((2.0 * np.sqrt(2.0 / np.pi)) ** (1.0 / 3.0))


@dataclass(frozen=True)
class CoefficientParts:
    r"""Coefficients u, measured from the anchor, in parts that are nearly independent.

    The dense columns of a row, x, and its sparse ones, z, have

    .. math:: x^\top u_1 + z^\top u_2 = (x - G^\top z)^\top u_1 + z^\top s, \quad s = u_2 + G u_1,

    with G from the information D of the effects and B between these and the dense columns,
    :math:`G \approx D^{-1} B`: a weighted mean within the group is taken off each dense column, so
    that intercepts and effects are not counted twice. Then common shifts are taken off s, see
    `CommonShifts`: the weighted mean of the sources moves to the targets. So no part grows when
    coefficients change and the predictors do not, which priors alone may hold.

    Attributes
    ----------
    precision : ndarray, shape (M, M)
        F: the radius of the dense part is ``|F u_1|``.
    inverse : ndarray, shape (M, M)
        The inverse of F: ``|(x - G'z)' u_1| <= |inverse' (x - G'z)| |F u_1|``.
    within : ndarray, shape (Q, M)
        G.
    shifts : list of PackedShift
    limit, typical : float
        Radius at which the second power begins, and the radius' cubic mean.
    limits, typicals : ndarray, shape (Q,)
        The same for the effects' sizes ``|s|``.
    """

    precision: np.ndarray
    inverse: np.ndarray
    within: np.ndarray
    shifts: list[PackedShift]
    limit: float
    typical: float
    limits: np.ndarray
    typicals: np.ndarray

    def dense_half_width(self, x: RowMatrix) -> np.ndarray:
        """Return ``|inverse' (x - G'z)|``, shape (n,): half-widths at a radius of one."""
        centred = (x.dense - x.sparse @ self.within) @ self.inverse
        return np.sqrt(np.einsum("ij,ij->i", centred, centred))


def split_coefficients(anchor: AnchorPart, n_sparse: int, common: CommonShifts) -> CoefficientParts:
    """Split coefficients, the last of which are those of sparse columns."""
    information = anchor.expansion.information.arrow(n_sparse)
    dense, cross, effects = information.dense, information.cross, information.sparse
    m, factor, diagonal = len(dense), anchor.w_factor, effects.diagonal()
    shifts = [
        _packed_shift(source, target, diagonal)
        for source, target in zip(common.sources, common.targets, strict=True)
    ]
    within, spanned = within_factors(information, common.factors)
    variance = _variances(factor, within, shifts)
    prior = np.full(n_sparse, _common_prior(variance, diagonal))
    within[:, ~spanned] = _solve(effects + diags_array(prior), cross[~spanned].T)
    # The quadratic form of information and ridge at (u_1, -G u_1): never indefinite, for any G.
    between = cross @ within
    schur = dense - between - between.T + within.T @ (effects @ within)
    schur += (within * prior[:, None]).T @ within
    schur[spanned], schur[:, spanned] = 0.0, 0.0
    ridge = _prior(np.sum(factor[:m] ** 2, axis=1), np.diag(schur))
    schur += np.diag(np.where(spanned, SPANNED * ridge, ridge))
    precision = np.linalg.cholesky(0.5 * (schur + schur.T)).T
    # Slightly enlarged, so that rounding never violates the Cauchy-Schwarz inequality.
    inverse = solve_triangular(precision, np.eye(m)) * (1.0 + 1e-9)
    own = np.ones(n_sparse)  # shares of their variances that effects keep without their mean
    for source, shift in zip(common.sources, shifts, strict=True):
        own[source] -= shift.weights
    sds = _sds(_variances(factor, within, shifts), diagonal, own)
    free = int(np.count_nonzero(factor[:m].any(axis=1)))
    free = max(free - int(np.count_nonzero(spanned)), min(free, 1))
    limit, typical = 0.0, 0.0
    if free:
        limit = DENSE_WIDTH * chi_quantile(DENSE_QUANTILE, free)
        typical = chi_moment(3, free) ** (1.0 / 3.0)
    return CoefficientParts(
        precision, inverse, within, shifts, limit, typical, EFFECT_LIMIT * sds, CUBIC_MEAN * sds
    )


def _packed_shift(source: np.ndarray, target: np.ndarray, information: np.ndarray) -> PackedShift:
    """Return a shift that moves the mean of the sources, with information as weights."""
    weights = np.maximum(information[source], np.finfo(float).tiny)
    lengths = np.array([len(source), len(target)], float)
    return PackedShift(lengths, source.astype(float), weights / weights.sum(), target.astype(float))


def _variances(factor: np.ndarray, within: np.ndarray, shifts: Sequence[PackedShift]) -> np.ndarray:
    """Return the variances of the effects' numbers s, shape (Q,), for coefficients' factor."""
    m = within.shape[1]
    numbers = factor[m:] + within @ factor[:m]
    for shift in shifts:
        source, target = shift.sources.astype(np.int64), shift.targets.astype(np.int64)
        mean = shift.weights @ numbers[source]
        numbers[source] -= mean
        numbers[target] += mean
    return np.asarray(np.sum(numbers**2, axis=1))


def _sds(variance: np.ndarray, information: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return posterior sds of effects, whose variances may be estimates from a few draws.

    They are at least the sds given the data and one prior precision for all effects, which fits the
    variances on average. A limit that is too near is worse than one that is too far. Of a variance
    given the data effects that are measured from their mean have a share.
    """
    known = _positive(variance)
    prior = _common_prior(variance, information)
    least = np.maximum(own, 0.0) / np.maximum(information + prior, 1.0 / known.max())
    return np.sqrt(np.maximum(known, least))


def _common_prior(variance: np.ndarray, information: np.ndarray) -> float:
    """Return a prior precision for all effects that fits them on average, and is positive.

    Separate precisions would be too large where an estimated variance happens to be small. Then the
    radius of the dense part would be too large, too: its information on intercepts depends on the
    effects' prior.
    """
    known = _positive(variance)
    return float(max(1.0 - np.mean(known * information), 1e-3) / np.mean(known))


def _positive(variance: np.ndarray) -> np.ndarray:
    return np.maximum(variance, 1e-12 * np.max(variance, initial=1e-100))  # some may be fixed


def _prior(variance: np.ndarray, information: np.ndarray) -> np.ndarray:
    """Return a diagonal ridge for the prior: the precision beyond the data's, at least a little."""
    precision = 1.0 / np.maximum(variance, 1e-300)
    return np.maximum(precision - information, 0.01 * precision)


def _solve(matrix: Any, right: np.ndarray) -> np.ndarray:
    """Return an approximation of a positive matrix' inverse times columns, shape (Q, M)."""
    scale = 1.0 / matrix.diagonal()
    start = right * scale[:, None]
    if matrix.nnz <= len(scale):
        return start
    from scipy.sparse.linalg import cg  # slow to import, and needed for many groups only

    step, columns = diags_array(scale), []
    for b, x in zip(right.T, start.T, strict=True):
        columns.append(cg(matrix, b, x0=x, M=step, rtol=1e-6, maxiter=ITERATIONS)[0])
    return np.stack(columns, axis=1) if columns else start
