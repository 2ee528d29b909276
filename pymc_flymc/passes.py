"""Passes over all rows, in blocks that fit the cache: set-up work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt

from pymc_flymc.design import Design
from pymc_flymc.likelihoods import Likelihood
from pymc_flymc.statistics import QuadraticStatistics

__all__ = ["BLOCK", "RowDerivatives", "iterate_rows", "likelihood_pass"]

#: Rows in a block.
BLOCK = 8192


def iterate_rows(
    design: Design, w: np.ndarray, stride: int = 1
) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Yield ``(rows, x, eta)``: a slice of row numbers, these rows and their predictors at w.

    The rows are in float64, shape (n, P), with the intercept's column of ones. Whatever is done to
    x lasts until the next block only.

    Parameters
    ----------
    design : Design
    w : ndarray, shape (P,)
        Coefficients.
    stride : int
        Take every stride-th row only.
    """
    buffer = np.empty((BLOCK, design.n_coefficients))
    for start in range(0, design.n_rows, BLOCK * stride):
        rows = slice(start, min(start + BLOCK * stride, design.n_rows), stride)
        part = design.X[rows]
        x = buffer[: len(part)]
        x[:, : part.shape[1]] = part
        x[:, part.shape[1] :] = 1.0
        eta = x @ w
        if design.offset.size:
            eta += design.offset[rows]
        yield rows, x, eta


class RowDerivatives:
    """Log-likelihood of each row with its first two derivatives in the predictor.

    The derivatives come from the likelihood's own graph; PyTensor compiles them for a family, not
    for a model, and keeps them on disk.
    """

    def __init__(self, likelihood: Likelihood) -> None:
        eta = pt.vector("eta", dtype="float64")
        y = pt.vector("y", dtype="float64")
        value = likelihood.log_likelihood(eta, y)
        first: Any = pytensor.grad(value.sum(), eta)
        second: Any = pytensor.grad(first.sum(), eta)
        self._inputs, self._second = (eta, y), second
        self._third: Any = None
        self._function = pytensor.function(
            [eta, y], [value, first, second], mode="NUMBA", trust_input=True
        )

    def third(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Third derivatives, shape (n,)."""
        if self._third is None:
            third: Any = pytensor.grad(self._second.sum(), self._inputs[0])
            self._third = pytensor.function([*self._inputs], third, mode="NUMBA")
        return np.asarray(self._third(eta, y.astype(np.float64)))

    def __call__(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values, first and second derivatives, each of shape (n,)."""
        value, first, second = self._function(eta, y.astype(np.float64))
        return value, first, second


@dataclass(frozen=True)
class LikelihoodExpansion:
    """Log-likelihood of all rows around coefficients w, to second order.

    Attributes
    ----------
    value : float
        Log-likelihood at w.
    gradient : ndarray, shape (P,)
    information : ndarray, shape (P, P)
        Minus the Hessian.
    w : ndarray, shape (P,)
    """

    value: float
    gradient: np.ndarray
    information: np.ndarray
    w: np.ndarray

    def pack(self) -> np.ndarray:
        """Return the expansion as the statistics of a collapsed quadratic."""
        statistics = QuadraticStatistics(self.w)
        statistics.constant = self.value
        statistics.linear = self.gradient
        statistics.curvature = 0.5 * self.information
        return statistics.pack()


def likelihood_pass(
    design: Design, y: np.ndarray, derivatives: RowDerivatives, w: np.ndarray, stride: int = 1
) -> LikelihoodExpansion:
    """Expand the log-likelihood around w in one pass over the data.

    Parameters
    ----------
    stride : int
        Use every stride-th row, and scale up.
    """
    n = design.n_coefficients
    value, gradient, information = 0.0, np.zeros(n), np.zeros((n, n))
    scale = design.n_rows / len(range(0, design.n_rows, stride))
    for rows, x, eta in iterate_rows(design, w, stride):
        phi, first, second = derivatives(eta, y[rows])
        value += float(phi.sum())
        gradient += first @ x
        # Rows that are all but certain underflow to subnormal numbers, on which products crawl.
        x *= np.sqrt(np.where(second < -1e-200, -second, 0.0))[:, None]
        information += x.T @ x
    return LikelihoodExpansion(value * scale, gradient * scale, information * scale, w)
