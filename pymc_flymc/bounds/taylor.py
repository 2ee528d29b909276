"""Taylor expansions whose remainder collapses: bounds for any smooth likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial
from typing import Any, cast

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable
from scipy.stats import chi

from pymc_flymc.anchor import Anchor
from pymc_flymc.bounds.base import Preparation, Problem
from pymc_flymc.design import STRUCTURED
from pymc_flymc.likelihoods import Likelihood, SmoothLikelihood
from pymc_flymc.native import NativeFunction
from pymc_flymc.passes import iterate_rows
from pymc_flymc.statistics import QuadraticStatistics, quadratic_size, quadratic_terms

__all__ = ["Taylor"]

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

    Parameters
    ----------
    order : {2, 3}, default 2
        Order of the expansion. The third order leaves fewer bright rows, at the price of a cubic
        form of P^3/2 terms in each evaluation and in the set-up.

    Raises
    ------
    ValueError
        If `order` is neither 2 nor 3.
    """

    name = "Taylor"
    n_shared = 3

    def __init__(self, order: int = 2) -> None:
        if order not in (2, 3):
            raise ValueError(f"Taylor: order must be 2 or 3, not {order!r}")
        self.order = order

    def supports(self, likelihood: Likelihood) -> bool:
        """Whether the likelihood is smooth, with bounded derivatives."""
        return isinstance(likelihood, SmoothLikelihood)

    def n_constants(self, likelihood: Likelihood) -> int:
        """Predictor at the anchor, outcome, and two remainders."""
        return 4

    def prepare(self, problem: Problem, log_factor: NativeFunction) -> Preparation:
        """Expand all rows at the anchor, in one pass over the data."""
        design, y, anchor = problem.design, problem.y, problem.anchor
        if design.structured:
            raise ValueError(
                f"the Taylor bound has one radius for all coefficients, and does not work for "
                f"{design.n_coefficients} of them with effects of groups or sparse columns: at "
                f"most {STRUCTURED}; bound='auto' takes one that does, if there is one"
            )
        power = self.order + 1
        metric, ridge = _metric(anchor)
        p = design.n_coefficients
        statistics = QuadraticStatistics(anchor.w)
        cubic = np.zeros((p, p * (p + 1) // 2)) if self.order == 3 else None
        constants = np.empty((design.n_rows, self.n_constants(problem.likelihood)))
        growth = 0.0
        for rows, x, arguments in iterate_rows(design, anchor.w):
            (eta,) = arguments
            value, (first,), ((second,),), *_ = problem.derivatives(arguments, y[rows])
            constants[rows, 0], constants[rows, 1] = eta, y[rows]
            near, far, fastest = self._remainders(problem, eta, x, y[rows], metric)
            constants[rows, 2], constants[rows, 3] = near, far
            growth = max(growth, fastest)
            # The expansion as a quadratic a, b, c in eta itself, around the centre of `statistics`.
            a = np.maximum(-0.5 * second, 0.0)
            statistics.add(x, eta, a, first + 2.0 * a * eta, value - first * eta - a * eta**2)
            if cubic is not None:
                third = problem.derivatives.third(arguments, y[rows])
                cubic += (x * third[:, None]).T @ _products(x)
        totals = constants[:, 2].sum(), constants[:, 3].sum()
        packed: list[Any] = [statistics.pack(), ridge, [*totals, _limit(p), growth]]
        if cubic is not None:
            packed.append(cubic.ravel() / 6.0)
        # At the mean of r^(k+1) over the Laplace approximation.
        bright = -np.expm1(-constants[:, 2] * float(chi.moment(power, p)))
        return Preparation(np.concatenate(packed), constants, bright.astype(np.float32))

    def expected_rows(self, problem: Problem, stride: int) -> float:
        """Rows that a joint move is expected to read, by the local constants of every stride-th."""
        anchor, total = problem.anchor, 0.0
        metric = _metric(anchor)[0]
        moment = float(chi.moment(self.order + 1, problem.design.n_coefficients))
        for rows, x, (eta,) in iterate_rows(problem.design, anchor.w, stride):
            kappa = self._remainders(problem, eta, x, problem.y[rows], metric)[0]
            total -= float(np.expm1(-kappa * moment).sum())
        return total * stride

    def _remainders(
        self, problem: Problem, eta: np.ndarray, x: np.ndarray, y: np.ndarray, metric: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Return kappa within the limit of the radius and beyond, each of shape (n,).

        With them comes the largest rate at which remainders beyond the limit grow with the radius.
        """
        power = self.order + 1
        likelihood = cast(SmoothLikelihood, problem.likelihood)
        c = np.linalg.norm(x @ metric, axis=1)
        reach = _limit(x.shape[1]) * c
        scale = c**power / factorial(power)
        near = likelihood.derivative_bound(power, eta - reach, eta + reach, y) * scale
        if likelihood.growth == 0.0:
            return near, likelihood.derivative_bound(power, -np.inf, np.inf, y) * scale, 0.0
        far = likelihood.derivative_bound(power, eta, eta, y) * scale
        return near, far, likelihood.growth * float(c.max())

    def collapsed(
        self,
        likelihood: Likelihood,
        w: TensorVariable,
        statistics: TensorVariable,
        n_coefficients: int,
    ) -> tuple[TensorVariable, TensorVariable]:
        """Graph of the sum of log bounds.

        The rows share r^(k+1), which beyond the limit of r may come with an exponential function,
        whether r is beyond it (0 or 1), and the product of the former with sum kappa.
        """
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
        return expansion - rate, pt.stack([power, far.astype("float64"), rate])

    def gap(
        self,
        likelihood: Likelihood,
        arguments: Sequence[TensorVariable],
        constants: TensorVariable,
        shared: TensorVariable,
    ) -> TensorVariable:
        """Graph of the remainder of the expansion plus its bound."""
        anchor, y = constants[:, 0], constants[:, 1]
        u = arguments[0] - anchor
        value = likelihood.log_likelihood([anchor], y)
        remainder = likelihood.log_likelihood(arguments, y) - value
        term: Any = pt.ones_like(u)
        derivative: Any = value
        for k in range(1, self.order + 1):
            derivative = pytensor.grad(derivative.sum(), anchor)
            term = term * u / k
            remainder = remainder - derivative * term
        kappa = pt.switch(shared[1] > 0.5, constants[:, 3], constants[:, 2])
        return remainder + kappa * shared[0]


def _limit(n_coefficients: int) -> float:
    """Radius up to which the local constants hold."""
    return float(chi.ppf(LOCAL_QUANTILE, n_coefficients))


def _metric(anchor: Anchor) -> tuple[np.ndarray, np.ndarray]:
    """Return C of shape (P, P) and a ridge of shape (P,): C C' is the inverse of what the data say.

    That is of their information plus the diagonal ridge, which stands for the prior. C C' is about
    the posterior covariance of the coefficients; for independent normal priors, just that.
    """
    p, d = anchor.w_factor.shape
    variance = np.maximum(np.sum(anchor.w_factor**2, axis=1), 1e-300)
    # Where the data do not decide: scales well beyond the Laplace approximation's.
    ridge = 0.01 / variance
    if p == d and np.linalg.cond(anchor.w_factor) < 1e8:
        inverse = np.linalg.inv(anchor.w_factor)
        ridge = np.maximum(ridge, np.diag(inverse.T @ inverse - anchor.information))
    factor = np.linalg.cholesky(anchor.information + np.diag(ridge))
    # A little wider than it need be, so that rounding never violates Cauchy-Schwarz.
    return np.linalg.inv(factor).T * (1.0 + 1e-9), ridge


def _products(x: np.ndarray) -> np.ndarray:
    """Products of pairs of columns with multiplicity, shape (n, P (P + 1) / 2)."""
    i, j = np.triu_indices(x.shape[1])
    return x[:, i] * x[:, j] * np.where(i == j, 1.0, 2.0)
