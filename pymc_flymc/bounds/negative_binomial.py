"""The Jaakkola-Jordan bound on counts whose dispersion is sampled."""

from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt

from pymc_flymc.bounds.bound import Graph, Graphs, Preparation, Problem, check_slack
from pymc_flymc.bounds.jaakkola_jordan import curvature, log_2cosh_half
from pymc_flymc.bounds.quadratic_bounds import RowTable, TightenedBound, new_statistics
from pymc_flymc.graphs.gammas import log_rising_of_exp
from pymc_flymc.kernels.native import NativeFunction
from pymc_flymc.likelihoods.likelihood import NEGATIVE_BINOMIAL, Likelihood, form_of
from pymc_flymc.likelihoods.weighted import unweighted, weights_of
from pymc_flymc.regression.expansion import collapsed_quadratic, quadratic_size


class Columns(NamedTuple):
    """Places of the constants of a row; the weight is there only if the family has one."""

    outcome: int = 0
    slack: int = 1
    curvature: int = 2
    height: int = 3
    weight: int = 4


COLUMNS = Columns()


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
        return COLUMNS.weight + len(likelihood.row_data)

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
        y, slack = constants[:, COLUMNS.outcome], constants[:, COLUMNS.slack]
        a, c = constants[:, COLUMNS.curvature], constants[:, COLUMNS.height]
        magnitude = pt.abs(psi)
        log_2cosh = 0.5 * magnitude + pt.log1p(pt.exp(-magnitude))
        gap = (y + pt.exp(log_alpha)) * (a * pt.sqr(psi) - c - log_2cosh)
        return (gap * constants[:, COLUMNS.weight] if likelihood.row_data else gap) + slack


def _quadratic(xi: np.ndarray) -> np.ndarray:
    """Coefficients (a, c) of the bound ``c - a psi^2`` on ``-log 2 cosh(psi/2)``, shape (2, n)."""
    lam = curvature(xi)
    return np.stack([lam, lam * xi**2 - log_2cosh_half(xi)])
