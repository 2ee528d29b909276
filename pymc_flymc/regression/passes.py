"""Passes over all rows, in blocks that fit the cache, for the set-up."""

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from pymc_flymc.regression.derivatives import RowDerivatives
from pymc_flymc.regression.design import Design
from pymc_flymc.regression.expansion import LikelihoodExpansion
from pymc_flymc.regression.matrices import RowMatrix
from pymc_flymc.reporting import reading
from pymc_flymc.threads import in_order

#: A slice of rows, these rows, their arguments and their observed values.
Block = tuple[slice, RowMatrix, np.ndarray, np.ndarray]


def iterate_rows(design: Design, y: np.ndarray, w: np.ndarray, stride: int = 1) -> Iterator[Block]:
    """Yield ``(rows, x, arguments, y)``: a slice, its rows, their arguments at w, outcomes.

    The arguments are predictors and nuisance parameters, shape (K + S, n). Changes to them last
    until the next block only; the rows may be the user's own memory.

    Parameters
    ----------
    design : Design
        For rows out of core and a stride above one, a sample is yielded.
    y : ndarray, shape (N,) or (N, 1 + R)
        Observed values.
    w : ndarray, shape (K P + S,)
        Coefficients.
    stride : int
        Yield every stride-th row only.
    """
    design, y, stride = _at_hand(design, y, stride)
    for start in reading(_starts(design, stride), design.n_rows, stride, design):
        yield _block(design, y, w, start, stride)


def map_rows[R](
    design: Design,
    y: np.ndarray,
    w: np.ndarray,
    work: Callable[[slice, RowMatrix, np.ndarray, np.ndarray], R],
    stride: int = 1,
) -> Iterator[R]:
    """Yield ``work(rows, x, arguments, y)`` for blocks of `iterate_rows`, by several threads."""
    # Results come in the order of the rows: their sum does not depend on the threads.
    design, y, stride = _at_hand(design, y, stride)
    starts = _starts(design, stride)
    return in_order(
        lambda start: work(*_block(design, y, w, start, stride)),
        reading(starts, design.n_rows, stride, design),
        len(starts),
        threaded=design.format.threaded,
    )


def sum_rows(
    design: Design,
    y: np.ndarray,
    w: np.ndarray,
    work: Callable[[slice, RowMatrix, np.ndarray, np.ndarray], tuple[Any, ...]],
    stride: int = 1,
) -> tuple[Any, ...]:
    """Return the sum of the tuples of all blocks of `map_rows`, computed where rows are stored."""
    if design.stored is not None and stride == 1:
        return add_up(design.stored.sums(functools.partial(_work_on_blocks, w, work)))
    return add_up(map_rows(design, y, w, work, stride))


def _work_on_blocks[R](
    w: np.ndarray, work: Callable[..., R], design: Design, y: np.ndarray
) -> Iterator[R]:
    return (work(*block) for block in blocks_of(design, y, w))


def blocks_of(design: Design, y: np.ndarray, w: np.ndarray) -> Iterator[Block]:
    """Yield the blocks of rows in memory, as `iterate_rows`, without progress messages."""
    return (_block(design, y, w, start, 1) for start in _starts(design, 1))


def add_up(parts: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the sum of tuples, element by element."""
    return functools.reduce(lambda a, b: tuple(x + y for x, y in zip(a, b, strict=True)), parts)


def _at_hand(design: Design, y: np.ndarray, stride: int) -> tuple[Design, np.ndarray, int]:
    """Return a design in memory, which is a sample of rows that are out of core."""
    if design.stored is None:
        return design, y, stride
    sample = design.stored.sample(stride)
    return sample.design, sample.y, 1


def _starts(design: Design, stride: int) -> range:
    return range(0, design.n_rows, design.format.block_rows * stride)


def _block(design: Design, y: np.ndarray, w: np.ndarray, start: int, stride: int) -> Block:
    k, width = design.n_predictors, design.width
    weights, nuisances = w[: k * width].reshape(k, width), w[k * width :]
    rows = slice(start, min(start + design.format.block_rows * stride, design.n_rows), stride)
    x = design.matrix(rows)
    arguments = np.empty((k + len(nuisances), len(x)))
    arguments[:k] = x.predictors(weights)
    if design.offset.size:
        arguments[:k] += design.offset[rows].T
    arguments[k:] = nuisances[:, None]
    return rows, x, arguments, y[rows]


def likelihood_pass(
    design: Design, y: np.ndarray, derivatives: RowDerivatives, w: np.ndarray, stride: int = 1
) -> LikelihoodExpansion:
    """Expand the log-likelihood around w in one pass over every stride-th row, scaled up."""

    def expand(rows: slice, x: RowMatrix, arguments: np.ndarray, y: np.ndarray) -> tuple[Any, ...]:
        of = derivatives(arguments, y)
        gradient = np.concatenate([(of.first @ x).ravel(), of.nuisance_first])
        # Curvature of any sign: the remainders of rows are the ones of these expansions.
        information = x.sandwich(-of.second)
        # An arrow cannot be made concave as a whole: rows are.
        convex, flattening = np.empty(0, np.int64), np.empty((*of.second.shape[:2], 0))
        if not x.written_out:
            convex, flattening = flattened(-of.second)
        mixed = np.concatenate([(-each @ x).T for each in of.mixed])
        few, missing = derivatives.missing_curvature(of, arguments, y)
        more = (
            x.taken(rows).sandwich(curvature) if len(rows) else 0
            for rows, curvature in ((few, missing), (convex, flattening))
        )
        own = -of.nuisance_second, of.explained()
        return len(y), of.value.sum(), gradient, information, mixed, *own, *more

    sums = sum_rows(design, y, w, expand, stride)
    n_read, value, gradient, information, mixed, own, explained, *more = sums
    if information.n_sparse:
        mixed, own = concave_border(mixed, own, explained)
    scale, information = design.n_rows / n_read, information.bordered(mixed, own)
    none = np.zeros_like(mixed), np.zeros_like(own)
    missing, flattening = (scale * each.bordered(*none) if each else None for each in more)
    return LikelihoodExpansion(
        value=float(value * scale),
        gradient=gradient * scale,
        information=scale * information,
        w=w,
        missing=missing,
        flattening=flattening,
    )


def flattened(information: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return indices (m,) of rows that are not concave, and what makes them so, (K, K, m).

    Added to their information, (K, K, n), it makes them flat where they are convex.
    """
    k = len(information)
    diagonal = np.einsum("iin->in", information)
    # Decompose only matrices whose elements beside the diagonal are too large for it.
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.sqrt(np.maximum(diagonal, 0.0))
        most = size[:, None] * size
        other = (k - 1) * np.abs(information) > most
    other[range(k), range(k)] = diagonal < 0.0
    places = np.flatnonzero(other.any(axis=(0, 1)))
    some = np.where(np.isfinite(information[:, :, places]), information[:, :, places], 0.0)
    if k == 1:
        return places, -some
    if k == 2:  # the same as below, in closed form, which takes less time
        mean, unit = 0.5 * (some[0, 0] + some[1, 1]), np.eye(k)[:, :, None]
        size = np.hypot(some[0, 0] - mean, some[0, 1])
        along = (some - mean * unit) / np.where(size > 0.0, size, 1.0)
        less, more = np.maximum(size - mean, 0.0), np.maximum(-size - mean, 0.0)
        return places, 0.5 * (less * (unit - along) + more * (unit + along))
    values, vectors = np.linalg.eigh(np.moveaxis(some, 2, 0))
    return places, np.einsum("nik,nk,njk->ijn", vectors, np.maximum(-values, 0.0), vectors)


def concave_border(
    mixed: np.ndarray, own: np.ndarray, explained: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return `mixed` (P, S) and `own` (S, S) such that an arrow is concave as a whole."""
    # It cannot be made concave later. If `mixed` explains more than there is of `own`, only a part
    # of it is returned: then the search for the mode takes a few more steps.
    none = np.zeros_like(mixed)
    if not np.all(np.isfinite(own)):
        return none, np.zeros_like(own)
    values, vectors = np.linalg.eigh(0.5 * (own + own.T))
    own = (vectors * np.maximum(values, 0.0)) @ vectors.T
    with suppress(np.linalg.LinAlgError):
        if own.size and np.all(np.isfinite(explained)):
            root = np.linalg.inv(np.linalg.cholesky(explained))
            least = np.linalg.eigvalsh(root @ own @ root.T)[0]
            return np.sqrt(np.clip(least, 0.0, 1.0)) * mixed, own
    return none, own
