"""Taylor expansions whose remainder collapses: bounds for any smooth likelihood."""

from __future__ import annotations

from math import factorial
from typing import Any, cast

import numpy as np
import pytensor.tensor as pt
from scipy.stats import chi

from pymc_flymc.anchor.anchor import AnchorPart
from pymc_flymc.bounds.base import Graph, Graphs, Preparation, Problem
from pymc_flymc.bounds.remainder import remainder
from pymc_flymc.kernels.native import NativeFunction
from pymc_flymc.kernels.poisson import KAPPA
from pymc_flymc.likelihoods import (
    ExplicitLikelihood,
    JointlySmoothLikelihood,
    Likelihood,
    SmoothLikelihood,
    outcome,
)
from pymc_flymc.regression.design import STRUCTURED
from pymc_flymc.regression.passes import iterate_rows, map_rows
from pymc_flymc.regression.quadratic import quadratic_size, quadratic_terms
from pymc_flymc.settings import check, is_number

__all__ = ["Taylor", "dimension_of", "limit_of", "metric_of", "products", "spans_of"]

#: Within this quantile of the Laplace approximation's radius, remainders use local constants.
LOCAL_QUANTILE = 0.999


class Taylor:
    r"""Taylor expansion at the anchor, less a remainder that is one function of a radius.

    Let :math:`C C^\top` be about the posterior covariance of the coefficients w, and

    .. math:: u_n = x_n^\top (w - \hat w), \quad r(w) = \|C^{-1}(w - \hat w)\|, \quad
              c_n = \|C^\top x_n\|.

    By Cauchy-Schwarz :math:`|u_n| \le c_n r`, for all rows at once. With
    :math:`M_n \ge \sup |\varphi_n^{(k+1)}|` and :math:`\kappa_n = M_n c_n^{k+1} / (k+1)!`, the
    expansion of order k less :math:`\kappa_n r^{k+1}` is a lower bound, and the sum of the
    remainders is :math:`r^{k+1} \sum_n \kappa_n`. The M_n are local suprema as long as r is below
    a limit that posterior draws hardly ever exceed, and global ones beyond. Where there is none,
    as for counts, the remainder grows exponentially with r there.

    A row of a softmax regression has several predictors. Then :math:`u_n` is the largest difference
    of two elements of the distance from the anchor, that of the reference class, zero, among them,
    :math:`c_n` the largest standard deviation of such a difference, and the derivatives are those
    along directions of range one. Of predictors of different kinds, such as those of counts and of
    their zeros, each has a :math:`c_n` of its own, and :math:`\\kappa_n` is the largest third
    derivative along directions within these, over six.

    Where there are effects of groups, moves given z take the form `TaylorInParts` of the second
    order if it leaves fewer rows bright, and beyond 300 coefficients it is the only one.

    Parameters
    ----------
    order : {2, 3}, default 2
        Order of the expansion. The third order leaves fewer bright rows, at the price of a cubic
        form of P^3/2 terms in each evaluation and in the set-up. It is for one predictor.

    Raises
    ------
    ValueError
        If `order` is neither 2 nor 3.
    """

    n_shared = 3
    joint = True

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
        """Two remainders, outcome, predictors at the anchor, and row data."""
        return 3 + likelihood.n_predictors + len(likelihood.row_data)

    def prepare(self, problem: Problem, log_factor: NativeFunction) -> Preparation:
        """Bound the remainders of all rows, in one pass over the data."""
        design, anchor = problem.design, problem.own
        if design.structured:
            raise ValueError(
                f"the {self.name} bound has one radius for all coefficients, and does not work for "
                f"{design.n_coefficients} of them with effects of groups or sparse columns: at "
                f"most {STRUCTURED}; given z, Taylor() has one for each part of a row"
            )
        metric, ridge = metric_of(anchor)
        p, limit = design.n_coefficients, limit_of(anchor)
        spans = spans_of(metric, design.n_predictors)
        constants = np.empty((design.n_rows, self.n_constants(problem.likelihood)))

        def bound(rows: slice, x: np.ndarray, eta: np.ndarray, y: np.ndarray) -> tuple[float, Any]:
            near, far, fastest = self.remainders(problem.likelihood, eta, x, y, spans, limit)
            columns = y.reshape(len(x), -1)
            constants[rows] = np.column_stack([near, far, columns[:, 0], eta.T, columns[:, 1:]])
            if self.order == 2:
                return fastest, 0.0
            return fastest, (x * problem.derivatives.third(eta, y)[:, None]).T @ products(x)

        growth, cubic = 0.0, np.zeros((p, p * (p + 1) // 2 if self.order == 3 else 0))
        for fastest, part in map_rows(design, problem.y, anchor.w, bound):
            growth = max(growth, fastest)
            cubic += part
        totals = constants[:, 0].sum(), constants[:, 1].sum()
        # The rows' expansions were added up where the anchor was found.
        statistics = anchor.expansion.pack(), ridge, [*totals, limit, growth], cubic.ravel() / 6.0
        # At the mean of r^(k+1) over the Laplace approximation.
        moment = float(chi.moment(self.order + 1, dimension_of(anchor)))
        bright = -np.expm1(-constants[:, 0] * moment)
        return Preparation(np.concatenate(statistics), constants, bright.astype(np.float32))

    def exempt(self, preparation: Preparation, rows: np.ndarray, n_coefficients: int) -> None:
        """Take the remainder's bound off some rows, in place: from then on it is that of the rest.

        What `gap` gives for these rows is the remainder of their expansion, of either sign.
        """
        p = n_coefficients
        end = len(preparation.statistics) - (p * p * (p + 1) // 2 if self.order == 3 else 0)
        kappa = preparation.constants[:, KAPPA : KAPPA + 2]
        kappa[rows] = 0.0
        # Summed anew: a difference of sums would leave rounding behind where all rows are exempt.
        preparation.statistics[end - 4 : end - 2] = kappa.sum(axis=0)
        preparation.bright[rows] = 0.0

    def expected_rows(self, problem: Problem, stride: int) -> float:
        """Rows that a joint move is expected to read, by the local constants of every stride-th."""
        anchor, total = problem.own, 0.0
        spans = spans_of(metric_of(anchor)[0], problem.design.n_predictors)
        moment = float(chi.moment(self.order + 1, dimension_of(anchor)))
        limit = limit_of(anchor)
        for _, x, eta, y in iterate_rows(problem.design, problem.y, anchor.w, stride):
            kappa = self.remainders(problem.likelihood, eta, x, y, spans, limit)[0]
            total -= float(np.expm1(-kappa * moment).sum())
        return total * stride

    def remainders(
        self,
        likelihood: Likelihood,
        eta: np.ndarray,
        x: np.ndarray,
        y: np.ndarray,
        spans: list[np.ndarray],
        limit: float,
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Return kappa within the limit of the radius and beyond, each of shape (n,).

        With them comes the largest rate at which remainders beyond the limit grow with the radius.
        """
        power = self.order + 1
        if isinstance(likelihood, JointlySmoothLikelihood):
            spread = np.stack([np.linalg.norm(x @ span, axis=1) for span in spans[: len(eta)]])
            near = likelihood.third_bound(eta, limit * spread, spread, y) / factorial(power)
            far = likelihood.third_scale(eta, spread, y) / factorial(power)
            return near, far, likelihood.growth * float(spread.max())
        likelihood = cast(SmoothLikelihood, likelihood)
        reaches = (x @ span for span in spans)
        c = np.sqrt(np.max([np.einsum("ij,ij->i", each, each) for each in reaches], axis=0))
        reach = limit * c
        if len(eta) == 1:
            (eta,) = eta
        else:  # differences of predictors reach as far: half of it up, and half of it down
            eta, reach = np.concatenate([np.zeros_like(eta[:1]), eta]), 0.5 * reach
        scale = c**power / factorial(power)
        near = likelihood.derivative_bound(power, eta - reach, eta + reach, y) * scale
        if likelihood.growth == 0.0:
            return near, likelihood.derivative_bound(power, -np.inf, np.inf, y) * scale, 0.0
        far = likelihood.derivative_bound(power, eta, eta, y) * scale
        return near, far, likelihood.growth * float(c.max())

    def collapsed(
        self, likelihood: Likelihood, w: Graph, statistics: Graph, n_coefficients: int
    ) -> tuple[Graph, Graph]:
        """Graph of the sum of log bounds.

        The rows share r^(k+1), which beyond the limit of r may come with an exponential function,
        whether r is beyond it (0 or 1), and the product of the former with sum kappa.
        """
        expansion, shared = self.expansion(likelihood, w, statistics, n_coefficients)
        return expansion - shared[2], shared

    def expansion(
        self, likelihood: Likelihood, w: Graph, statistics: Graph, n_coefficients: int
    ) -> tuple[Graph, Graph]:
        """As `collapsed`, without the remainder."""
        p = n_coefficients
        u, linear, form = quadratic_terms(w, statistics, p)
        start = quadratic_size(statistics, p)
        ridge = statistics[start : start + p]
        local, everywhere, limit, growth = (statistics[start + p + i] for i in range(4))
        expansion = statistics[0] + linear - form
        if self.order == 3:
            start += p + 4
            pairs = p * (p + 1) // 2
            cubic = statistics[start : start + p * pairs].reshape((p, pairs))
            i, j = np.triu_indices(p)
            expansion = expansion + u @ (cubic @ (u[i] * u[j]))
        # The metric's precision is that of the data, twice the curvature, plus a diagonal.
        radius = pt.sqrt(2.0 * form + pt.sum(ridge * u**2))
        far = pt.gt(radius, limit)
        power = radius ** (self.order + 1) * pt.switch(far, pt.exp(growth * radius), 1.0)
        rate = pt.switch(far, everywhere, local) * power
        return expansion, pt.stack([power, far.astype("float64"), rate])

    def gap(
        self, likelihood: Likelihood, arguments: Graphs, constants: Graph, shared: Graphs
    ) -> Graph:
        """Graph of the remainder of the expansion plus its bound."""
        k = len(arguments)
        anchor: list[Any] = [constants[:, 3 + i] for i in range(k)]
        row_data = range(3 + k, self.n_constants(likelihood))
        y = outcome(likelihood, [constants[:, i] for i in (2, *row_data)])
        kappa = pt.switch(shared[1] > 0.5, constants[:, 1], constants[:, 0])
        return remainder(likelihood, arguments, anchor, y, self.order) + kappa * shared[0]


def dimension_of(anchor: AnchorPart) -> int:
    """Dimension in which the coefficients vary, but for those that the model fixes."""
    return min(int(np.count_nonzero(anchor.w_factor.any(axis=1))), anchor.w_factor.shape[1])


def limit_of(anchor: AnchorPart) -> float:
    """Radius up to which the local constants hold."""
    return float(chi.ppf(LOCAL_QUANTILE, dimension_of(anchor)))


def spans_of(metric: np.ndarray, n_predictors: int) -> list[np.ndarray]:
    """Return matrices of which one has ``|x' span| r`` above whatever the row x can reach.

    For one predictor the metric itself; for several, one for each pair of classes, as it is
    differences of predictors that count. The first of these are of the predictors themselves.
    """
    if n_predictors == 1:
        return [metric]
    blocks = metric.reshape(n_predictors, -1, len(metric))
    blocks = np.concatenate([np.zeros_like(blocks[:1]), blocks])  # the reference class
    pairs = zip(*np.triu_indices(len(blocks), 1), strict=True)
    return [np.linalg.qr((blocks[i] - blocks[j]).T, mode="r").T for i, j in pairs]


def metric_of(anchor: AnchorPart) -> tuple[np.ndarray, np.ndarray]:
    """Return C of shape (P, P) and a ridge of shape (P,): C C' is the inverse of what the data say.

    That is of their information plus the diagonal ridge, which stands for the prior. C C' is about
    the posterior covariance of the coefficients; for independent normal priors, just that.
    """
    d = anchor.w_factor.shape[1]
    variance = np.maximum(np.sum(anchor.w_factor**2, axis=1), 1e-300)
    # Where the data do not decide: scales well beyond the Laplace approximation's.
    ridge = 0.01 / variance
    free = anchor.w_factor.any(axis=1)  # the others are fixed, such as zeros for some class
    factor = anchor.w_factor[free]
    if len(factor) <= d and np.linalg.cond(factor) < 1e8:
        inverse, places = np.linalg.pinv(factor), np.flatnonzero(free)
        data = anchor.expansion.information[np.ix_(places, places)]
        prior = inverse.T @ inverse - data
        # Where it says nothing beside the data the difference is rounding.
        informed = np.diag(prior) > 1e-6 * np.diag(data)
        prior, places = prior[np.ix_(informed, informed)], places[informed]
        scale = np.sqrt(np.diag(prior))
        # The largest multiple of the diagonal that is nowhere above the prior's precision: a radius
        # that is too large would be beyond the limit too often.
        share = np.linalg.eigvalsh(prior / np.outer(scale, scale)).min(initial=1.0)
        ridge[places] = np.maximum(ridge[places], share * scale**2)
    # Where a likelihood is not log-concave its rows' curvature may fall short of zero.
    sd = np.sqrt(variance)
    least = np.linalg.eigvalsh(anchor.expansion.information * np.outer(sd, sd))[0]
    if least < -1e-6:
        ridge += -2.0 * least / variance
    factor = np.linalg.cholesky(anchor.expansion.information + np.diag(ridge))
    # A little wider than it need be, so that rounding never violates Cauchy-Schwarz.
    return np.linalg.inv(factor).T * (1.0 + 1e-9), ridge


def products(x: np.ndarray) -> np.ndarray:
    """Products of pairs of columns with multiplicity, shape (n, P (P + 1) / 2)."""
    i, j = np.triu_indices(x.shape[1])
    return x[:, i] * x[:, j] * np.where(i == j, 1.0, 2.0)
