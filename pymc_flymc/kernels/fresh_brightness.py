"""Fresh brightness: each row bright with probability 1 - exp(-o_n), most unseen.

The rate o_n is a sum of two, each a number of the row times a power of the radius that all rows
share, see `layout`. Poisson(sum of rates) draws with probabilities proportional to the rates are
independent Poisson counts of the rows, and so are the sums of the counts of two such sets of draws;
the rows drawn at least once are the bright ones. The few rows that would be
drawn again and again, because they are bright nearly always, are visited one by one instead.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np
from numba import types

from pymc_flymc.kernels.dark_rates import rate_of
from pymc_flymc.kernels.factors import log_factors
from pymc_flymc.kernels.layout import POWERS, ROW
from pymc_flymc.kernels.native import kernel, kernel_part
from pymc_flymc.kernels.records import Int32Vector, Vector, unwritten, vector
from pymc_flymc.kernels.rows import bound_part

#: Rows more often bright than this are visited one by one.
HEAVY = 0.4
#: Times that z is drawn to start a chain. Any z of positive probability will do.
ATTEMPTS = 100
#: In the place of a number of transitions: another step has moved theta, by what leaves its
#: distribution invariant. Then z must come from its conditional distribution given theta, or the
#: joint distribution would not be invariant. (Not at a start: far out its weight is one at which
#: chains would stay, and a start may be anywhere.)
MOVED = -1
#: Room for repeated draws beyond N: at most N/8 are expected where draws are made at all.
SPARE = 4096


_Thresholds = Annotated[np.ndarray, unwritten()]
_Aliases = Annotated[np.ndarray, unwritten(types.int32)]


class AliasTables(NamedTuple):
    """Walker's alias tables of what multiplies the two powers of the radius, and a buffer.

    Attributes
    ----------
    heavy : ndarray, shape (H,), int32
        Rows that are visited one by one. Their weight in the tables is zero.
    total : ndarray, shape (2,), float64
        Sums of the two over all other rows, in the places that `ROW` says.
    near_threshold, beyond_threshold : ndarray, shape (N,), float64
    near_alias, beyond_alias : ndarray, shape (N,), int32
    drawn : ndarray, shape (N + SPARE,), int32
        Buffer of one chain.
    """

    heavy: _Aliases
    total: Vector
    near_threshold: _Thresholds
    near_alias: _Aliases
    beyond_threshold: _Thresholds
    beyond_alias: _Aliases
    drawn: Int32Vector


@functools.cache
def alias_table_kernel() -> Callable[..., Any]:
    """Compiled ``alias_table(weights, threshold, alias)``."""

    @kernel(types.void(vector(), vector(), vector(types.int32)))
    def alias_table(weights, threshold, alias):
        """Fill Walker's alias table for the given weights, in O(N) (Vose 1991)."""
        n = weights.shape[0]
        mean = weights.sum() / n
        small, large = np.empty(n, np.int32), np.empty(n, np.int32)
        n_small = n_large = 0
        for i in range(n):
            threshold[i] = weights[i] / mean if mean > 0.0 else 1.0
            alias[i] = i
            if threshold[i] < 1.0:
                small[n_small] = i
                n_small += 1
            else:
                large[n_large] = i
                n_large += 1
        while n_small > 0 and n_large > 0:
            n_small -= 1
            less, more = small[n_small], large[n_large - 1]
            alias[less] = more
            threshold[more] -= 1.0 - threshold[less]
            if threshold[more] < 1.0:
                n_large -= 1
                small[n_small] = more
                n_small += 1
        # What is left differs from one by rounding only, but for rows of weight zero that rounding
        # has left over: these must never be drawn.
        heaviest = np.argmax(weights)
        for i in range(n_small):
            if threshold[small[i]] < 0.5:
                alias[small[i]] = heaviest
            else:
                threshold[small[i]] = 1.0
        for i in range(n_large):
            threshold[large[i]] = 1.0

    return alias_table  # type: ignore[no-any-return]


@kernel_part
def sort(values, start, stop):
    """Sort values[start:stop] (Shell 1959, gaps of Knuth).

    NumPy's own takes longer to compile than all else here, and the values mostly are very few.
    """
    gap = 1
    while 3 * gap < stop - start:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(start + gap, stop):
            value, j = values[i], i - gap
            while j >= start and values[j] > value:
                values[j + gap] = values[j]
                j -= gap
            values[j + gap] = value
        gap //= 3


@kernel_part
def is_drawn(rng, rows, w, n, times):
    """Draw whether row n is bright, at so many times its rate."""
    return rng.random() < -np.expm1(-times * rate_of(rows, w, n))


@kernel_part
def draw_by_alias(rng, rate, threshold, alias, drawn, count):
    """Write Poisson(rate) draws from an alias table behind the first `count`; return their end."""
    end = count + rng.poisson(rate)
    for i in range(count, end):
        n = rng.integers(0, threshold.shape[0])
        if rng.random() >= threshold[n]:
            n = alias[n]
        drawn[i] = n
    return end


@kernel_part
def draw_bright(rng, tables, rows, w, times):
    """Write the rows that are bright at coefficients w to tables.drawn; return their number.

    P(z_n = 1) = 1 - exp(-times o_n), independently.
    """
    n_rows, drawn, shared = rows.X.shape[0], tables.drawn, bound_part(rows, w)
    near = times * tables.total[ROW.near] * shared[POWERS.near]
    beyond = 0.0
    if shared[POWERS.beyond] > 0.0:
        beyond = times * tables.total[ROW.beyond] * shared[POWERS.beyond]
    count = 0
    # Far out: so many draws that it is cheaper to visit all rows, and that the buffer might not do.
    # (It has room for the heavy rows and eight times the draws that are expected here.)
    if not near + beyond <= (n_rows - tables.heavy.shape[0]) / 8.0:
        for n in range(n_rows):
            if is_drawn(rng, rows, w, n, times):
                drawn[count] = n
                count += 1
        return count
    for i in range(tables.heavy.shape[0]):
        n = tables.heavy[i]
        if is_drawn(rng, rows, w, n, times):
            drawn[count] = n
            count += 1
    light = count
    last = draw_by_alias(rng, near, tables.near_threshold, tables.near_alias, drawn, light)
    if beyond > 0.0:
        last = draw_by_alias(rng, beyond, tables.beyond_threshold, tables.beyond_alias, drawn, last)
    if last - light > 1:
        sort(drawn, light, last)
    for i in range(light, last):
        # A row drawn twice is as bright as one drawn once.
        if i == light or drawn[i] != drawn[count - 1]:
            drawn[count] = drawn[i]
            count += 1
    return count


@kernel_part
def log_weight_of_z(rows, w, index, log_factor, count):
    """Log of the bright rows' factors over their chances of having been drawn.

    The chances by `draw_bright` are 1 - e^-o_n. Those of the dark rows, e^-o_n, are their factors
    in the augmented density, too: both cancel, and sums of rates never matter.
    """
    total = 0.0
    for i in range(count):
        total += log_factor[i] - np.log(-np.expm1(-rate_of(rows, w, index[i])))
    return total


@kernel_part
def thin(rng, rows, w, drawn, log_factor, count):
    """Keep rows that were drawn at twice their rates with P(z_n = 1 | theta); return their number.

    That is 1 - B_n / L_n, one less e^-g_n for the gap g_n, which is at most twice the rate.
    """
    kept = 0
    for i in range(count):
        n, rate = drawn[i], rate_of(rows, w, drawn[i])
        bright = 1.0 / (1.0 + np.exp(-rate - log_factor[i]))
        # A row that is kept bright is bright, whatever its factor.
        if rate == np.inf or rng.random() < bright / -np.expm1(-2.0 * rate):
            drawn[kept], log_factor[kept] = n, log_factor[i]
            kept += 1
    return kept


@kernel_part
def draw_z(rng, tables, posterior, w, given_theta, log_factor, scratch):
    """Draw z afresh at coefficients w: bright rows to tables.drawn, their log factors beside.

    As a proposal, or from its conditional distribution given theta. Returns the number of bright
    rows and `log_weight_of_z`.
    """
    rows = posterior.rows
    count = draw_bright(rng, tables, rows, w, 2.0 if given_theta else 1.0)
    log_factors(rows, posterior.log_factor, w, tables.drawn, 0, count, log_factor, scratch)
    if given_theta:
        count = thin(rng, rows, w, tables.drawn, log_factor, count)
    return count, log_weight_of_z(rows, w, tables.drawn, log_factor, count)


@kernel_part
def accept_z(tables, log_factor, count, bright):
    """Make the rows that were drawn the bright ones."""
    for i in range(count):
        bright.index[i] = tables.drawn[i]
        bright.log_factor[i] = log_factor[i]
    bright.count[0] = count
