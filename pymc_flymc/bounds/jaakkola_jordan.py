"""Bounds that are quadratic in one predictor: the base class, and those of Jaakkola and Jordan."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import pytensor.tensor as pt

from pymc_flymc.bounds.bound import (
    Bound,
    Graph,
    Graphs,
    Preparation,
    Problem,
    check_slack,
    row_factor,
)
from pymc_flymc.errors import check
from pymc_flymc.graphs.compilation import compile_log_factor
from pymc_flymc.graphs.gammas import log_rising_of_exp
from pymc_flymc.kernels.native import NativeFunction
from pymc_flymc.likelihoods.likelihood import LOGISTIC, NEGATIVE_BINOMIAL, Likelihood, form_of
from pymc_flymc.likelihoods.weighted import unweighted, weights_of
from pymc_flymc.regression.expansion import QuadraticStatistics, collapsed_quadratic, quadratic_size
from pymc_flymc.regression.matrices import RowMatrix
from pymc_flymc.regression.passes import iterate_rows


class TightenedBound(Bound, Protocol):
    """A bound with one parameter for each row that says where it touches."""

    n_shared: int = 0
    #: Slack in units of a row's expected gap: every log B_n is lowered by this much.
    slack: float

    def tightness(
        self, problem: Problem, rows: slice, arguments: np.ndarray, y: np.ndarray
    ) -> np.ndarray:
        """Where each row's bound touches: one parameter a row, shape (n,), float64.

        The arguments are those at the anchor, shape (A, n).
        """

    def constants(self, tightness: np.ndarray, y: np.ndarray, slack: np.ndarray) -> np.ndarray:
        """All that the gap depends on beside the arguments, shape (n, R), float64."""

    def expected_rows(self, problem: Problem, stride: int) -> float:
        """Bright rows expected over the Laplace approximation, from every stride-th row."""
        table = RowTable(self, problem, compile_log_factor(row_factor(problem.likelihood, self)))
        for _ in table.fill(stride):
            pass
        return stride * float(table.bright[::stride].sum(dtype=np.float64))


class OneQuadratic:
    """A bound whose statistics are those of one quadratic in the coefficients, and no more."""

    def collapsed(
        self, likelihood: Likelihood, w: Graph, statistics: Graph, n_coefficients: int
    ) -> tuple[Graph, Graph]:
        """Graph of the collapsed sum; the rows share nothing."""
        return collapsed_quadratic(w, statistics, n_coefficients), pt.zeros((0,))


def new_statistics(problem: Problem) -> QuadraticStatistics:
    """Return statistics without rows yet, around the anchor."""
    return QuadraticStatistics(problem.own.w[: problem.design.width])


class RowTable:
    """The constants that a quadratic bound keeps of each row, filled in one pass over the data.

    `constants` (N, R), float64. `bright` (N,), float32: as in `Preparation`.
    """

    def __init__(self, bound: TightenedBound, problem: Problem, log_factor: NativeFunction) -> None:
        self.bound, self.problem, self.log_factor = bound, problem, log_factor
        n_rows = problem.design.n_rows
        self.constants = np.empty((n_rows, bound.n_constants(problem.likelihood)))
        self.bright = np.empty(n_rows, np.float32)

    def fill(
        self, stride: int = 1
    ) -> Iterator[tuple[RowMatrix, np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Fill the table block by block, and yield ``(x, eta, y, tightness, slack)`` of each.

        The slack is the same number that the rows' constants have, so that the collapsed sum is the
        sum over rows.
        """
        bound, problem, anchor = self.bound, self.problem, self.problem.own
        width = problem.design.width
        nuisances = anchor.w[width:]
        shifts = np.diag(np.sqrt(3.0) * np.linalg.norm(anchor.w_factor[width:], axis=1))
        for rows, x, arguments, y in iterate_rows(problem.design, problem.y, anchor.w, stride):
            eta = arguments[0]
            # Mean over the Laplace approximation of eta: Gauss-Hermite quadrature, three nodes.
            half_width = np.sqrt(3.0) * np.linalg.norm(x @ anchor.w_factor[:width], axis=1)
            tightness = bound.tightness(problem, rows, arguments, y)
            tight = bound.constants(tightness, y, np.zeros(len(eta)))
            middle = self._gap(eta, nuisances, tight)
            pairs = [(eta - half_width, nuisances, eta + half_width, nuisances)]
            # Nuisance parameters are treated as independent of the predictors and of each other.
            pairs += [(eta, nuisances - shift, eta, nuisances + shift) for shift in shifts]
            spread = np.zeros_like(middle)
            for low, nuisances_low, high, nuisances_high in pairs:
                ends = self._gap(low, nuisances_low, tight) + self._gap(high, nuisances_high, tight)
                spread += (ends - 2.0 * middle) / 6.0
            slack = bound.slack * np.abs(spread)
            self.constants[rows] = bound.constants(tightness, y, slack)
            self.bright[rows] = -np.expm1(-(np.maximum(middle + spread, 0.0) + slack))
            yield x, eta, y, tightness, slack

    def _gap(self, eta: np.ndarray, nuisances: np.ndarray, constants: np.ndarray) -> np.ndarray:
        out = np.empty(len(eta))
        self.log_factor(eta[:, None], constants, nuisances, out)
        return np.logaddexp(0.0, out)  # log odds = log(exp(gap) - 1)


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


class FreeColumns(NamedTuple):
    """Places of the constants of a row; the weight is there only if the family has one."""

    outcome: int = 0
    slack: int = 1
    curvature: int = 2
    height: int = 3
    weight: int = 4


FREE = FreeColumns()


class FreeJaakkolaJordan(TightenedBound):
    r"""Jaakkola-Jordan bound on negative binomial counts with a free alpha.

    In the log odds :math:`\psi = \eta - \log\alpha` the logarithm of the bound is

    .. math:: (y + \alpha) \bigl(\lambda(\xi) (\xi^2 - \psi^2) - \log 2\cosh(\xi/2)\bigr)
              + \tfrac12 (y - \alpha) \psi + \log\Gamma(y + \alpha) - \log\Gamma(\alpha).

    With each row's :math:`\xi` fixed at the anchor this is the sum of two quadratics in
    :math:`\psi`, the second of them times :math:`\alpha`, and of gamma functions, which are the
    same for equal counts. A table says how often each count occurs: an evaluation takes time in
    proportion to the number of *distinct* counts, whatever N.

    Parameters
    ----------
    slack : float, default 2
        As in `JaakkolaJordan`.

    Raises
    ------
    ValueError
        If `slack` is negative or not finite.

    See Also
    --------
    JaakkolaJordan : of counts with a fixed alpha.

    Examples
    --------
    >>> with model:
    ...     idata = pm.sample(step=FireflyHMC(bound=FreeJaakkolaJordan(slack=4)))
    """

    name = "free Jaakkola-Jordan"

    def __init__(self, *, slack: float = 2.0) -> None:
        self.slack = check_slack("FreeJaakkolaJordan", slack)

    def supports(self, likelihood: Likelihood) -> bool:
        """Whether the likelihood is negative binomial with a free alpha."""
        return form_of(unweighted(likelihood)) == NEGATIVE_BINOMIAL

    def n_constants(self, likelihood: Likelihood) -> int:
        """Outcome, slack, curvature and height of the quadratic, and weight."""
        return FREE.weight + len(likelihood.row_data)

    def tightness(
        self, problem: Problem, rows: slice, arguments: np.ndarray, y: np.ndarray
    ) -> np.ndarray:
        """Each row's xi, shape (n,)."""
        return np.abs(arguments[0])

    def constants(self, tightness: np.ndarray, y: np.ndarray, slack: np.ndarray) -> np.ndarray:
        """Columns y, slack, two coefficients of a trial's quadratic, and weight."""
        a, c = _quadratic(tightness)
        y, *weight = y.T if y.ndim > 1 else [y]
        return np.column_stack([y, slack, a, c, *weight])

    def prepare(self, problem: Problem, log_factor: NativeFunction) -> Preparation:
        """Compute the statistics and the rows' constants in one pass over the data.

        The statistics are those of two quadratics, the number of distinct counts, the counts, and
        the total weight of the rows with each count.
        """
        table = RowTable(self, problem, log_factor)
        by_count, by_alpha = new_statistics(problem), new_statistics(problem)
        for x, eta, y, tightness, slack in table.fill():
            y, weight = weights_of(problem.likelihood, y)
            a, c = weight * _quadratic(tightness)
            by_count.add(x, eta, y * a, 0.5 * weight * y, y * c - slack)
            by_alpha.add(x, eta, a, -0.5 * weight, c)
        observed, weight = weights_of(problem.likelihood, problem.y)
        counts, places = np.unique(observed, return_inverse=True)
        times = np.bincount(places, weight)
        parts: list[Any] = [by_count.pack(), by_alpha.pack(), [len(counts)], counts, times]
        return Preparation(np.concatenate(parts), table.constants, table.bright)

    def collapsed(
        self, likelihood: Likelihood, w: Graph, statistics: Graph, n_coefficients: int
    ) -> tuple[Graph, Graph]:
        """Graph of the collapsed sum; the rows share nothing but alpha."""
        width = n_coefficients - 1
        alpha, size = pt.exp(w[width]), quadratic_size(statistics, width)
        by_count = collapsed_quadratic(w[:width], statistics, width)
        by_alpha = collapsed_quadratic(w[:width], statistics[size:], width)
        start = size + quadratic_size(statistics[size:], width) + 1
        n_counts = statistics[start - 1].astype("int64")
        counts = statistics[start : start + n_counts]
        times = statistics[start + n_counts : start + 2 * n_counts]
        gammas = pt.sum(times * log_rising_of_exp(w[width], counts))
        return by_count + alpha * by_alpha + gammas, pt.zeros((0,))

    def gap(
        self, likelihood: Likelihood, arguments: Graphs, constants: Graph, shared: Graphs
    ) -> Graph:
        """Graph of the gap, y + alpha times that of one trial; the gamma functions cancel."""
        psi, log_alpha = arguments
        y, slack = constants[:, FREE.outcome], constants[:, FREE.slack]
        a, c = constants[:, FREE.curvature], constants[:, FREE.height]
        magnitude = pt.abs(psi)
        log_2cosh = 0.5 * magnitude + pt.log1p(pt.exp(-magnitude))
        gap = (y + pt.exp(log_alpha)) * (a * pt.sqr(psi) - c - log_2cosh)
        return (gap * constants[:, FREE.weight] if likelihood.row_data else gap) + slack


def _quadratic(xi: np.ndarray) -> np.ndarray:
    """Coefficients (a, c) of the bound ``c - a psi^2`` on ``-log 2 cosh(psi/2)``, shape (2, n)."""
    lam = curvature(xi)
    return np.stack([lam, lam * xi**2 - log_2cosh_half(xi)])
