r"""Metropolis updates of theta that brighten and darken rows, under a bound in parts.

With z held, the number of bright rows holds the scale of many small effects: rates grow with the
third power of tau, so that n bright rows reject changes of log tau beyond 1 / (3 sqrt(n)). Here z
changes with theta as much as the rates do. Let o and o' be the rates of a row at the state and at
the proposal, f and f' its log factors, and

.. math:: \epsilon = |e^{-o} - e^{-o'}|.

If the rate rises, a dark row turns bright with probability ``1 - exp(o - o')``, and a bright row
stays bright. If the rate falls, a dark row stays dark, and a bright row turns dark with probability
``epsilon / (epsilon + exp(f'))``. Each is the reverse of the other. By detailed balance a row that
is bright before or after contributes

.. math:: \frac{e^{f'}}{e^f + \epsilon} \quad\text{or}\quad \frac{e^{f'} + \epsilon}{e^f}

to the acceptance ratio if its rate rises or falls. A row that is dark before and after contributes
nothing, because its factor in the augmented density is ``exp(-o)``, see `dark_rates`. If remainders
change as rates do, each contribution is one, and the ratio is the posterior's, with z summed out.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from pymc_flymc.compat.numba import view
from pymc_flymc.kernels.brightness import brighten, darken, is_bright
from pymc_flymc.kernels.dark_rates import rate_of, take_dark
from pymc_flymc.kernels.factors import log_factors
from pymc_flymc.kernels.layout import PARTS_ROW, PARTS_SHARED
from pymc_flymc.kernels.native import kernel, kernel_part, read_only, record_type, row_part, vector
from pymc_flymc.kernels.posterior import (
    accept_theta,
    conditional_metropolis,
    conditional_update,
    finite_or_minus_inf,
    is_same,
    log_density_at,
)
from pymc_flymc.kernels.rows import (
    NO_COLUMNS,
    Rows,
    RowsOfColumns,
    are_several,
    bound_part,
    effect_at,
    n_effects,
    weight_of_effects,
)

#: Largest sum of the changes of all rates. Beyond it contributions to the acceptance ratio vary so
#: much that moves are rarely accepted: they are rejected before any row is read.
MOST_ADJUSTED = 256.0


def rows_of_columns(rows: Rows) -> RowsOfColumns:
    """Return which rows have which sparse columns, under a bound in parts: O(N)."""
    if rows.n_sums == 0 or rows.n_sparse == 0:
        return NO_COLUMNS
    first = np.zeros(rows.n_sparse + 1, np.int64)
    near, beyond = np.zeros((2, rows.n_sums // 2 * rows.n_sparse))
    fill = _columns_kernel(rows.X.dtype)
    fill(rows, first, near, beyond, np.empty(0, np.int32))
    first = np.concatenate([[0], np.cumsum(first[:-1])])
    found = np.empty(first[-1], np.int32)
    fill(rows, first[:-1].copy(), near, beyond, found)
    return RowsOfColumns(first, read_only(found), near, beyond)


@functools.cache
def _columns_kernel(dtype: np.dtype) -> Callable[..., Any]:
    integers = vector(types.int64), vector(types.int32)

    @kernel(types.void(record_type(Rows, dtype), integers[0], vector(), vector(), integers[1]))
    def fill(rows, place, near, beyond, found):
        # Count the rows of each column, or write them from a place on, and the largest multipliers.
        rows = view(rows)
        for i in range(rows.X.shape[0]):
            if rows.constants[i, PARTS_ROW.near] == np.inf:  # always bright
                continue
            for j in range(n_effects(rows, i)):
                column, size = effect_at(rows, i, j)
                if found.shape[0] > 0:
                    found[place[column]] = i
                place[column] += 1
                for k in range(rows.offset.shape[1]):
                    own, at = size * weight_of_effects(rows, i, k), k * rows.n_sparse + column
                    near[at] = max(near[at], rows.constants[i, PARTS_ROW.near] * own)
                    beyond[at] = max(beyond[at], rows.constants[i, PARTS_ROW.beyond] * own)

    return fill  # type: ignore[no-any-return]


@kernel_part
def _rates(rows, w, index, size):
    """Return the rates of rows index[:size]."""
    # A call for few rows: rates that are inlined take long to compile.
    rates = np.empty(size)
    for i in range(size):
        rates[i] = rate_of(rows, w, index[i])
    return rates


@kernel_part
def _times_rise(number, before, after):
    """Return a number times the rise of a power, NaN if the rise is."""
    change = after - before
    return 0.0 if number == 0.0 or change <= 0.0 else number * change


@kernel_part
def _rise(rows, columns, column, w, w_new):
    """Return a limit on the rise of the rate of a row by one of its columns."""
    before = bound_part(rows, w)[PARTS_SHARED.effects :]
    after = bound_part(rows, w_new)[PARTS_SHARED.effects :]
    total, n = 0.0, columns.near.shape[0]
    for k in range(rows.offset.shape[1]):
        at = k * rows.n_sparse + column
        total += _times_rise(columns.near[at], before[at], after[at])
        total += _times_rise(columns.beyond[at], before[n + at], after[n + at])
    return total


@kernel_part
def _total_rise(rows, columns, w, w_new):
    """Return a limit on the sum of all rises of rates; NaN if a power is."""
    total = 0.0
    for column in range(rows.n_sparse):
        size = columns.first[column + 1] - columns.first[column]
        total += size * _rise(rows, columns, column, w, w_new)
    return total


@kernel_part
def _is_adjusted(rows, columns, w, w_new):
    """Return whether z is to change with theta: if rates change by powers of effects alone."""
    # Symmetric in state and proposal, as the choice between two kinds of a move must be.
    if columns.near.shape[0] == 0 or is_same(w_new, w):
        return False
    before, after = bound_part(rows, w), bound_part(rows, w_new)
    for place in (PARTS_SHARED.near, PARTS_SHARED.beyond):
        if not abs(after[place] - before[place]) <= 1e-12 * max(after[place], before[place]):
            return False
    return True


@kernel_part
def _limit_of_row(rows, columns, n, w, w_new):
    """Return the sum of `_rise` over the columns of row n."""
    total = 0.0
    for j in range(n_effects(rows, n)):
        total += _rise(rows, columns, effect_at(rows, n, j)[0], w, w_new)
    return total


@kernel_part
def _brighten_some(rng, rows, columns, w, w_new, bright):
    """Brighten each dark row with the probability 1 - exp(-rise of its rate), without its factor.

    Proposals are the events of a Poisson process along the rows of each column, as in
    `sweeps.sweep_groups`. They are thinned to the column's share of the row's rise.
    """
    wait = rng.standard_exponential()
    for column in range(rows.n_sparse):
        place, stop = columns.first[column], columns.first[column + 1]
        most = _rise(rows, columns, column, w, w_new)
        while wait < most * (stop - place):
            place += min(int(wait / most), stop - place - 1)  # the quotient is rounded
            n = columns.row[place]
            row = columns.row[place : place + 1]
            place += 1
            wait = rng.standard_exponential()
            if is_bright(bright, n):  # from the start, or by another column
                continue
            rise = max(_rates(rows, w_new, row, 1)[0] - _rates(rows, w, row, 1)[0], 0.0)
            rise *= most / _limit_of_row(rows, columns, n, w, w_new)
            if rng.random() < np.expm1(-rise) / np.expm1(-most):
                brighten(bright, n, 0.0)
        wait -= most * (stop - place)


@row_part
def _excess(lower, higher):
    """Return exp(-lower) - exp(-higher) of two rates."""
    return -np.exp(-lower) * np.expm1(lower - higher) if lower < np.inf else 0.0


@row_part
def _log_of_sum(log_factor, excess):
    """Return log(exp(log_factor) + excess)."""
    if excess == 0.0:
        return log_factor
    log_excess = np.log(excess)
    return max(log_factor, log_excess) + np.log1p(np.exp(-abs(log_factor - log_excess)))


@kernel_part
def _log_ratio_of_rows(rates, rates_new, chain, bright):
    """Return the log of the contributions of all rows that are bright before or after."""
    total = 0.0
    for i in range(bright.count[0]):
        before, after = bright.log_factor[i], chain.log_factor_new[i]
        if rates_new[i] >= rates[i]:
            total += after - _log_of_sum(before, _excess(rates[i], rates_new[i]))
        else:
            total += _log_of_sum(after, _excess(rates_new[i], rates[i])) - before
    return total


@kernel_part
def _darken_some(rng, rates, rates_new, chain, bright):
    """Darken bright rows whose rates fall, as z of an accepted proposal requires."""
    for i in range(bright.count[0] - 1, -1, -1):
        after = bright.log_factor[i] = chain.log_factor_new[i]
        if rates_new[i] < rates[i]:
            excess = _excess(rates_new[i], rates[i])
            if rng.random() < excess / (excess + np.exp(after)):
                darken(bright, i)


def _conditional_update(rng, log_correction, rows, posterior, chain, bright, scratch):
    return conditional_update(rng, log_correction, posterior, chain, bright, scratch)


def _adjusted_update(rng, log_correction, rows, posterior, chain, bright, scratch):
    columns, w, w_new = posterior.columns, chain.w, chain.w_new
    log_density = log_density_at(posterior, chain)
    if not _is_adjusted(rows, columns, w, w_new):
        return conditional_metropolis(
            rng, log_density, log_correction, posterior, chain, bright, scratch
        )[1]
    log_ratio = finite_or_minus_inf(log_correction + log_density - chain.log_density[0], scratch)
    both = _total_rise(rows, columns, w, w_new) + _total_rise(rows, columns, w_new, w)
    if not (both <= MOST_ADJUSTED and log_ratio > -np.inf):
        return 0.0
    n_before, factors = bright.count[0], posterior.log_factor
    _brighten_some(rng, rows, columns, w, w_new, bright)
    n, new = bright.count[0], chain.log_factor_new
    log_factors(rows, factors, w, bright.index, n_before, n, bright.log_factor, scratch)
    log_factors(rows, factors, w_new, bright.index, 0, n, new, scratch)
    rates = _rates(rows, w, bright.index, n)
    rates_new = _rates(rows, w_new, bright.index, n)
    log_ratio += _log_ratio_of_rows(rates, rates_new, chain, bright)
    log_ratio = finite_or_minus_inf(log_ratio, scratch)
    if -rng.standard_exponential() < log_ratio:
        _darken_some(rng, rates, rates_new, chain, bright)
        accept_theta(chain, log_density)
        take_dark(rows, bright, chain)
    else:
        for i in range(n - 1, n_before - 1, -1):
            darken(bright, i)
    return np.exp(min(0.0, log_ratio))


def adjusted_update(rng, log_correction, rows, posterior, chain, bright, scratch):
    """Accept or reject chain.v_new, and change z with it where the bound allows this.

    Returns the acceptance probability. Needs chain.dark of z, and leaves it.
    """
    arguments = rng, log_correction, rows, posterior, chain, bright, scratch
    return _choose_adjusted_update(*arguments)(*arguments)


@overload(adjusted_update)
def _choose_adjusted_update(rng, log_correction, rows, posterior, chain, bright, scratch):
    # The columns are those of a single likelihood.
    return _conditional_update if are_several(rows) else _adjusted_update
