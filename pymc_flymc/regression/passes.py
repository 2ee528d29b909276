"""Passes over all rows, in blocks that fit the cache: set-up work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pymc_flymc.regression.block_matrix import BlockMatrix, SparseRows
from pymc_flymc.regression.derivatives import RowDerivatives
from pymc_flymc.regression.design import Design
from pymc_flymc.regression.quadratic import QuadraticStatistics
from pymc_flymc.reporting import reading

__all__ = ["BLOCK", "LikelihoodExpansion", "iterate_rows", "likelihood_pass"]

#: Rows in a block.
BLOCK = 8192


def iterate_rows(
    design: Design, w: np.ndarray, stride: int = 1
) -> Iterator[tuple[slice, Any, np.ndarray]]:
    """Yield ``(rows, x, arguments)``: row numbers, these rows and their arguments at w.

    The rows are in float64, shape (n, P), with the intercept's column of ones: an array, or
    `SparseRows` if the design is structured. The arguments are predictors and nuisance parameters,
    shape (K + S, n). Whatever is done to either lasts until the next block only.

    Parameters
    ----------
    design : Design
    w : ndarray, shape (K P + S,)
        Coefficients.
    stride : int
        Take every stride-th row only.
    """
    k, width = design.n_predictors, design.width
    weights, nuisances = w[: k * width].reshape(k, width), w[k * width :]
    n_full, pairs = width - design.n_sparse, design.sparse
    buffer = np.empty((BLOCK, n_full if design.structured else width))
    for start in reading(range(0, design.n_rows, BLOCK * stride), design.n_rows, stride, design):
        rows = slice(start, min(start + BLOCK * stride, design.n_rows), stride)
        part = design.X[rows]
        x: Any = buffer[: len(part)]
        x[:, : part.shape[1]] = part
        x[:, part.shape[1] : n_full] = 1.0
        arguments = np.empty((k + len(nuisances), len(part)))
        if pairs is not None and design.structured:
            x = SparseRows(x, pairs[rows])
            arguments[:k] = (x @ weights.T).T
        else:
            if pairs is not None:
                x[:, n_full:] = pairs[rows].toarray()
            np.matmul(weights, x.T, out=arguments[:k])
        if design.offset.size:
            arguments[:k] += design.offset[rows].T
        arguments[k:] = nuisances[:, None]
        yield rows, x, arguments


@dataclass(frozen=True)
class LikelihoodExpansion:
    """Log-likelihood of all rows around coefficients w, to second order.

    Attributes
    ----------
    value : float
        Log-likelihood at w.
    gradient : ndarray, shape (P,)
    information : ndarray or BlockMatrix, shape (P, P)
        Minus the Hessian.
    w : ndarray, shape (P,)
    """

    value: float
    gradient: np.ndarray
    information: Any
    w: np.ndarray

    def pack(self) -> np.ndarray:
        """Return the expansion as the statistics of a collapsed quadratic."""
        statistics = QuadraticStatistics(self.w)
        statistics.constant = self.value
        statistics.linear = self.gradient
        if isinstance(self.information, BlockMatrix):
            statistics.curvature = self.information.scaled(0.5)
        else:
            statistics.curvature = 0.5 * self.information
        return statistics.pack()

    def concave(self) -> LikelihoodExpansion:
        """Return the expansion with the curvature's sign changed where it is not concave.

        Then it has a maximum, and no direction in which it rises for ever.
        """
        if isinstance(self.information, BlockMatrix) or not np.all(np.isfinite(self.information)):
            return self
        values, vectors = np.linalg.eigh(self.information)
        return replace(self, information=(vectors * np.abs(values)) @ vectors.T)

    def without_rows(self) -> LikelihoodExpansion:
        """Return the expansion of a constant."""
        if isinstance(self.information, BlockMatrix):
            nothing: Any = self.information.scaled(0.0)
        else:
            nothing = np.zeros_like(self.information)
        return LikelihoodExpansion(0.0, np.zeros_like(self.gradient), nothing, self.w)


def likelihood_pass(
    design: Design, y: np.ndarray, derivatives: RowDerivatives, w: np.ndarray, stride: int = 1
) -> LikelihoodExpansion:
    """Expand the log-likelihood around w in one pass over the data.

    Parameters
    ----------
    stride : int
        Use every stride-th row, and scale up.
    """
    if design.structured:
        return _structured_pass(design, y, derivatives, w, stride)
    k, width, n = design.n_predictors, design.width, design.n_coefficients
    value, gradient, information = 0.0, np.zeros(n), np.zeros((n, n))
    scale = design.n_rows / len(range(0, design.n_rows, stride))
    spans = [slice(i * width, (i + 1) * width) for i in range(k)]
    for rows, x, arguments in iterate_rows(design, w, stride):
        of = derivatives(arguments, y[rows])
        value += float(of.value.sum())
        gradient[: k * width] += (of.first @ x).ravel()
        gradient[k * width :] += of.nuisance_first
        information[k * width :, k * width :] -= of.nuisance_second
        for i, a in enumerate(spans):
            information[a, k * width :] -= x.T @ of.mixed[i].T
            for j in range(i + 1, k):
                information[a, spans[j]] -= x.T @ (x * of.second[i, j][:, None])
        for i, a in enumerate(spans):
            # Rows that are all but certain underflow to subnormal numbers, on which products
            # crawl. The same array twice: BLAS computes one triangle only.
            curvature = -of.second[i, i]
            root = x * np.sqrt(np.where(curvature > 1e-200, curvature, 0.0))[:, None]
            information[a, a] += root.T @ root
    upper = np.triu(information)
    information = scale * (upper + np.triu(information, 1).T)
    return LikelihoodExpansion(value * scale, gradient * scale, information, w)


def _structured_pass(
    design: Design, y: np.ndarray, derivatives: RowDerivatives, w: np.ndarray, stride: int
) -> LikelihoodExpansion:
    """`likelihood_pass` for one predictor with many sparse columns.

    The mixed derivatives in coefficients and nuisance parameters are left out of the curvature,
    which is then concave if either part is: the search takes a few more steps at worst.
    """
    width, n, s = design.width, design.n_coefficients, design.n_nuisances
    value, gradient = 0.0, np.zeros(n)
    information = BlockMatrix(n, design.n_sparse, s)
    own, scale = np.zeros((s, s)), design.n_rows / len(range(0, design.n_rows, stride))
    for rows, x, arguments in iterate_rows(design, w, stride):
        of = derivatives(arguments, y[rows])
        value += float(of.value.sum())
        gradient[:width] += of.first[0] @ x
        gradient[width:] += of.nuisance_first
        own -= of.nuisance_second
        curvature = -of.second[0, 0]
        information.add_squares(x, np.where(curvature > 1e-200, curvature, 0.0))
    if s and np.all(np.isfinite(own)):
        values, vectors = np.linalg.eigh(0.5 * (own + own.T))
        last = information.start
        information.dense[last:, last:] = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return LikelihoodExpansion(value * scale, gradient * scale, information.scaled(scale), w)
