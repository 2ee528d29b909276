"""Bounds that are quadratic in the predictor: their collapsed product and its statistics."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from pymc_flymc.bounds.base import Preparation, Problem
from pymc_flymc.likelihoods import Likelihood
from pymc_flymc.native import NativeFunction
from pymc_flymc.passes import iterate_rows
from pymc_flymc.statistics import QuadraticStatistics

__all__ = ["QuadraticBound", "prepare_quadratic"]


class QuadraticBound(Protocol):
    """A bound whose log is a sum of a quadratic in the predictor and of products.

    The products are of numbers of the row alone, its *features*, and of functions of the nuisance
    parameters, which may multiply the quadratic, too.
    """

    #: Slack in units of a row's expected gap: every log B_n is lowered by this much.
    slack: float

    def n_constants(self, likelihood: Likelihood) -> int:
        """Columns of the table of constants."""

    def tightness(
        self, problem: Problem, rows: slice, arguments: np.ndarray, y: np.ndarray
    ) -> np.ndarray:
        """Where each row's bound touches: one parameter a row, shape (n,), float64.

        The arguments are those at the anchor, shape (A, n).
        """

    def coefficients(
        self, tightness: np.ndarray, y: np.ndarray, slack: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Coefficients (a, b, c) of the row's quadratic c + b eta - a eta^2, each of shape (n,)."""

    def features(self, tightness: np.ndarray, slack: np.ndarray) -> np.ndarray:
        """Features of which the sums over rows are needed, shape (F, n)."""

    def constants(self, tightness: np.ndarray, y: np.ndarray, slack: np.ndarray) -> np.ndarray:
        """All that the gap depends on beside the arguments, shape (n, R), float64."""


def prepare_quadratic(
    bound: QuadraticBound, problem: Problem, log_factor: NativeFunction
) -> Preparation:
    """Constants, expected brightness and statistics of all rows, in one pass over the data.

    The statistics are those of `QuadraticStatistics`, followed by the sums of the features.
    """
    design, anchor = problem.design, problem.anchor
    width = design.width
    nuisances = anchor.w[width:]

    def gap(eta: np.ndarray, constants: np.ndarray) -> np.ndarray:
        out = np.empty(len(eta))
        log_factor(eta[:, None], constants, nuisances, out)
        return np.logaddexp(0.0, out)  # log odds = log(exp(gap) - 1)

    constants = np.empty((design.n_rows, bound.n_constants(problem.likelihood)))
    bright = np.empty(design.n_rows, np.float32)
    statistics = QuadraticStatistics(anchor.w[:width], design.n_sparse * design.structured)
    sums: list[np.ndarray] = []
    for rows, x, arguments in iterate_rows(design, anchor.w):
        eta, y = arguments[0], problem.y[rows]
        # Mean over the Laplace law of eta by Gauss-Hermite quadrature with three nodes.
        reach = np.sqrt(3.0) * np.linalg.norm(x @ anchor.w_factor[:width], axis=1)
        tightness = bound.tightness(problem, rows, arguments, y)
        tight = bound.constants(tightness, y, np.zeros(len(eta)))
        middle, ends = gap(eta, tight), (gap(eta - reach, tight), gap(eta + reach, tight))
        spread = np.maximum(ends[0] + ends[1] - 2.0 * middle, 0.0) / 6.0
        slack = bound.slack * spread
        constants[rows] = bound.constants(tightness, y, slack)
        bright[rows] = -np.expm1(-(middle + spread + slack))
        # The very slack that the rows carry: the collapsed sum must be the sum over the rows.
        statistics.add(x, eta, *bound.coefficients(tightness, y, slack))
        sums.append(bound.features(tightness, slack).sum(axis=1))
    return Preparation(np.append(statistics.pack(), np.sum(sums, axis=0)), constants, bright)
