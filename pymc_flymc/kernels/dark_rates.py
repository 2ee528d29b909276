"""Rates of rows, and their sum over the dark ones.

Under a bound B_n = E_n exp(-o_n) from an expansion E_n the augmented density is

    p(theta, z) = prior(theta) prod_n E_n  prod_dark exp(-o_n)  prod_bright (L_n - B_n) / E_n,

and the rate o_n is a sum of powers that all rows share, times constants of the row, see `layout`.
So the sum over the dark rows is a sum of a few products, which takes no pass over the data.

Far from the expansion point rates grow exponentially and nearly all rows are bright. The sum over
all rows, less the sum over the bright ones, would then be a difference of huge numbers, and a chain
would follow its rounding errors. Hence the multipliers of each power are added up over the dark
rows first, in twice the working precision. Their sum is right as long as it is not smaller than
`NOTHING` times the sum over all rows. A smaller sum is zero up to rounding, see `FLOOR`.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from pymc_flymc.compat.numba import view
from pymc_flymc.kernels.layout import PARTS_ROW, PARTS_SHARED, POWERS, ROW
from pymc_flymc.kernels.native import kernel, kernel_part, record_type, row_part, vector
from pymc_flymc.kernels.rows import (
    Rows,
    are_several,
    bound_part,
    effect_at,
    n_effects,
    weight_of_effects,
)

#: A row's multiplier of a power is zero, or at least this share of the sum over all rows.
FLOOR = 1e-18
#: A smaller share of the sum over all rows is a rounding error: no dark row has a multiplier.
NOTHING = 1e-3 * FLOOR


@kernel_part
def _times(number, power):
    """Return a constant of a row times a power; zero if one is, even if the other is infinite."""
    # It is NaN if the power is: zero would make the row dark without having been read.
    return number * power if number != 0.0 and power != 0.0 else 0.0


def _rate_of(rows, w, n):
    """Return o_n: the gap of row n is between zero and twice this, see `bounds.Taylor`."""
    if rows.totals.shape[0] == 0:
        return 0.0
    shared, i = bound_part(rows, w), n - rows.first
    if rows.constants[i, ROW.near] == np.inf:  # even at the anchor, where the powers are zero
        return np.inf
    if rows.n_sums == 0:
        near = _times(rows.constants[i, ROW.near], shared[POWERS.near])
        return near + _times(rows.constants[i, ROW.beyond], shared[POWERS.beyond])
    half_width = rows.constants[i, PARTS_ROW.half_width]
    near = _times(half_width, shared[PARTS_SHARED.near])
    beyond = _times(half_width, shared[PARTS_SHARED.beyond])
    effects = shared[PARTS_SHARED.effects :]
    n_predictors = rows.offset.shape[1]
    for k in range(n_predictors):
        weight, first = weight_of_effects(rows, i, k), k * rows.n_sparse
        for j in range(n_effects(rows, i)):
            column, size = effect_at(rows, i, j)
            size *= weight
            near += size * effects[first + column]
            beyond += _times(size, effects[n_predictors * rows.n_sparse + first + column])
    near = _times(rows.constants[i, PARTS_ROW.near], near)
    return near + _times(rows.constants[i, PARTS_ROW.beyond], beyond)


_rate_of_one = kernel_part(_rate_of)


def _rate_of_several(rows, w, n):
    k = 0
    for part in rows.parts:
        if part.first <= n < part.first + part.X.shape[0]:
            return _rate_of_one(part, w[rows.place[k] : rows.place[k + 1]], n)
        k += 1
    return 0.0


def rate_of(rows, w, n):
    """Return o_n of row n at coefficients w; zero under a bound without rates."""
    # It is NaN if one of its powers is, as when rounding makes the square of the radius negative.
    return _choose_rate_of(rows, w, n)(rows, w, n)


@overload(rate_of, jit_options={"forceinline": True})  # inlined, as `row_part`
def _choose_rate_of(rows, w, n):
    return _rate_of_several if are_several(rows) else _rate_of


@row_part
def _subtract(sums, low, j, number):
    """Subtract a number from a sum, with the rounding error in `low` (Neumaier 1974)."""
    before = sums[j]
    after = before - number
    if abs(before) >= abs(number):
        low[j] += (before - after) - number
    else:
        low[j] += before - (after + number)
    sums[j] = after


@row_part
def _subtract_row(rows, i, sums, low):
    """Subtract the multiplier of each power in the rate of the i-th of these rows."""
    # The sums over all rows leave out rows that are kept bright.
    if rows.constants[i, ROW.near] == np.inf:
        return
    if rows.n_sums == 0:
        _subtract(sums, low, POWERS.near, rows.constants[i, ROW.near])
        _subtract(sums, low, POWERS.beyond, rows.constants[i, ROW.beyond])
        return
    near, beyond = rows.constants[i, PARTS_ROW.near], rows.constants[i, PARTS_ROW.beyond]
    half_width = rows.constants[i, PARTS_ROW.half_width]
    _subtract(sums, low, PARTS_SHARED.near, near * half_width)
    _subtract(sums, low, PARTS_SHARED.beyond, beyond * half_width)
    n_predictors = rows.offset.shape[1]
    for k in range(n_predictors):
        weight, first = weight_of_effects(rows, i, k), PARTS_SHARED.effects + k * rows.n_sparse
        for j in range(n_effects(rows, i)):
            column, size = effect_at(rows, i, j)
            size *= weight
            _subtract(sums, low, first + column, near * size)
            place = first + n_predictors * rows.n_sparse + column
            _subtract(sums, low, place, beyond * size)


@kernel_part
def _take_dark_of_one(part, bright, dark, low):
    sums, totals = bound_part(part, dark), part.totals
    if totals.shape[0] == 0:
        return
    for j in range(totals.shape[0]):
        sums[j], low[j] = totals[j, 0], totals[j, 1]
    for k in range(bright.count[0]):
        i = bright.index[k] - part.first
        if 0 <= i < part.X.shape[0]:
            _subtract_row(part, i, sums, low)
    for j in range(totals.shape[0]):
        left = sums[j] + low[j]
        sums[j] = left if left > NOTHING * totals[j, 0] else 0.0


def _take_dark(rows, bright, chain):
    _take_dark_of_one(rows, bright, chain.dark, chain.low)


def _take_dark_of_several(rows, bright, chain):
    k = 0
    for part in rows.parts:
        of_part = chain.dark[rows.place[k] : rows.place[k + 1]]
        _take_dark_of_one(part, bright, of_part, chain.low)
        k += 1


def take_dark(rows, bright, chain):
    """Write to chain.dark the multiplier of each power in the sum of the dark rows' rates.

    Multipliers have the places of the powers in chain.w. Call this whenever z has changed, before a
    conditional update of theta.
    """
    _choose_take_dark(rows, bright, chain)(rows, bright, chain)


@overload(take_dark)
def _choose_take_dark(rows, bright, chain):
    return _take_dark_of_several if are_several(rows) else _take_dark


@kernel_part
def dark_rate(dark, w):
    """Return the sum of the dark rows' rates at w, which holds the powers."""
    total = 0.0
    for j in range(dark.shape[0]):
        if dark[j] > 0.0:  # otherwise no dark row has this power, which may be infinite
            total += dark[j] * w[j]
    return total


def total_rates(rows: Rows, n_powers: int) -> np.ndarray:
    """Return `Rows.totals` of rows whose bound has rates with `n_powers` powers: O(N)."""
    sums, low = np.zeros(n_powers), np.zeros(n_powers)
    _total_kernel(rows.X.dtype)(rows, sums, low)
    return -np.column_stack([sums, low])


@functools.cache
def _total_kernel(dtype: np.dtype) -> Callable[..., Any]:
    @kernel(types.void(record_type(Rows, dtype), vector(), vector()))
    def subtract_all(rows, sums, low):
        rows = view(rows)
        for i in range(rows.X.shape[0]):
            _subtract_row(rows, i, sums, low)

    return subtract_all  # type: ignore[no-any-return]
