"""Taylor expansions whose remainder collapses: bounds for any smooth likelihood."""

from __future__ import annotations

import math
from dataclasses import dataclass
from math import factorial
from typing import Any, NamedTuple, cast

import numpy as np
import pytensor
import pytensor.tensor as pt
from scipy.special import gammaincinv, gammaln

from pymc_flymc.anchor.anchor import AnchorPart
from pymc_flymc.bounds.bound import ExpansionBound, Graph, Graphs, Preparation, Problem
from pymc_flymc.errors import check, is_number
from pymc_flymc.kernels.dark_rates import FLOOR
from pymc_flymc.kernels.layout import POWERS, ROW, Powers
from pymc_flymc.kernels.native import NativeFunction
from pymc_flymc.likelihoods.likelihood import (
    ExplicitLikelihood,
    JointlySmoothLikelihood,
    Likelihood,
    SmoothLikelihood,
    outcome,
)
from pymc_flymc.regression.expansion import quadratic_size, quadratic_terms
from pymc_flymc.regression.matrices import RowMatrix
from pymc_flymc.regression.passes import iterate_rows, map_rows


def chi_quantile(probability: float, degrees: float) -> float:
    """Return a quantile of the norm of a standard normal vector with so many elements."""
    return math.sqrt(2.0 * float(gammaincinv(degrees / 2.0, probability)))


def chi_moment(order: float, degrees: float) -> float:
    """Return the mean of the norm to a power."""
    ratio = gammaln((degrees + order) / 2.0) - gammaln(degrees / 2.0)
    return math.exp(0.5 * order * math.log(2.0) + float(ratio))


#: Up to this quantile of the Laplace approximation's radius, remainders have only local constants.
LOCAL_QUANTILE = 0.999

#: Smallest variance of a coefficient, relative to its variance given the data alone.
LEAST_COEFFICIENT_VARIANCE = 1e-16


@dataclass(frozen=True)
class Radius:
    """The radius that all rows share, how far they move with it, and how large it is.

    `spans`: as of `spans_of`. `ridge` (P,): of the metric. `limit`: up to which remainders have one
    power, of local constants. `moment`: mean of a power of the radius over the Laplace
    approximation.
    """

    spans: list[np.ndarray]
    ridge: np.ndarray
    limit: float
    moment: float

    @classmethod
    def of(cls, anchor: AnchorPart, n_predictors: int, power: int) -> Radius:
        """Return the radius at an anchor, with the mean of one of its powers."""
        (metric, ridge), dimension = metric_of(anchor), dimension_of(anchor)
        limit = chi_quantile(LOCAL_QUANTILE, dimension)
        return cls(spans_of(metric, n_predictors), ridge, limit, chi_moment(power, dimension))


def dimension_of(anchor: AnchorPart) -> int:
    """Dimension of the space in which coefficients vary that the model does not fix."""
    free = int(np.count_nonzero(anchor.w_factor.any(axis=1)))
    # A coefficient that does not move with the parameters at the anchor, such as a product of two
    # zeros, moves further out: the dimension is one at least.
    return max(1, min(free, anchor.w_factor.shape[1]))


def spans_of(metric: np.ndarray, n_predictors: int) -> list[np.ndarray]:
    """Return matrices, the largest ``|x' span| r`` of which limits how far a row's predictors move.

    For one predictor this is the metric itself. For several there is a matrix for each pair of
    classes, because only differences of predictors matter. The first ones are those of the
    predictors themselves, which are differences from the reference class.
    """
    if n_predictors == 1:
        return [metric]
    blocks = metric.reshape(n_predictors, -1, len(metric))
    blocks = np.concatenate([np.zeros_like(blocks[:1]), blocks])  # the reference class
    pairs = zip(*np.triu_indices(len(blocks), 1), strict=True)
    return [np.linalg.qr((blocks[i] - blocks[j]).T, mode="r").T for i, j in pairs]


def metric_of(anchor: AnchorPart) -> tuple[np.ndarray, np.ndarray]:
    """Return C, shape (P, P), and a ridge, shape (P,).

    C C' is the inverse of the data's information plus the diagonal ridge, which stands for the
    prior. It approximates the posterior covariance of the coefficients, and is equal to it for
    independent normal priors.
    """
    d, information = anchor.w_factor.shape[1], anchor.expansion.information.array
    # Coefficients that are fixed, or do not move at the anchor, have almost no variance. Powers of
    # distances over it must still be finite.
    curvature = np.diag(information)
    smallest = LEAST_COEFFICIENT_VARIANCE / np.where(curvature > 0.0, curvature, 1.0)
    variance = np.maximum(np.sum(anchor.w_factor**2, axis=1), smallest)
    # In directions without information the metric is well wider than the Laplace approximation.
    ridge = 0.01 / variance
    free = anchor.w_factor.any(axis=1)  # the others are fixed, such as zeros for some class
    factor = anchor.w_factor[free]
    if 0 < len(factor) <= d and np.linalg.cond(factor) < 1e8:
        inverse, places = np.linalg.pinv(factor), np.flatnonzero(free)
        data = information[np.ix_(places, places)]
        prior = inverse.T @ inverse - data
        # Where the prior has almost no information beside the data, the difference is rounding.
        informed = np.diag(prior) > 1e-6 * np.diag(data)
        prior, places = prior[np.ix_(informed, informed)], places[informed]
        scale = np.sqrt(np.diag(prior))
        # The largest multiple of the diagonal that is nowhere above the prior's precision: a radius
        # that is too large would be beyond the limit too often.
        share = np.linalg.eigvalsh(prior / np.outer(scale, scale)).min(initial=1.0)
        ridge[places] = np.maximum(ridge[places], share * scale**2)
    # If a likelihood is not log-concave, the information of its rows may be indefinite.
    sd = np.sqrt(variance)
    least = np.linalg.eigvalsh(information * np.outer(sd, sd))[0]
    if least < -1e-6:
        ridge += -2.0 * least / variance
    factor = np.linalg.cholesky(information + np.diag(ridge))
    # Slightly enlarged, so that rounding never violates the Cauchy-Schwarz inequality.
    return np.linalg.inv(factor).T * (1.0 + 1e-9), ridge


def remainder(
    likelihood: Likelihood, arguments: Graphs, anchor: Graphs, y: Any, order: int
) -> Graph:
    """Graph of log L less its expansion at the anchor, element by element."""
    u = [eta - at for eta, at in zip(arguments, anchor, strict=True)]
    # Derivatives in t, at t = 0, of the log-likelihood at anchor + t u.
    t = pt.zeros_like(u[0])
    ray = [at + t * each for at, each in zip(anchor, u, strict=True)]
    derivative: Any = likelihood.log_likelihood(ray, y)
    difference = likelihood.log_likelihood(arguments, y) - derivative
    for i in range(1, order + 1):
        derivative = pytensor.grad(derivative.sum(), t)
        difference = difference - derivative / factorial(i)
    return difference


def limit_terms_near(
    likelihood: SmoothLikelihood | JointlySmoothLikelihood,
    power: int,
    eta: np.ndarray,
    spread: np.ndarray,
    y: np.ndarray,
    distance: np.ndarray | float,
) -> np.ndarray:
    """Return limits on terms of order `power` for rows that move up to so many spreads, (n,).

    `spread` (n,), or (K, n) for predictors of different kinds: half-widths at a distance of one: no
    difference of two predictors is wider, or no predictor of another kind.
    """
    half_width = distance * spread
    if isinstance(likelihood, JointlySmoothLikelihood):
        return likelihood.third_bound(eta, half_width, spread, y) / factorial(3)
    if len(eta) == 1:
        (eta,) = eta
    else:  # differences of predictors are as wide: half of it up, and half of it down
        eta, half_width = np.concatenate([np.zeros_like(eta[:1]), eta]), 0.5 * half_width
    limit = likelihood.derivative_bound(power, eta - half_width, eta + half_width, y)
    return np.asarray(limit * spread**power / factorial(power))


def limit_terms_anywhere(
    likelihood: SmoothLikelihood | JointlySmoothLikelihood,
    power: int,
    eta: np.ndarray,
    spread: np.ndarray,
    y: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return limits as `limit_terms_near` does, at any distance, and the rates of their growth."""
    if isinstance(likelihood, JointlySmoothLikelihood):
        limit, growth = likelihood.third_beyond(eta, spread, y)
        return limit / factorial(3), growth
    at: Any = eta[0] if len(eta) == 1 else np.concatenate([np.zeros_like(eta[:1]), eta])
    low, high = (at, at) if likelihood.growth else (-np.inf, np.inf)
    limit = likelihood.derivative_bound(power, low, high, y) * spread**power / factorial(power)
    return limit, likelihood.growth * spread


def near_and_beyond(
    near: np.ndarray, anywhere: np.ndarray, growth: np.ndarray, limit: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the multipliers of the two powers, the second of which grows at least as `growth`.

    `near`, `anywhere` (n,): where the radius is s, derivatives are at most `near` up to the limit,
    and ``anywhere * exp(growth * s)`` everywhere.
    """
    # Rows whose multipliers overflow are kept bright.
    with np.errstate(over="ignore", invalid="ignore"):
        at_limit = anywhere * np.exp(growth * limit)
        near = np.fmin(near, at_limit)
        return near, np.where(growth > 0.0, at_limit, at_limit - near)


def keep_bright(constants: np.ndarray, bright: np.ndarray, keep: float) -> None:
    """Keep rows bright, in place, and raise small multipliers in the rates of others to `FLOOR`.

    `constants` (N, R): in the places of `ROW` or `PARTS_ROW`. `bright` (N,): expected probabilities
    of being bright. `keep`: rows with a larger probability are kept bright.
    """
    rows = bright > keep
    for column in (ROW.near, ROW.beyond):
        constants[rows, column] = 0.0
        multipliers = constants[:, column]
        # A larger rate gives a valid bound, too.
        floor = FLOOR * multipliers.sum()
        multipliers[(multipliers > 0.0) & (multipliers < floor)] = floor
    constants[rows, ROW.near] = np.inf
    bright[rows] = 1.0


def treat_exactly(constants: np.ndarray, bright: np.ndarray, rows: np.ndarray) -> None:
    """Set rates of rows to zero, in place, for kernels that read these rows at each step.

    A bound's `gap` is then the remainder of their expansion, of either sign. Arguments are those of
    `keep_bright`, and the numbers of the rows.
    """
    constants[np.ix_(rows, [ROW.near, ROW.beyond])] = 0.0
    bright[rows] = 0.0


class Packed(NamedTuple):
    """Numbers behind the packed statistics of the expansion, or graphs of them, or their places.

    `ridge` (P,): of the metric. `limit`, `growth`: where the second power begins, and the rate at
    which it grows exponentially. `cubic` (P, P (P + 1) / 2): of the third order: a sixth of the sum
    of third derivatives. Empty for the second.
    """

    ridge: Any
    limit: Any
    growth: Any
    cubic: Any

    def ravelled(self) -> list[np.ndarray]:
        """Return the vectors that are packed one after the other."""
        return [np.ravel(each) for each in self]

    @classmethod
    def places(cls, statistics: Any, n_coefficients: int, order: int) -> Packed:
        """Return their places in packed statistics, an array or a graph; others may follow."""
        p, pairs = n_coefficients, n_coefficients * (n_coefficients + 1) // 2
        start = quadratic_size(statistics, p)
        limit, growth, cubic = (start + p + i for i in range(3))
        end = cubic + (p * pairs if order == 3 else 0)
        return cls(slice(start, start + p), limit, growth, slice(cubic, end))

    @classmethod
    def of(cls, statistics: Any, n_coefficients: int, order: int) -> Packed:
        """Return what is at these places."""
        return cls(*(statistics[at] for at in cls.places(statistics, n_coefficients, order)))


class Taylor(ExpansionBound):
    r"""Taylor expansion at the anchor, less a remainder that is one function of a radius.

    Let :math:`C C^\top` be about the posterior covariance of the coefficients w, and

    .. math:: u_n = x_n^\top (w - \hat w), \quad r(w) = \|C^{-1}(w - \hat w)\|, \quad
              c_n = \|C^\top x_n\|.

    By Cauchy-Schwarz :math:`|u_n| \le c_n r`, for all rows at once. With
    :math:`M_n \ge \sup |\varphi_n^{(k+1)}|` and :math:`\kappa_n = M_n c_n^{k+1} / (k+1)!`, the
    expansion of order k less :math:`\kappa_n r^{k+1}` is a lower bound, and the sum of the
    remainders is :math:`r^{k+1} \sum_n \kappa_n`. The M_n are local suprema, for r up to a limit L
    that posterior draws hardly ever exceed. Beyond it comes :math:`\kappa_n^\infty
    (r - L)^{k+1}`, from the suprema M_n' over all distances, with :math:`\kappa_n^\infty =
    (M_n' - M_n) c_n^{k+1} / (k+1)!`. Where there are none, as for counts, it is from
    :math:`M_n e^{g c_n L}` and grows exponentially with r - L. See `remainder` for both.

    A row of a softmax regression has several predictors. Then :math:`u_n` is the largest difference
    of two elements of the distance from the anchor, that of the reference class, zero, among them,
    :math:`c_n` the largest standard deviation of such a difference, and the derivatives are those
    along directions of range one. Of predictors of different kinds, such as those of counts and of
    their zeros, each has a :math:`c_n` of its own, and :math:`\kappa_n` is the largest third
    derivative along directions within these, over six.

    Where there are effects of groups, conditional moves take the form `TaylorInParts` of the second
    order if it leaves fewer rows bright, and beyond 300 coefficients of a predictor it is the only
    one.

    Parameters
    ----------
    order : {2, 3}, default 2
        Order of the expansion. The third order leaves fewer bright rows, at the price of a cubic
        form of P^3/2 terms in each evaluation and in the set-up. It is for one predictor.

    Raises
    ------
    ValueError
        If `order` is neither 2 nor 3.

    See Also
    --------
    ScaledTaylor : of likelihoods with a free shape.
    JaakkolaJordan : for logistic regression with few rows for each coefficient.

    Examples
    --------
    >>> with model:
    ...     idata = pm.sample(step=FireflyMH(bound=Taylor(order=3)))
    """

    n_shared = len(POWERS)

    def __init__(self, order: int = 2) -> None:
        check(is_number(order) and order in (2, 3), "Taylor: order", "2 or 3", order)
        self.order = order
        self.name = "Taylor" if order == 2 else "third-order Taylor"

    def supports(self, likelihood: Likelihood) -> bool:
        """Whether the likelihood is smooth, with bounded derivatives."""
        if self.order == 3 and (
            likelihood.n_predictors > 1 or isinstance(likelihood, ExplicitLikelihood)
        ):
            return False  # third derivatives come from the graph of one predictor
        return isinstance(likelihood, SmoothLikelihood | JointlySmoothLikelihood)

    def n_constants(self, likelihood: Likelihood) -> int:
        """Those of `Row`, and row data."""
        return ROW.row_data(likelihood.n_predictors) + len(likelihood.row_data)

    def prepare(
        self, problem: Problem, log_factor: NativeFunction, keep: float = 1.0
    ) -> Preparation:
        """Bound the remainders of all rows, in one pass over the data.

        Beyond the limit all rates grow as fast as that of the row with the fastest growth. Rows
        that are kept bright do not count. Otherwise a few distant rows would make all others bright
        as soon as a chain goes where the others have little information.
        """
        design, anchor = problem.design, problem.own
        design.check_one_radius(self.name)
        radius = Radius.of(anchor, design.n_predictors, self.order + 1)
        constants = np.empty((design.n_rows, self.n_constants(problem.likelihood)))
        bright = np.empty(design.n_rows, np.float32)

        def bound(rows: slice, x: RowMatrix, eta: np.ndarray, y: np.ndarray) -> tuple[float, Any]:
            near, beyond, growth = self.remainders(problem.likelihood, eta, x, y, radius)
            constants[rows] = table_of(near, beyond, eta.T, y)
            bright[rows] = -np.expm1(-near * radius.moment)
            fastest = float(growth[bright[rows] <= keep].max(initial=0.0))
            if self.order == 2:
                return fastest, 0.0
            return fastest, cubic_form(x, problem.derivatives.third(eta, y))

        growth, cubic = 0.0, self.no_cubic(design.n_coefficients)
        for fastest, part in map_rows(design, problem.y, anchor.w, bound):
            growth = max(growth, fastest)
            cubic += part
        # The rows' expansions were added up when the anchor was found.
        packed = Packed(radius.ridge, radius.limit, growth, cubic / 6.0)
        statistics = np.concatenate([anchor.expansion.pack(), *packed.ravelled()])
        keep_bright(constants, bright, keep)
        return Preparation(statistics, constants, bright)

    def no_cubic(self, n_coefficients: int) -> np.ndarray:
        """Return zeros for the sum of third derivatives: without columns for the second order."""
        pairs = n_coefficients * (n_coefficients + 1) // 2
        return np.zeros((n_coefficients, pairs if self.order == 3 else 0))

    def expected_rows(self, problem: Problem, stride: int, above: float = 0.0) -> float:
        """Return the expected rows of a joint move, by local constants of every stride-th row."""
        anchor, total = problem.own, 0.0
        radius = Radius.of(anchor, problem.design.n_predictors, self.order + 1)
        for _, x, eta, y in iterate_rows(problem.design, problem.y, anchor.w, stride):
            kappa = self.remainders(problem.likelihood, eta, x, y, radius)[0]
            bright = -np.expm1(-kappa * radius.moment)
            total += float(bright[bright > above].sum())
        return total * stride

    def remainders(
        self, likelihood: Likelihood, eta: np.ndarray, x: RowMatrix, y: np.ndarray, radius: Radius
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the multipliers of the two powers of the radius, each of shape (n,).

        The third result is the rate at which the second power grows exponentially.
        """
        images = (np.linalg.norm(x @ span, axis=1) for span in radius.spans)
        if isinstance(likelihood, JointlySmoothLikelihood):
            c = np.stack([next(images) for _ in eta])
        else:
            c = np.max(list(images), axis=0)
        terms = cast(Any, likelihood), self.order + 1, eta, c, y
        anywhere, growth = limit_terms_anywhere(*terms)
        near = limit_terms_near(*terms, radius.limit)
        return *near_and_beyond(near, anywhere, growth, radius.limit), growth

    def collapsed(
        self, likelihood: Likelihood, w: Graph, statistics: Graph, n_coefficients: int
    ) -> tuple[Graph, Graph]:
        """Graph of the sum of expansions, and what the rows share, in the places of `POWERS`."""
        p = n_coefficients
        u, expansion, form = quadratic_terms(w, statistics, p)
        packed = Packed.of(statistics, p, self.order)
        if self.order == 3:
            i, j = np.triu_indices(p)
            expansion = expansion + u @ (packed.cubic.reshape((p, len(i))) @ (u[i] * u[j]))
        # The metric's precision is that of the data, twice the curvature, plus a diagonal.
        square = 2.0 * form + pt.sum(packed.ridge * u**2)
        near = square ** (0.5 * (self.order + 1))
        # In this form it has a gradient at the anchor, too.
        past = pt.sqrt(pt.maximum(square, packed.limit**2)) - packed.limit
        beyond = past ** (self.order + 1) * pt.exp(packed.growth * past)
        return expansion, pt.stack(list(Powers(near, beyond)))

    def remainder(self, likelihood: Likelihood, arguments: Graphs, constants: Graph) -> Graph:
        """Graph of the remainder of the expansion."""
        k, n = len(arguments), self.n_constants(likelihood)
        anchor: list[Any] = [constants[:, ROW.anchor + i] for i in range(k)]
        row_data = range(ROW.row_data(k), n)
        y = outcome(likelihood, [constants[:, i] for i in (ROW.outcome, *row_data)])
        return remainder(likelihood, arguments, anchor, y, self.order)


def table_of(near: np.ndarray, beyond: np.ndarray, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return constants of rows, in the places that `ROW` says, float64.

    `near`, `beyond` (n,). `eta` (n, K): predictors at the anchor. `y` (n,) or (n, 1 + R).
    """
    outcome, *row_data = y.reshape(len(y), -1).T
    columns = [near, beyond, outcome, *eta.T, *row_data]
    return np.column_stack([np.asarray(each, np.float64) for each in columns])


def cubic_form(x: RowMatrix, third: np.ndarray) -> np.ndarray:
    """Return sums of products of each column with pairs of columns, shape (P, P (P + 1) / 2).

    The products of a row are multiplied by its third derivative, and by the pair's multiplicity.
    """
    i, j = np.triu_indices(x.array.shape[1])
    products = x.array[:, i] * x.array[:, j] * np.where(i == j, 1.0, 2.0)
    return (x.array * third[:, None]).T @ products
