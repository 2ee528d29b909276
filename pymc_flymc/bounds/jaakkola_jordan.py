"""The Jaakkola-Jordan bound on the logistic likelihood."""

from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt

from pymc_flymc.bounds.bound import Graph, Graphs, Preparation, Problem, check_slack
from pymc_flymc.bounds.quadratic_bounds import (
    OneQuadratic,
    RowTable,
    TightenedBound,
    new_statistics,
)
from pymc_flymc.kernels.native import NativeFunction
from pymc_flymc.likelihoods.likelihood import LOGISTIC, Likelihood, form_of
from pymc_flymc.regression.passes import iterate_rows
from pymc_flymc.settings import check


class Columns(NamedTuple):
    """Places of the constants of a row; trials are there only if the family has them."""

    curvature: int = 0
    height: int = 1
    trials: int = 2


COLUMNS = Columns()


class JaakkolaJordan(OneQuadratic, TightenedBound):
    r"""Quadratic lower bound on the logistic log-likelihood, tight at :math:`\eta = \pm\xi`.

    With :math:`s = (2y - 1)\eta` and :math:`\lambda(\xi) = \tanh(\xi/2)/(4\xi)`,

    .. math:: \log B = -\lambda(\xi)(s^2 - \xi^2) + (s - \xi)/2 + \log\sigma(\xi).

    For y successes in m trials the log-likelihood is :math:`y\eta - m \log(1 + e^\eta)`: the bound
    on the second term is m times as large. The same holds for a negative binomial outcome with a
    fixed alpha, with :math:`m = y + \alpha`.

    Parameters
    ----------
    xi : float or ndarray of shape (N,), optional
        Where the bound touches each row's likelihood. By default the bound is tuned: each row's
        xi is its predictor at the anchor. ``xi=1.5`` is the paper's untuned bound.
    slack : float, default 2
        Lowers each row's log bound by `slack` times the gap expected over the posterior. A bound
        that touches makes L/B - 1 vanish on a hyperplane, a wall in the way of every bright row;
        slack removes the wall at the price of some more bright rows. It leaves the posterior exact.

    Raises
    ------
    ValueError
        If `xi` or `slack` is negative or not finite.

    See Also
    --------
    FreeJaakkolaJordan : of negative binomial counts with a free alpha.
    Taylor : tighter where rows are many.

    References
    ----------
    Jaakkola, T. S. and Jordan, M. I. (1997). A variational approach to Bayesian logistic regression
    models and their extensions. AISTATS. As used in Maclaurin, D. and Adams, R. P. (2014), 3.1.

    Examples
    --------
    The bound of the paper, without tuning:

    >>> with model:
    ...     idata = pm.sample(step=FireflyMH(bound=JaakkolaJordan(xi=1.5, slack=0)))
    """

    name = "Jaakkola-Jordan"

    def __init__(self, xi: float | np.ndarray | None = None, *, slack: float = 2.0) -> None:
        if xi is not None:
            expected = "a finite, non-negative number or one a row"
            numbers = np.asarray(xi)
            good = numbers.dtype.kind in "iuf" and numbers.ndim <= 1
            good = good and bool(np.all(np.isfinite(numbers) & (numbers >= 0)))
            check(good, "JaakkolaJordan: xi", expected, xi)
            xi = numbers.astype(np.float64)
        self.xi = xi
        self.slack = check_slack("JaakkolaJordan", slack)

    def supports(self, likelihood: Likelihood) -> bool:
        """Whether the likelihood is logistic."""
        return form_of(likelihood) == LOGISTIC

    def n_constants(self, likelihood: Likelihood) -> int:
        """Curvature, the part of the gap that does not depend on the predictor, and trials."""
        return COLUMNS.trials + len(likelihood.row_data)

    def tightness(
        self, problem: Problem, rows: slice, arguments: np.ndarray, y: np.ndarray
    ) -> np.ndarray:
        """Each row's xi, shape (n,)."""
        if self.xi is None:
            return np.abs(arguments[0])
        return np.full(len(y), self.xi if self.xi.ndim == 0 else self.xi[rows])

    def coefficients(
        self, tightness: np.ndarray, y: np.ndarray, slack: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Coefficients (a, b, c) of ``log B = c + b eta - a eta^2``.

        The outcomes y are labels 0 and 1, shape (n,), or successes and trials, shape (n, 2).
        """
        (successes, trials), xi = _counts(y), tightness
        lam = curvature(xi)
        return (
            trials * lam,
            successes - 0.5 * trials,
            trials * (lam * xi**2 - log_2cosh_half(xi)) - slack,
        )

    def constants(self, tightness: np.ndarray, y: np.ndarray, slack: np.ndarray) -> np.ndarray:
        """Columns lambda(xi), the part of the gap that does not depend on eta, and trials."""
        (_, trials), xi = _counts(y), tightness
        lam = curvature(xi)
        columns = [trials * lam, trials * (log_2cosh_half(xi) - lam * xi**2) + slack]
        return np.column_stack([*columns, trials] if y.ndim > 1 else columns)

    def prepare(self, problem: Problem, log_factor: NativeFunction) -> Preparation:
        """Compute the statistics and the rows' constants in one pass over the data."""
        n_rows = problem.design.n_rows
        if self.xi is not None and self.xi.ndim == 1 and len(self.xi) != n_rows:
            raise ValueError(f"JaakkolaJordan: xi has {len(self.xi)} values for {n_rows} rows")
        table, statistics = RowTable(self, problem, log_factor), new_statistics(problem)
        for x, eta, y, tightness, slack in table.fill():
            statistics.add(x, eta, *self.coefficients(tightness, y, slack))
        return Preparation(statistics.pack(), table.constants, table.bright)

    def expected_rows(self, problem: Problem, stride: int) -> float:
        """Bright rows expected over the Laplace approximation, from every stride-th row."""
        own, total = problem.own, 0.0
        for _, x, eta, y in iterate_rows(problem.design, problem.y, own.w, stride):
            variance = np.sum((x @ own.w_factor) ** 2, axis=1)
            second = problem.derivatives(eta, y).second[0, 0]
            excess = 2.0 * _counts(y)[1] * curvature(np.abs(eta[0])) + second
            gap = 0.5 * np.maximum(excess, 0.0) * variance
            total -= float(np.expm1(-(1.0 + self.slack) * gap).sum())
        return total * stride

    def gap(
        self, likelihood: Likelihood, arguments: Graphs, constants: Graph, shared: Graphs
    ) -> Graph:
        """Graph of the gap: log sigma(s) is s/2 - log 2cosh(s/2), so that the label cancels."""
        (eta,) = arguments
        magnitude = pt.abs(eta)
        log_2cosh_half = 0.5 * magnitude + pt.log1p(pt.exp(-magnitude))
        trials = constants[:, COLUMNS.trials] if likelihood.row_data else 1.0
        curvature, height = constants[:, COLUMNS.curvature], constants[:, COLUMNS.height]
        return curvature * eta**2 + height - trials * log_2cosh_half


def _counts(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Successes and trials of each row, one trial where y is a vector of labels."""
    return (y[:, 0], y[:, 1]) if y.ndim > 1 else (y, np.ones(len(y)))


def curvature(xi: np.ndarray) -> np.ndarray:
    """lambda(xi) = tanh(xi/2) / (4 xi), continued to 1/8 at zero."""
    xi = np.maximum(xi, 1e-10)
    return np.tanh(0.5 * xi) / (4.0 * xi)


def log_2cosh_half(x: np.ndarray) -> np.ndarray:
    """log(2 cosh(x/2)) for x >= 0, without overflow."""
    return 0.5 * x + np.log1p(np.exp(-x))
