"""Passes over all rows, in blocks that fit the cache: set-up work."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from pymc_flymc.regression.block_matrix import BlockMatrix, SparseRows
from pymc_flymc.regression.derivatives import RowDerivatives
from pymc_flymc.regression.design import Design
from pymc_flymc.regression.expansion import LikelihoodExpansion
from pymc_flymc.reporting import reading
from pymc_flymc.threads import in_order

__all__ = [
    "BLOCK",
    "add_up",
    "blocks_of",
    "iterate_rows",
    "likelihood_pass",
    "map_rows",
    "sum_rows",
]

#: Rows in a block.
BLOCK = 8192


#: Row numbers, these rows, their arguments and their observed values.
Rows = tuple[slice, Any, np.ndarray, np.ndarray]


def iterate_rows(design: Design, y: np.ndarray, w: np.ndarray, stride: int = 1) -> Iterator[Rows]:
    """Yield ``(rows, x, arguments, y)``: row numbers, these rows, their arguments at w, outcomes.

    The rows are in float64, shape (n, P), with the intercept's column of ones: an array, or
    `SparseRows` if the design is structured. The arguments are predictors and nuisance parameters,
    shape (K + S, n). Whatever is done to the latter lasts until the next block only; the former may
    be the user's own memory.

    Parameters
    ----------
    design : Design
        Of rows that are out of core a sample is yielded, for strides above one.
    y : ndarray, shape (N,) or (N, 1 + R)
        Observed values.
    w : ndarray, shape (K P + S,)
        Coefficients.
    stride : int
        Take every stride-th row only.
    """
    design, y, stride = _at_hand(design, y, stride)
    for start in reading(_starts(design, stride), design.n_rows, stride, design):
        yield _block(design, y, w, start, stride)


def map_rows[R](
    design: Design,
    y: np.ndarray,
    w: np.ndarray,
    work: Callable[[slice, Any, np.ndarray, np.ndarray], R],
    stride: int = 1,
) -> Iterator[R]:
    """Yield ``work(rows, x, arguments, y)`` for each block of `iterate_rows`, by several threads.

    Results come in the order of the rows: what they add up to does not depend on the threads.
    """
    design, y, stride = _at_hand(design, y, stride)
    starts = _starts(design, stride)
    return in_order(
        lambda start: work(*_block(design, y, w, start, stride)),
        reading(starts, design.n_rows, stride, design),
        len(starts),
        # Their blocks are as large as the statistics: one at a time.
        threaded=not design.structured,
    )


def sum_rows(
    design: Design,
    y: np.ndarray,
    w: np.ndarray,
    work: Callable[[slice, Any, np.ndarray, np.ndarray], tuple[Any, ...]],
    stride: int = 1,
) -> tuple[Any, ...]:
    """Add up what ``work`` returns for each block of `map_rows`: tuples of numbers or arrays.

    Rows that are out of core are read, and added up, where they are stored. The work knows them by
    what it is handed: row numbers are those within a chunk.
    """
    if design.stored is not None and stride == 1:
        return add_up(design.stored.sums(functools.partial(_work_on_blocks, w, work)))
    return add_up(map_rows(design, y, w, work, stride))


def _work_on_blocks[R](
    w: np.ndarray, work: Callable[..., R], design: Design, y: np.ndarray
) -> Iterator[R]:
    return (work(*block) for block in blocks_of(design, y, w))


def blocks_of(design: Design, y: np.ndarray, w: np.ndarray) -> Iterator[Rows]:
    """Yield the blocks of rows in memory, as `iterate_rows`, without a word."""
    return (_block(design, y, w, start, 1) for start in _starts(design, 1))


def add_up(parts: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Add up tuples, element by element."""
    return functools.reduce(lambda a, b: tuple(x + y for x, y in zip(a, b, strict=True)), parts)


def _at_hand(design: Design, y: np.ndarray, stride: int) -> tuple[Design, np.ndarray, int]:
    """Return a design in memory: of rows that are out of core, that of a sample."""
    if design.stored is None:
        return design, y, stride
    sample = design.stored.sample(stride)
    return sample.design, sample.y, 1


def _starts(design: Design, stride: int) -> range:
    return range(0, design.n_rows, BLOCK * stride)


def _block(design: Design, y: np.ndarray, w: np.ndarray, start: int, stride: int) -> Rows:
    k, width = design.n_predictors, design.width
    weights, nuisances = w[: k * width].reshape(k, width), w[k * width :]
    n_full = width - design.n_sparse
    rows = slice(start, min(start + BLOCK * stride, design.n_rows), stride)
    part = design.X[rows]
    arguments = np.empty((k + len(nuisances), len(part)))
    x: Any = part
    if part.dtype != np.float64 or stride > 1 or part.shape[1] < width:
        x = np.empty((len(part), n_full if design.structured else width))
        x[:, : part.shape[1]] = part
        x[:, part.shape[1] : n_full] = 1.0
    if design.structured:
        x = SparseRows(x, design.sparse[rows].csr())
        arguments[:k] = (x @ weights.T).T
    else:
        if design.n_sparse:
            x[:, n_full:] = design.sparse[rows].csr().toarray()
        np.matmul(weights, x.T, out=arguments[:k])
    if design.offset.size:
        arguments[:k] += design.offset[rows].T
    arguments[k:] = nuisances[:, None]
    return rows, x, arguments, y[rows]


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
    spans = [slice(i * width, (i + 1) * width) for i in range(k)]

    def expand(
        rows: slice, x: np.ndarray, arguments: np.ndarray, y: np.ndarray
    ) -> tuple[int, float, np.ndarray, np.ndarray]:
        of = derivatives(arguments, y)
        gradient, information = (
            np.concatenate([(of.first @ x).ravel(), of.nuisance_first]),
            np.zeros((n, n)),
        )
        information[k * width :, k * width :] = -of.nuisance_second
        for i, a in enumerate(spans):
            information[a, k * width :] = -(x.T @ of.mixed[i].T)
            for j in range(i + 1, k):
                information[a, spans[j]] = -_weighted_squares(x, of.second[i, j])
            # Whatever its sign: the remainders of rows are those of these very expansions.
            information[a, a] = _weighted_squares(x, -of.second[i, i])
        return len(y), float(of.value.sum()), gradient, information

    n_read, value, gradient, information = sum_rows(design, y, w, expand, stride)
    scale = design.n_rows / n_read
    upper = np.triu(information)
    information = scale * (upper + np.triu(information, 1).T)
    return LikelihoodExpansion(value * scale, gradient * scale, information, w)


def _weighted_squares(x: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Return sum_n a_n x_n x_n'."""
    # Rows that are all but certain underflow to subnormal numbers, on which products crawl.
    a = np.where(np.abs(a) > 1e-200, a, 0.0)
    for sign in (1.0, -1.0):
        if np.all(sign * a >= 0.0):
            # The same array twice: BLAS computes one triangle only.
            root = x * np.sqrt(sign * a)[:, None]
            return np.asarray(sign * (root.T @ root))
    return np.asarray(x.T @ (x * a[:, None]))


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
    for _, x, arguments, of_rows in iterate_rows(design, y, w, stride):
        of = derivatives(arguments, of_rows)
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
