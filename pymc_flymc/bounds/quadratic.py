"""Bounds that are quadratic in the predictor: their collapsed product and its statistics."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from pymc_flymc.bounds.base import Preparation, Problem
from pymc_flymc.native import NativeFunction
from pymc_flymc.passes import iterate_rows
from pymc_flymc.statistics import QuadraticStatistics

__all__ = ["QuadraticBound", "prepare_quadratic"]


class QuadraticBound(Protocol):
    """``log B_n = c_n + b_n eta_n - a_n eta_n^2 - slack_n``."""

    #: Slack in units of a row's expected gap: every log B_n is lowered by this much.
    slack: float
    n_constants: int

    def tightness(self, eta_anchor: np.ndarray, rows: slice) -> np.ndarray:
        """Where each row's bound touches: one parameter a row, shape (n,), float64."""

    def coefficients(
        self, tightness: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Coefficients (a, b, c) of each row's log bound without slack, each of shape (n,)."""

    def constants(self, tightness: np.ndarray, y: np.ndarray, slack: np.ndarray) -> np.ndarray:
        """All that the gap depends on beside the predictor, shape (n, R), float64."""


def prepare_quadratic(
    bound: QuadraticBound, problem: Problem, log_factor: NativeFunction
) -> Preparation:
    """Constants, expected brightness and statistics of all rows, in one pass over the data."""
    design, y, anchor = problem.design, problem.y, problem.anchor

    def gap(eta: np.ndarray, constants: np.ndarray) -> np.ndarray:
        out = np.empty(len(eta))
        log_factor(eta, constants, np.empty(0), out)
        return np.logaddexp(0.0, out)  # log odds = log(exp(gap) - 1)

    constants = np.empty((design.n_rows, bound.n_constants))
    bright = np.empty(design.n_rows, np.float32)
    statistics = QuadraticStatistics(anchor.w)
    for rows, x, eta in iterate_rows(design, anchor.w):
        # Mean over the Laplace law of eta by Gauss-Hermite quadrature with three nodes.
        reach = np.sqrt(3.0) * np.linalg.norm(x @ anchor.w_factor, axis=1)
        tightness = bound.tightness(eta, rows)
        tight = bound.constants(tightness, y[rows], np.zeros(len(eta)))
        middle, ends = gap(eta, tight), (gap(eta - reach, tight), gap(eta + reach, tight))
        spread = np.maximum(ends[0] + ends[1] - 2.0 * middle, 0.0) / 6.0
        slack = bound.slack * spread
        constants[rows] = bound.constants(tightness, y[rows], slack)
        bright[rows] = -np.expm1(-(middle + spread + slack))
        a, b, c = bound.coefficients(tightness, y[rows])
        # The very slack that the rows carry: the collapsed sum must be the sum over the rows.
        statistics.add(x, eta, a, b, c - slack)
    return Preparation(statistics.pack(), constants, bright)
