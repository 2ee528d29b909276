"""Passes over all rows, in blocks that fit the cache: set-up work."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt

from pymc_flymc.block_matrix import BlockMatrix, SparseRows
from pymc_flymc.design import Design
from pymc_flymc.likelihoods import ExplicitLikelihood, Likelihood, SmoothedLikelihood, outcome
from pymc_flymc.statistics import QuadraticStatistics

__all__ = ["BLOCK", "ROUNDING", "RowDerivatives", "iterate_rows", "likelihood_pass"]

#: Rows in a block.
BLOCK = 8192
#: How much kinks are rounded off where nothing is known of the posterior, in scales.
ROUNDING = 0.3


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
    for start in range(0, design.n_rows, BLOCK * stride):
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


class Derivatives(NamedTuple):
    """Log-likelihoods of n rows, and their derivatives in K predictors and S nuisance parameters.

    Attributes
    ----------
    value : ndarray, shape (n,)
    first : ndarray, shape (K, n)
    second : ndarray, shape (K, K, n)
    mixed : ndarray, shape (K, S, n)
    nuisance_first : ndarray, shape (S,)
        Summed over rows, like the next.
    nuisance_second : ndarray, shape (S, S)
    """

    value: np.ndarray
    first: np.ndarray
    second: np.ndarray
    mixed: np.ndarray
    nuisance_first: np.ndarray
    nuisance_second: np.ndarray


class RowDerivatives:
    """Log-likelihood of each row with its first two derivatives in the row's arguments.

    The derivatives come from the likelihood's own graph, unless it brings them along; PyTensor
    compiles them for a family, not for a model, and keeps them on disk. Kinks are rounded off, by
    as much as a last column of the observed values says, or else by `ROUNDING`.
    """

    def __init__(self, likelihood: Likelihood) -> None:
        self._sizes = k, s = likelihood.n_predictors, len(likelihood.nuisances)
        self._explicit = likelihood if isinstance(likelihood, ExplicitLikelihood) else None
        if self._explicit is not None:
            return
        etas = [pt.vector(f"eta_{i}", dtype="float64") for i in range(k)]
        # One number for all rows: what depends on nuisance parameters alone is computed once.
        nuisances = [pt.vector(f"nuisance_{i}", dtype="float64", shape=(1,)) for i in range(s)]
        y = [pt.vector(name, dtype="float64") for name in ("y", *likelihood.row_data)]
        arguments = [*etas, *nuisances]
        if isinstance(likelihood, SmoothedLikelihood):
            rounding = pt.vector("rounding", dtype="float64")
            value = likelihood.smoothed(arguments, outcome(likelihood, y), rounding)
            y.append(rounding)
        else:
            value = likelihood.log_likelihood(arguments, outcome(likelihood, y))
        first: Any = pytensor.grad(value.sum(), arguments)

        def second(i: int, j: int) -> Any:
            wrt = (etas + nuisances)[j]
            return pytensor.grad(first[i].sum(), wrt, disconnected_inputs="ignore")

        outputs = [value, *first]
        outputs += [second(i, j) for i in range(k) for j in range(i, k)]
        outputs += [second(k + j, i) for i in range(k) for j in range(s)]
        outputs += [second(k + i, k + j) for i in range(s) for j in range(s)]
        self._inputs, self._outputs = [*arguments, *y], outputs
        self._n_columns = len(y)
        self._third: Any = None
        with warnings.catch_warnings():  # of the trigamma function, which numba does not know
            warnings.filterwarnings("ignore", message="Numba will use object mode")
            self._function = pytensor.function(
                self._inputs, outputs, mode="NUMBA", trust_input=True
            )

    def third(self, arguments: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Third derivatives of a likelihood with one argument, shape (n,)."""
        if self._third is None:
            third: Any = pytensor.grad(self._outputs[-1].sum(), self._inputs[0])
            self._third = pytensor.function(self._inputs, third, mode="NUMBA")
        return np.asarray(self._third(*arguments, *_columns(y)))

    def __call__(self, arguments: np.ndarray, y: np.ndarray) -> Derivatives:
        """Evaluate for arguments of shape (K + S, n), the last S rows of which are constant."""
        k, s = self._sizes
        n = len(y)
        if self._explicit is not None:
            value, first, second = self._explicit.derivatives(arguments, y)
            none = np.empty((k, 0, n)), np.empty(0), np.empty((0, 0))
            return Derivatives(value, first, second, *none)
        columns = _columns(y)
        if len(columns) < self._n_columns:
            columns.append(np.full(n, ROUNDING))
        nuisances = [v[:1] for v in arguments[k:]]
        values = iter(self._function(*arguments[:k], *nuisances, *columns))
        out = Derivatives(
            next(values),
            np.empty((k, n)),
            np.empty((k, k, n)),
            np.empty((k, s, n)),
            np.empty(s),
            np.empty((s, s)),
        )
        for i in range(k):
            out.first[i] = next(values)
        for j in range(s):
            out.nuisance_first[j] = next(values)[0]
        for i in range(k):
            for j in range(i, k):
                out.second[i, j] = out.second[j, i] = next(values)
        for i in range(k):
            for j in range(s):
                out.mixed[i, j] = next(values)
        for i in range(s):
            for j in range(s):
                out.nuisance_second[i, j] = next(values)[0]
        return out


def _columns(y: np.ndarray) -> list[np.ndarray]:
    """Columns of observed values of shape (n,) or (n, C), each contiguous."""
    return list(np.ascontiguousarray(np.atleast_2d(y.T), dtype=np.float64))


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
