"""Native access to the rows of the data: the one place where likelihoods are read and counted."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit, types

from pymc_flymc.native import call_log_factor, matrix, named_tuple_type, vector

__all__ = ["CHUNK", "Rows", "Scratch", "log_factors", "make_scratch", "rows_type", "scratch_type"]

#: Rows handed to a bound in one call: large enough to hide the call, small enough for the L1 cache.
CHUNK = 256


class Rows(NamedTuple):
    """The data as a kernel sees them.

    Attributes
    ----------
    X : ndarray, shape (N, P), float64 or float32
        Dense part of the design.
    offset : ndarray, shape (N, K) or (0, K), float64
        K is the number of predictors.
    intercept : int
        1 if each predictor has a further coefficient that multiplies one, else 0.
    constants : ndarray, shape (N, R), float64
        What the row's bound needs to know beside its predictor.
    """

    X: np.ndarray
    offset: np.ndarray
    intercept: int
    constants: np.ndarray


class Scratch(NamedTuple):
    """Buffers of one chain, and its counter of likelihood queries (one int64).

    The predictors of some rows are in `eta`, shape (CHUNK, K).
    """

    eta: np.ndarray
    constants: np.ndarray
    queries: np.ndarray


def make_scratch(n_predictors: int, n_constants: int) -> Scratch:
    """Buffers for rows with so many predictors and constants each."""
    eta, constants = np.empty((CHUNK, n_predictors)), np.empty((CHUNK, n_constants))
    return Scratch(eta, constants, np.zeros(1, np.int64))


def rows_type(dtype: np.dtype) -> types.Type:
    """Numba type of `Rows` whose design has the given dtype."""
    element: Any = types.float32 if dtype == np.float32 else types.float64
    # Data are shared between chains and may be a read-only map: kernels promise not to write.
    return named_tuple_type(
        Rows,
        {
            "X": types.Array(element, 2, "C", readonly=True),
            "offset": types.Array(types.float64, 2, "C", readonly=True),
            "intercept": types.int64,
            "constants": types.Array(types.float64, 2, "C", readonly=True),
        },
    )


def scratch_type() -> types.Type:
    """Numba type of `Scratch`."""
    return named_tuple_type(
        Scratch, {"eta": matrix, "constants": matrix, "queries": vector(types.int64)}
    )


@njit(fastmath={"reassoc", "contract", "nsz"})
def dot(x, w, start, n):
    """x[:n] . w[start:][:n] in double precision, in whatever order suits the vector unit."""
    total = 0.0
    for j in range(n):
        total += x[j] * w[start + j]
    return total


@njit
def shared_part(rows, w):
    """Return what all rows share, behind the coefficients: nuisance parameters, bound's own."""
    return w[rows.offset.shape[1] * (rows.X.shape[1] + rows.intercept) :]


@njit
def log_factors(rows, log_factor, w, index, start, stop, out, scratch):
    """Write the log factors of rows index[start:stop] to out[start:stop], and count the queries.

    Every likelihood that any kernel reads is read here, so that no caller can forget to count it.
    """
    n_columns = rows.X.shape[1]
    n_predictors, n_constants = rows.offset.shape[1], rows.constants.shape[1]
    shared = shared_part(rows, w)
    while start < stop:
        size = min(stop - start, CHUNK)
        for i in range(size):
            n = index[start + i]
            for k in range(n_predictors):
                place = k * (n_columns + rows.intercept)
                eta = dot(rows.X[n], w, place, n_columns)
                if rows.intercept == 1:
                    eta += w[place + n_columns]
                if rows.offset.shape[0] > 0:
                    eta += rows.offset[n, k]
                scratch.eta[i, k] = eta
            for r in range(n_constants):
                scratch.constants[i, r] = rows.constants[n, r]
        call_log_factor(
            log_factor,
            scratch.eta[:size],
            scratch.constants[:size],
            shared,
            out[start : start + size],
        )
        scratch.queries[0] += size
        start += size
