"""Taylor expansions with a radius for each part of a row: bounds for effects of groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import diags_array

from pymc_flymc.anchor.anchor import AnchorPart
from pymc_flymc.bounds.bound import ExpansionBound, Graph, Graphs, Preparation, Problem, finite
from pymc_flymc.bounds.taylor import (
    chi_moment,
    chi_quantile,
    keep_bright,
    limit_terms_anywhere,
    limit_terms_near,
    remainder,
)
from pymc_flymc.graphs.collapsed_ops import RadiusPowers
from pymc_flymc.kernels.collapsed import PackedEffects, PackedShift
from pymc_flymc.kernels.layout import HEADER, PARTS_ROW, PARTS_SHARED, place_of_weight
from pymc_flymc.kernels.native import NativeFunction
from pymc_flymc.kernels.rows import SUMS
from pymc_flymc.likelihoods.likelihood import (
    JointlySmoothLikelihood,
    Likelihood,
    SmoothLikelihood,
    outcome,
)
from pymc_flymc.regression.design import CommonShifts, within_factors
from pymc_flymc.regression.expansion import quadratic_size, quadratic_terms
from pymc_flymc.regression.matrices import RowMatrix, SymmetricMatrix
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

    The dense columns of a row, x, and its sparse ones, z, have in each predictor

    .. math:: x^\top u_1 + z^\top u_2 = (x - G^\top z)^\top u_1 + z^\top s, \quad s = u_2 + G u_1,

    with G from the information D of the effects and B between these and the dense columns,
    :math:`G \approx D^{-1} B`: a weighted mean within the group is taken off each dense column, so
    that intercepts and effects are not counted twice. Then common shifts are taken off s, see
    `CommonShifts`: the weighted mean of the sources moves to the targets. So no part grows when
    coefficients change and the predictors do not, which priors alone may hold.

    The coefficients of all K predictors are in the order of an arrow: M of dense columns, and then
    Q of sparse ones. One predictor's columns are zero in the others' places.

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
        """Return ``|inverse' (x - G'z)|``, shape (K, n): half-widths at a radius of one."""
        m, q = x.dense.shape[1], x.sparse.shape[1]
        found = []
        for k in range(len(self.within) // q):
            centred = -(x.sparse @ self.within[k * q : (k + 1) * q])
            centred[:, k * m : (k + 1) * m] += x.dense
            found.append(np.linalg.norm(centred @ self.inverse, axis=1))
        return np.stack(found)


def split_coefficients(
    anchor: AnchorPart, n_sparse: int, common: CommonShifts, n_predictors: int = 1
) -> CoefficientParts:
    """Split coefficients, of which each predictor's last `n_sparse` are those of sparse columns."""
    information = anchor.expansion.concave().arrow(n_sparse, n_predictors)
    dense, cross, effects = information.dense, information.cross, information.sparse
    m, factor, diagonal = len(dense), anchor.w_factor[information.order()], effects.diagonal()
    first = n_sparse * np.arange(n_predictors)
    sources, targets = (
        [each + at for at in first for each in of] for of in (common.sources, common.targets)
    )
    shifts = [_packed_shift(*each, diagonal) for each in zip(sources, targets, strict=True)]
    # Effects that nothing moves, such as those on another predictor alone, stand for no column.
    moved = factor[m:].any(axis=1)
    within, spanned = _within_predictors(information, common.factors, moved)
    variance = _variances(factor, within, shifts)
    of_predictors = [at + np.flatnonzero(moved[at : at + n_sparse]) for at in first]
    prior = np.zeros(len(moved))
    for places in of_predictors:
        prior[places] = _common_prior(variance[places], diagonal[places])
    matrix = effects[moved][:, moved] + diags_array(prior[moved])
    within[np.ix_(moved, ~spanned)] = _solve(matrix, cross[~spanned][:, moved].T)
    # The quadratic form of information and ridge at (u_1, -G u_1), for any G.
    between = cross @ within
    schur = dense - between - between.T + within.T @ (effects @ within)
    schur += (within * prior[:, None]).T @ within
    schur[spanned], schur[:, spanned] = 0.0, 0.0
    # Where rows are not log-concave, their sum may not be, either.
    ridge = _prior(np.sum(factor[:m] ** 2, axis=1), np.diag(schur))
    unit = 1.0 / np.sqrt(ridge)
    least = np.linalg.eigvalsh(schur * unit * unit[:, None]).min(initial=0.0)
    ridge *= 1.0 + max(0.0, -2.0 * least)
    schur += np.diag(np.where(spanned, SPANNED * ridge, ridge))
    precision = np.linalg.cholesky(0.5 * (schur + schur.T)).T
    # Slightly enlarged, so that rounding never violates the Cauchy-Schwarz inequality.
    inverse = solve_triangular(precision, np.eye(m)) * (1.0 + 1e-9)
    own = np.ones(len(moved))  # shares of their variances that effects keep without their mean
    for source, shift in zip(sources, shifts, strict=True):
        own[source] -= shift.weights
    variance = _variances(factor, within, shifts)
    sds = np.sqrt(_positive(variance))
    for places in of_predictors:
        sds[places] = _sds(variance[places], diagonal[places], own[places])
    free = int(np.count_nonzero(factor[:m].any(axis=1)))
    free = max(free - int(np.count_nonzero(spanned)), min(free, 1))
    limit, typical = 0.0, 0.0
    if free:
        limit = DENSE_WIDTH * chi_quantile(DENSE_QUANTILE, free)
        typical = chi_moment(3, free) ** (1.0 / 3.0)
    return CoefficientParts(
        precision, inverse, within, shifts, limit, typical, EFFECT_LIMIT * sds, CUBIC_MEAN * sds
    )


def _within_predictors(
    information: SymmetricMatrix, factors: Sequence[np.ndarray], moved: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return `within_factors`, in which moved effects stand for columns of their own predictor."""
    k, n_effects, m = information.n_predictors, information.n_sparse, len(information.dense)
    within, spanned = np.zeros((n_effects, m)), np.zeros(m, bool)
    of_dense, of_effects = (np.split(np.arange(each), k) for each in (m, n_effects))
    for rows, columns in zip(of_dense, of_effects, strict=True):
        one = SymmetricMatrix(
            information.dense[np.ix_(rows, rows)],
            information.cross[np.ix_(rows, columns)],
            information.sparse[columns][:, columns],
        )
        some = [each[moved[columns[each]]] for each in factors]
        within[np.ix_(columns, rows)], spanned[rows] = within_factors(one, some)
    return within, spanned


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
    widest = known.max(initial=0.0)
    least = np.maximum(own, 0.0) * np.minimum(1.0 / (information + prior), widest)
    return np.sqrt(np.maximum(known, least))


def _common_prior(variance: np.ndarray, information: np.ndarray) -> float:
    """Return a prior precision for all effects that fits them on average, and is positive.

    Separate precisions would be too large where an estimated variance happens to be small. Then the
    radius of the dense part would be too large, too: its information on intercepts depends on the
    effects' prior.
    """
    if not len(variance):
        return 0.0
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
#: Least spread of a predictor, relative to the row's others, and of all of them.
LEAST_SPREAD, TINY = 1e-9, 1e-100


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

    With several predictors each has its own :math:`u_k`, and :math:`T_k`, :math:`L_k`. If none is
    further than :math:`\rho\, T_k`, the remainder is at most :math:`\rho^3 / 6` times a limit M on
    third derivatives along directions of elements up to :math:`T_k`, and :math:`\rho^3` is at most
    the sum of the :math:`(|u_k| / T_k)^3`: so the first sum is one over all parts of all
    predictors, with :math:`\kappa_k = M / (6 T_k)`. The same holds beyond, where :math:`\rho`
    exceeds :math:`\ell`, the largest :math:`L_k / T_k`, with :math:`\kappa_k^\infty = K \ell^2 /
    (6 T_k)`. In a softmax :math:`\rho` is the range of all predictors and zero, which is at most
    the sum of the :math:`|u_k|`, over the sum of the :math:`T_k`.

    `n_sparse`: number of sparse columns, Q. `n_predictors`: K.
    """

    name = "Taylor"
    #: Number of shared numbers that a row's gap depends on directly: powers of the dense part.
    n_common = PARTS_SHARED.effects

    def __init__(self, n_sparse: int, n_predictors: int = 1) -> None:
        self.n_sparse, self.n_predictors = n_sparse, n_predictors
        #: Number of sums that a row makes of the other shared numbers, those of its effects.
        self.n_sums = SUMS * n_predictors
        self.n_shared = self.n_common + self.n_sums * n_sparse

    def supports(self, likelihood: Likelihood) -> bool:
        """Whether the likelihood is smooth, with bounded derivatives, of as many predictors."""
        smooth = isinstance(likelihood, SmoothLikelihood | JointlySmoothLikelihood)
        return smooth and likelihood.n_predictors == self.n_predictors

    def n_constants(self, likelihood: Likelihood) -> int:
        """Those of `PartsRow`, row data, and weights of all predictors but the first."""
        n_row_data, k = len(likelihood.row_data), self.n_predictors
        return PARTS_ROW.row_data(k) + n_row_data + k - 1

    def prepare(
        self, problem: Problem, log_factor: NativeFunction, keep: float = 1.0
    ) -> Preparation:
        """Bound the remainders of all rows, in one pass over the data; see `Taylor.prepare`."""
        design, own, k = problem.design, problem.own, self.n_predictors
        parts = self._split(problem)
        constants = np.empty((design.n_rows, self.n_constants(problem.likelihood)))
        bright = np.empty(design.n_rows, np.float32)

        def bound(rows: slice, x: RowMatrix, eta: np.ndarray, y: np.ndarray) -> Any:
            row = self.remainders(problem.likelihood, parts, x, eta, y)
            first, *row_data = y.reshape(len(x), -1).T
            columns = [row.near, row.beyond, row.half_width, first, *eta, *row_data]
            constants[rows] = np.column_stack([*columns, *row.weights[1:]])
            bright[rows] = -np.expm1(-row.gap)
            growth = np.where(bright[rows] > keep, 0.0, row.growth)
            return growth.max(initial=0.0), x.largest(growth)

        dense_growth, growths = 0.0, np.zeros(self.n_sparse)
        for largest, of_effects in map_rows(design, problem.y, own.w, bound):
            dense_growth, growths = max(dense_growth, largest), np.maximum(growths, of_effects)
        keep_bright(constants, bright, keep)
        header = np.zeros(len(HEADER))
        header[HEADER.n_effects], header[HEADER.n_predictors] = k * self.n_sparse, k
        header[HEADER.limit], header[HEADER.n_shifts] = 1.0, len(parts.shifts)
        if parts.limit > 0.0:
            header[HEADER.limit] = parts.limit
            header[HEADER.scale] = parts.typical**-2
            header[HEADER.growth] = dense_growth / parts.limit
        growths = np.tile(growths, k) / parts.limits
        effects = PackedEffects(parts.limits, parts.typicals**-2, growths)
        matrices = parts.precision.ravel(), parts.within.T.ravel()
        shifts = [np.concatenate(shift) for shift in parts.shifts]
        starts = np.cumsum([0.0, *map(len, shifts)])[: len(shifts)]
        statistics = [own.expansion.pack(), header, *matrices, *effects, starts, *shifts]
        return Preparation(np.concatenate(statistics), constants, bright)

    def _split(self, problem: Problem) -> CoefficientParts:
        common = problem.design.common_shifts
        return split_coefficients(problem.own, self.n_sparse, common, self.n_predictors)

    def expected_rows(self, problem: Problem, stride: int, above: float = 0.0) -> float:
        """Bright rows expected over the Laplace approximation, from every stride-th row."""
        parts, total = self._split(problem), 0.0
        for _, x, eta, y in iterate_rows(problem.design, problem.y, problem.own.w, stride):
            gap = self.remainders(problem.likelihood, parts, x, eta, y).gap
            bright = -np.expm1(-gap)
            total += float(bright[bright > above].sum())
        return total * stride

    def remainders(
        self,
        likelihood: Likelihood,
        parts: CoefficientParts,
        x: RowMatrix,
        eta: np.ndarray,
        y: np.ndarray,
    ) -> _Remainders:
        """Bound the remainders of rows with predictors (K, n) at the anchor."""
        half_width, sizes = parts.dense_half_width(x), x.sizes()
        k = self.n_predictors
        typical, limit = (
            half_width * of_dense + (sizes @ of_effects.reshape(k, -1).T).T
            for of_dense, of_effects in (
                (parts.typical, parts.typicals),
                (parts.limit, parts.limits),
            )
        )
        spread: Any = np.maximum(typical, np.maximum(LEAST_SPREAD * typical.max(axis=0), TINY))
        if isinstance(likelihood, SmoothLikelihood):  # the sum is one number for all predictors
            of_terms = spread = typical.sum(axis=0) + TINY
            furthest, weights = limit.sum(axis=0) / spread, np.ones_like(typical)
        else:
            of_terms, furthest = spread, (limit / spread).max(axis=0)
            weights = spread[0] / spread
        mean, enough, growth = _two_powers(cast(Any, likelihood), eta, of_terms, furthest, y)
        first = spread if spread.ndim == 1 else spread[0]
        near, beyond = mean / first, enough * furthest**2 / first
        return _Remainders(
            near,
            beyond,
            (weights * half_width).sum(axis=0),
            weights,
            near * (weights * typical).sum(axis=0),
            growth * furthest,
        )

    def collapsed(
        self, likelihood: Likelihood, w: Graph, statistics: Graph, n_coefficients: int
    ) -> tuple[Graph, Graph]:
        """Graph of the sum of expansions, and what rows share: powers of their parts."""
        u, expansion, _ = quadratic_terms(w, statistics, n_coefficients)
        behind = statistics[quadratic_size(statistics, n_coefficients) :]
        shared: Any = RadiusPowers(self.n_predictors * self.n_sparse)(u, behind)
        return expansion, shared

    def remainder(self, likelihood: Likelihood, arguments: Graphs, constants: Graph) -> Graph:
        """Graph of the remainder of the expansion."""
        k = self.n_predictors
        first = PARTS_ROW.row_data(k)
        row_data = range(first, first + len(likelihood.row_data))
        y = outcome(likelihood, [constants[:, i] for i in (PARTS_ROW.outcome, *row_data)])
        anchor: list[Any] = [constants[:, PARTS_ROW.anchor + i] for i in range(k)]
        return remainder(likelihood, arguments[:k], anchor, y, 2)

    def rate(self, constants: Graph, arguments: Graphs, shared: Graphs) -> Graph:
        """Graph of the bound on the remainder.

        The arguments after the predictors are the row's sums of the effects' powers.
        """
        k, dense = self.n_predictors, constants[:, PARTS_ROW.half_width]
        near, beyond = dense * shared[PARTS_SHARED.near], dense * shared[PARTS_SHARED.beyond]
        for i, (of_near, of_beyond) in enumerate(
            zip(arguments[k : 2 * k], arguments[2 * k : 3 * k], strict=True)
        ):
            place = place_of_weight(constants.shape[1], k, i)
            weight: Any = constants[:, place] if i else 1.0
            near, beyond = near + weight * of_near, beyond + weight * of_beyond
        rate = finite(constants[:, PARTS_ROW.near]) * near
        return cast(Graph, rate + constants[:, PARTS_ROW.beyond] * beyond)


class _Remainders(NamedTuple):
    """Contributions of rows to a bound in parts, each of shape (n,) but for the weights."""

    near: np.ndarray  #: Multiplier of the powers.
    beyond: np.ndarray  #: Multiplier of the powers beyond limits.
    half_width: np.ndarray  #: Of the dense part.
    weights: np.ndarray  #: Of the effects' powers on each predictor, (K, n).
    gap: np.ndarray  #: As expected.
    growth: np.ndarray  #: Of derivatives, by as much as a part is beyond its limit, over this.


def _two_powers(
    likelihood: SmoothLikelihood | JointlySmoothLikelihood,
    eta: np.ndarray,
    spread: np.ndarray,
    limit: np.ndarray,
    y: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Return M, K and g, with :math:`|R| \le M d^3 + K e^{g (d - L)_+} (d - L)_+^3`.

    The distance d is in spreads, see `limit_terms_near`, and M(s) is a limit on terms at distances
    up to s. By the integral form, see `remainder`, the left hand side is at most
    :math:`\int_0^d 3 (d - s)^2 M(s) ds`. Let M(s) have steps M_j up to :math:`W = \omega L`, which
    is further than L. In that integral near derivatives weigh more than far ones, and its mean over
    s,

    .. math:: M = \int_0^W \frac{3 (W - s)^2}{W^3} M(s) ds,

    serves for all :math:`d \le W`, as it increases with W. For :math:`d = W (1 + x)` and e_j
    the ends of the steps over W, the integral up to W is more than :math:`M d^3` by :math:`W^3
    (A x + B x^2 - M x^3)`, with :math:`A = 3 \sum_j M_j ((1 - e_{j-1})^2 - (1 - e_j)^2) - 3 M` and
    :math:`B = 3 \sum_j M_j (e_j - e_{j-1}) - 3 M`; and that beyond W is at most :math:`F e^{g W x}
    W^3 x^3` where terms are at most :math:`F e^{g W x}`. On the other hand :math:`(d - L)^3 = W^3
    (x + h)^3` with :math:`h = 1 - 1/\omega`, so that a K is enough that is above
    :math:`A / 3 h^2`, :math:`B / 3 h`, and F, or F - M where nothing grows. Where derivatives grow,
    :math:`e^{-g W h}` of it is.
    """
    span, terms = WIDER * limit, (likelihood, 3, eta, spread, y)
    steepest, mean, first, second = (np.zeros(len(limit)) for _ in range(4))
    for start, end in pairwise(np.arange(RANGES + 1) / RANGES):
        steepest = np.maximum(steepest, limit_terms_near(*terms, end * span))
        mean += ((1.0 - start) ** 3 - (1.0 - end) ** 3) * steepest
        first += 3.0 * ((1.0 - start) ** 2 - (1.0 - end) ** 2) * steepest
        second += 3.0 * (end - start) * steepest
    h = 1.0 - 1.0 / WIDER
    # Rows whose limits overflow are kept bright.
    with np.errstate(over="ignore", invalid="ignore"):
        furthest, growth = limit_terms_anywhere(*terms)
        furthest = furthest * np.exp(growth * span)
        enough = np.maximum((first - 3.0 * mean) / (3.0 * h**2), (second - 3.0 * mean) / (3.0 * h))
        enough = np.maximum(enough, np.where(growth > 0.0, furthest, furthest - mean))
        return mean, np.maximum(enough, 0.0) * np.exp(-growth * h * span), growth
