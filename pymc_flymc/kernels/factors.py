"""Log factors of rows: the one place where likelihoods are read and counted."""

from typing import NamedTuple

import numpy as np
from numba.extending import overload

from pymc_flymc.kernels.native import (
    IntVector,
    Matrix,
    call_log_factor,
    call_log_factor_gradient,
    kernel_part,
)
from pymc_flymc.kernels.rows import (
    Rows,
    SeveralRows,
    add_rows,
    are_several,
    parts_of,
    row_predictors,
    shared_part,
)

#: Log factor that marks a violated bound. (NaN marks a row whose factor cannot be computed, because
#: numbers overflow in the tails.)
VIOLATED = -1e300

#: Number of rows in a call of a bound: enough to hide the call, few enough for the L1 cache.
CHUNK = 256
#: Most multiplications in a product of matrices: BLAS would share more of them among threads.
ONE_THREAD = 1 << 18


class Scratch(NamedTuple):
    """Buffers of one chain for n rows, CHUNK or fewer, and its counters, arrays of one int64."""

    block: Matrix  #: The dense rows themselves, (n, P) or (0, P).
    eta: Matrix  #: Predictors, (n, K).
    constants: Matrix
    slopes: Matrix  #: Derivatives of the factors in the predictors, (n, K).
    queries: IntVector  #: Number of likelihood queries.
    #: Number of violated bounds; `violated` is the index of the last such row.
    violations: IntVector
    violated: IntVector
    #: Number of log ratios of densities that are NaN or +inf, and of log odds that are NaN.
    not_finite: IntVector


def make_scratch(n_predictors: int, n_constants: int, n_columns: int = 0) -> Scratch:
    """Return buffers for rows with at most this many predictors and constants.

    With `n_columns` dense columns there is room to multiply rows as a matrix.
    """
    n, n_block = CHUNK, 0
    if n_predictors > 1 and n_columns > 1:
        n = n_block = max(1, min(CHUNK, ONE_THREAD // (n_predictors * n_columns)))
    eta, constants = np.empty((n, n_predictors)), np.empty((n, n_constants))
    block = np.empty((n_block, n_columns))
    counters = (np.zeros(1, np.int64) for _ in range(4))
    return Scratch(block, eta, constants, np.empty_like(eta), *counters)


def scratch_for(rows: Rows | SeveralRows) -> Scratch:
    """Return buffers for all rows of a target."""
    first, *others = parts = parts_of(rows)
    return make_scratch(
        max(part.offset.shape[1] + part.n_sums for part in parts),
        max(part.constants.shape[1] for part in parts),
        # No products of matrices with sums, which follow the predictors in the same array.
        0 if others or first.n_sums else first.X.shape[1],
    )


@kernel_part
def gather_rows(rows, w, index, start, size, scratch):
    """Collect what the factors of rows index[start:start + size] need; count the queries."""
    # Every likelihood that any kernel reads is read here, so that no caller can forget to count it.
    row_predictors(rows, w, index, start, size, scratch.eta, scratch.block)
    for i in range(size):
        n = index[start + i] - rows.first
        for r in range(rows.constants.shape[1]):
            scratch.constants[i, r] = rows.constants[n, r]
    scratch.queries[0] += size


@kernel_part
def refuse_violations(index, start, stop, out, scratch):
    """Count violated bounds among the factors of rows index[start:stop]; make such rows dark."""
    for i in range(start, stop):
        if out[i] == VIOLATED:
            out[i] = -np.inf
            scratch.violations[0] += 1
            scratch.violated[0] = index[i]


@kernel_part
def nan_is_dark(log_odds, scratch):
    """Return log odds of being bright, or -inf if they are NaN, which is counted."""
    # The odds of bright rows are known. A dark row stays dark if its odds are not.
    if log_odds == log_odds:
        return log_odds
    scratch.not_finite[0] += 1
    return -np.inf


def _log_factors(rows, log_factor, w, index, start, stop, out, scratch):
    shared = shared_part(rows, w)
    while start < stop:
        size = min(stop - start, scratch.eta.shape[0])
        gather_rows(rows, w, index, start, size, scratch)
        call_log_factor(
            log_factor,
            scratch.eta[:size],
            scratch.constants[:size],
            shared,
            out[start : start + size],
        )
        refuse_violations(index, start, start + size, out, scratch)
        start += size


def _add_gradients(rows, log_factor_gradient, w, index, start, stop, out, gradient, scratch):
    # In chunks, so that a row of the design is still in the cache when its gradient is added.
    shared, slope = shared_part(rows, w), shared_part(rows, gradient)
    while start < stop:
        size = min(stop - start, scratch.eta.shape[0])
        gather_rows(rows, w, index, start, size, scratch)
        call_log_factor_gradient(
            log_factor_gradient,
            scratch.eta[:size],
            scratch.constants[:size],
            shared,
            out[start : start + size],
            scratch.slopes[:size],
            slope,
        )
        refuse_violations(index, start, start + size, out, scratch)
        add_rows(rows, index, start, size, scratch.slopes, gradient, scratch.block)
        start += size


_log_factors_of_one, _add_gradients_of_one = kernel_part(_log_factors), kernel_part(_add_gradients)


@kernel_part
def _end_of_run(part, index, start, stop):
    """Return the end of the run of rows of one likelihood, `part`, that begins at index[start]."""
    last = part.first + part.X.shape[0]
    while start < stop and part.first <= index[start] < last:
        start += 1
    return start


def _log_factors_of_several(rows, log_factor, w, index, start, stop, out, scratch):
    k = 0
    for part in rows.parts:
        own = w[rows.place[k] : rows.place[k + 1]]
        i = start
        while i < stop:
            j = _end_of_run(part, index, i, stop)
            _log_factors_of_one(part, log_factor[k], own, index, i, j, out, scratch)
            i = j + 1  # the row that ended the run belongs to another likelihood
        k += 1


def _add_gradients_of_several(
    rows, log_factor_gradient, w, index, start, stop, out, gradient, scratch
):
    k = 0
    for part in rows.parts:
        own = w[rows.place[k] : rows.place[k + 1]]
        slope = gradient[rows.place[k] : rows.place[k + 1]]
        i = start
        while i < stop:
            j = _end_of_run(part, index, i, stop)
            _add_gradients_of_one(
                part, log_factor_gradient[k], own, index, i, j, out, slope, scratch
            )
            i = j + 1
        k += 1


def log_factors(rows, log_factor, w, index, start, stop, out, scratch):
    """Write the log factors of rows index[start:stop] to out[start:stop]."""
    arguments = rows, log_factor, w, index, start, stop, out, scratch
    _choose_log_factors(*arguments)(*arguments)


@overload(log_factors)
def _choose_log_factors(rows, log_factor, w, index, start, stop, out, scratch):
    return _log_factors_of_several if are_several(rows) else _log_factors


def add_gradients(rows, log_factor_gradient, w, index, start, stop, out, gradient, scratch):
    """Write the log factors, as `log_factors`, and add their sum's gradient in w to `gradient`."""
    arguments = rows, log_factor_gradient, w, index, start, stop, out, gradient, scratch
    _choose_add_gradients(*arguments)(*arguments)


@overload(add_gradients)
def _choose_add_gradients(rows, log_factor_gradient, w, index, start, stop, out, gradient, scratch):
    return _add_gradients_of_several if are_several(rows) else _add_gradients
