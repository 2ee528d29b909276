"""Bounds of one predictor that are quadratic in it: the pass over the data that they share."""

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import pytensor.tensor as pt

from pymc_flymc.bounds.bound import Bound, Graph, Problem, row_factor
from pymc_flymc.graphs.compilation import compile_log_factor
from pymc_flymc.kernels.native import NativeFunction
from pymc_flymc.likelihoods.likelihood import Likelihood
from pymc_flymc.regression.expansion import QuadraticStatistics, collapsed_quadratic
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

    Attributes
    ----------
    constants : ndarray, shape (N, R), float64
    bright : ndarray, shape (N,), float32
        As in `Preparation`.
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
