"""Taylor expansions with a radius for each part of a row: bounds for effects of groups."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import diags_array

from pymc_flymc.anchor.anchor import AnchorPart
from pymc_flymc.bounds.bound import ExpansionBound, Graph, Graphs, Preparation, Problem, finite
from pymc_flymc.bounds.taylor import chi_moment, chi_quantile, keep_bright, remainder
from pymc_flymc.graphs.collapsed_ops import RadiusPowers
from pymc_flymc.kernels.collapsed import PackedEffects, PackedShift
from pymc_flymc.kernels.layout import HEADER, PARTS_ROW, PARTS_SHARED
from pymc_flymc.kernels.native import NativeFunction
from pymc_flymc.kernels.rows import SUMS
from pymc_flymc.likelihoods.likelihood import Likelihood, SmoothLikelihood, outcome
from pymc_flymc.regression.design import CommonShifts, Design, within_factors
from pymc_flymc.regression.expansion import quadratic_size, quadratic_terms
from pymc_flymc.regression.matrices import RowMatrix
from pymc_flymc.regression.passes import iterate_rows, map_rows

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


#: Derivatives are limited up to this times the limits, over so many nested ranges.
WIDER, RANGES = 5.0 / 3.0, 4


class TaylorInParts(ExpansionBound):
    r"""The bound of `Taylor` with effects of groups, for conditional moves: each part has a radius.

    A row's distance from the anchor is a sum over its parts, the dense columns and each effect,
    :math:`u = \sum_i a_i`, see `CoefficientParts`. For positive weights with
    :math:`\sum_i p_i = 1`, convexity gives :math:`|u|^3 \le \sum_i |a_i|^3 / p_i^2`, a sum over
    parts that collapses. The weights are in proportion to cubic means :math:`t_i` of the parts over
    the posterior, with sum T.
    The other power is for derivatives that are larger far out. Each part has a limit :math:`l_i`,
    and :math:`|u|` is beyond :math:`L = \sum_i l_i` by at most the sum of what parts are beyond
    theirs. With weights in proportion to the limits,

    .. math:: |R| \le \kappa \sum_i \frac{|a_i|^3}{t_i^2}
                  + \kappa^\infty \sum_i \frac{(|a_i| - l_i)_+^3}{l_i^2},
              \qquad
              \kappa = \frac{M T^2}{6}, \quad \kappa^\infty = \frac{K L^2}{6},

    if :math:`|R| \le (M |u|^3 + K (|u| - L)_+^3) / 6`, see `_two_powers`. Where derivatives grow
    exponentially, K comes with :math:`e^{g(|u| - L)_+}`, and by the same convexity the terms of the
    second sum with :math:`e^{g (|a_i| - l_i)_+ L / l_i}`.

    Parameters
    ----------
    n_sparse : int
        Number of sparse columns, Q.
    """

    name = "Taylor"
    #: Number of shared numbers that a row's gap depends on directly: powers of the dense part.
    n_common = PARTS_SHARED.effects
    #: Number of sums that a row makes of the other shared numbers, those of its effects.
    n_sums = SUMS

    def __init__(self, n_sparse: int) -> None:
        self.n_sparse = n_sparse
        self.n_shared = self.n_common + SUMS * n_sparse

    @classmethod
    def fits(cls, likelihood: Likelihood, design: Design) -> bool:
        """Whether there are effects, and the bound supports the likelihood."""
        return design.n_sparse > 0 and cls(design.n_sparse).supports(likelihood)

    def supports(self, likelihood: Likelihood) -> bool:
        """Whether the likelihood is smooth, with bounded derivatives, of one predictor.

        It must be log-concave: sums over rows with many columns treat convex rows as flat.
        """
        smooth = isinstance(likelihood, SmoothLikelihood) and likelihood.log_concave
        return smooth and likelihood.n_predictors == 1

    def n_constants(self, likelihood: Likelihood) -> int:
        """Those of `PartsRow`, and row data."""
        return PARTS_ROW.row_data + len(likelihood.row_data)

    def prepare(
        self, problem: Problem, log_factor: NativeFunction, keep: float = 1.0
    ) -> Preparation:
        """Bound the remainders of all rows, in one pass over the data; see `Taylor.prepare`."""
        design, own, q = problem.design, problem.own, self.n_sparse
        parts = split_coefficients(own, q, design.common_shifts)
        constants = np.empty((design.n_rows, self.n_constants(problem.likelihood)))
        bright = np.empty(design.n_rows, np.float32)

        def bound(rows: slice, x: RowMatrix, eta: np.ndarray, y: np.ndarray) -> Any:
            near, beyond, half_width, gap, limit = self.remainders(problem, parts, x, eta[0], y)
            columns = y.reshape(len(x), -1)
            constants[rows] = np.column_stack(
                [near, beyond, half_width, columns[:, 0], eta[0], columns[:, 1:]]
            )
            bright[rows] = -np.expm1(-gap)
            limit[bright[rows] > keep] = 0.0
            return limit.max(initial=0.0), x.largest(limit)

        dense_limit, limits = 0.0, np.zeros(q)
        for widest_row, widest in map_rows(design, problem.y, own.w, bound):
            dense_limit, limits = max(dense_limit, widest_row), np.maximum(limits, widest)
        keep_bright(constants, bright, keep)
        growth = cast(SmoothLikelihood, problem.likelihood).growth
        header = np.zeros(len(HEADER))
        header[HEADER.n_sparse], header[HEADER.limit] = q, 1.0
        header[HEADER.n_shifts] = len(parts.shifts)
        if parts.limit > 0.0:
            header[HEADER.limit] = parts.limit
            header[HEADER.scale] = parts.typical**-2
            header[HEADER.growth] = growth * dense_limit / parts.limit
        growths = growth * limits / parts.limits
        effects = PackedEffects(parts.limits, parts.typicals**-2, growths)
        matrices = parts.precision.ravel(), parts.within.T.ravel()
        shifts = [np.concatenate(shift) for shift in parts.shifts]
        starts = np.cumsum([0.0, *map(len, shifts)])[: len(shifts)]
        statistics = [own.expansion.pack(), header, *matrices, *effects, starts, *shifts]
        return Preparation(np.concatenate(statistics), constants, bright)

    def expected_rows(self, problem: Problem, stride: int, above: float = 0.0) -> float:
        """Bright rows expected over the Laplace approximation, from every stride-th row."""
        common, total = problem.design.common_shifts, 0.0
        parts = split_coefficients(problem.own, self.n_sparse, common)
        for _, x, eta, y in iterate_rows(problem.design, problem.y, problem.own.w, stride):
            bright = -np.expm1(-self.remainders(problem, parts, x, eta[0], y)[3])
            total += float(bright[bright > above].sum())
        return total * stride

    def remainders(
        self,
        problem: Problem,
        parts: CoefficientParts,
        x: RowMatrix,
        eta: np.ndarray,
        y: np.ndarray,
    ) -> tuple[np.ndarray, ...]:
        """Return the contributions of rows to the bound, each of shape (n,).

        They are the multipliers of powers, and of those beyond limits; the half-width of the dense
        part; the expected gap; and the sum of the limits of the row's parts.
        """
        likelihood = cast(SmoothLikelihood, problem.likelihood)
        half_width, sizes = parts.dense_half_width(x), x.sizes()
        typical = half_width * parts.typical + sizes @ parts.typicals
        limit = half_width * parts.limit + sizes @ parts.limits
        steepest, beyond = _two_powers(likelihood, eta, limit, y)
        near = steepest * typical**2 / 6.0
        return near, beyond * limit**2 / 6.0, half_width, near * typical, limit

    def collapsed(
        self, likelihood: Likelihood, w: Graph, statistics: Graph, n_coefficients: int
    ) -> tuple[Graph, Graph]:
        """Graph of the sum of expansions, and what rows share: powers of their parts."""
        u, expansion, _ = quadratic_terms(w, statistics, n_coefficients)
        behind = statistics[quadratic_size(statistics, n_coefficients) :]
        shared: Any = RadiusPowers(self.n_sparse)(u, behind)
        return expansion, shared

    def remainder(self, likelihood: Likelihood, arguments: Graphs, constants: Graph) -> Graph:
        """Graph of the remainder of the expansion."""
        row_data = range(PARTS_ROW.row_data, self.n_constants(likelihood))
        y = outcome(likelihood, [constants[:, i] for i in (PARTS_ROW.outcome, *row_data)])
        return remainder(likelihood, arguments[:1], [constants[:, PARTS_ROW.anchor]], y, 2)

    def rate(self, constants: Graph, arguments: Graphs, shared: Graphs) -> Graph:
        """Graph of the bound on the remainder.

        The arguments after the predictor are the row's sums of the effects' powers.
        """
        _, near, beyond = arguments
        dense = constants[:, PARTS_ROW.half_width]
        rate = finite(constants[:, PARTS_ROW.near]) * (dense * shared[PARTS_SHARED.near] + near)
        rate += constants[:, PARTS_ROW.beyond] * (dense * shared[PARTS_SHARED.beyond] + beyond)
        return cast(Graph, rate)


def _two_powers(
    likelihood: SmoothLikelihood, eta: np.ndarray, limit: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    r"""Return M and K with :math:`6 |R| \le M |u|^3 + K e^{g (|u| - L)_+} (|u| - L)_+^3`.

    By the integral form, see `remainder`, the left hand side is at most
    :math:`\int_0^{|u|} 3 (|u| - s)^2 M(s) ds`, with :math:`M(s)` a limit on third derivatives at
    distances up to s. Let it have steps M_j up to :math:`W = \omega L`, which is further than L.
    In that integral near derivatives weigh more than far ones, and its mean over s,

    .. math:: M = \int_0^W \frac{3 (W - s)^2}{W^3} M(s) ds,

    serves for all :math:`|u| \le W`, as it increases with W. For :math:`|u| = W (1 + x)` and e_j
    the ends of the steps over W, the integral up to W is more than :math:`M |u|^3` by :math:`W^3
    (A x + B x^2 - M x^3)`, with :math:`A = 3 \sum_j M_j ((1 - e_{j-1})^2 - (1 - e_j)^2) - 3 M` and
    :math:`B = 3 \sum_j M_j (e_j - e_{j-1}) - 3 M`; and that beyond W is at most :math:`F e^{g W x}
    W^3 x^3` where derivatives are at most :math:`F e^{g W x}`. On the other hand :math:`(|u| -
    L)^3 = W^3 (x + h)^3` with :math:`h = 1 - 1/\omega`, so that a K is enough that is above
    :math:`A / 3 h^2`, :math:`B / 3 h`, and F, or F - M where nothing grows. Where derivatives grow,
    :math:`e^{-g W h}` of it is.
    """
    growth, span = likelihood.growth, WIDER * limit
    mean, first, second = (np.zeros(len(eta)) for _ in range(3))
    steepest = np.zeros(len(eta))
    for start, end in pairwise(np.arange(RANGES + 1) / RANGES):
        each = likelihood.derivative_bound(3, eta - end * span, eta + end * span, y)
        steepest = np.maximum(steepest, each)
        mean += ((1.0 - start) ** 3 - (1.0 - end) ** 3) * steepest
        first += 3.0 * ((1.0 - start) ** 2 - (1.0 - end) ** 2) * steepest
        second += 3.0 * (end - start) * steepest
    low, high = (eta, eta) if growth else (-np.inf, np.inf)
    h = 1.0 - 1.0 / WIDER
    # Rows whose limits overflow are kept bright.
    with np.errstate(over="ignore", invalid="ignore"):
        furthest = likelihood.derivative_bound(3, low, high, y) * np.exp(growth * span)
        enough = np.maximum((first - 3.0 * mean) / (3.0 * h**2), (second - 3.0 * mean) / (3.0 * h))
        enough = np.maximum(enough, furthest if growth else furthest - mean)
        return mean, np.maximum(enough, 0.0) * np.exp(-growth * h * span)
