"""Fresh brightness: each row is bright with probability 1 - exp(-o_n); most rows are not visited.

The rate o_n is a sum of two terms, each a constant of the row times a power of the radius that all
rows share, see `layout`. For each term, Poisson(sum of rates) rows are drawn, with probabilities
proportional to the rates. The number of times that a row is drawn is then Poisson, independently of
other rows, and so is the sum over both terms. Rows drawn at least once are bright. The few rows
that are bright nearly always would be drawn many times: they are visited one by one instead.
"""

from typing import Annotated, NamedTuple

import numpy as np
from numba import types

from pymc_flymc.kernels.dark_rates import rate_of
from pymc_flymc.kernels.factors import log_factors
from pymc_flymc.kernels.layout import POWERS, ROW
from pymc_flymc.kernels.native import (
    Int32Vector,
    Vector,
    kernel_part,
    lazy_kernel,
    row_part,
    unwritten,
    vector,
)
from pymc_flymc.kernels.rows import bound_part

#: Rows that are bright with a larger probability are visited one by one.
HEAVY = 0.4
#: Number of times that z is drawn to start a chain. Any z of positive probability will do.
ATTEMPTS = 100
#: Replaces the number of transitions when another step has moved theta, leaving its distribution
#: invariant. Then z must come from its conditional distribution given theta, or the joint
#: distribution would not be invariant. (At a start z is drawn as it is proposed. A start may be far
#: from the mode, where a z given theta has so large a weight that the chain would stay.)
MOVED = -1
#: Room for repeated draws beyond N. Draws are made only if at most N/8 are expected.
SPARE = 4096


_Thresholds = Annotated[np.ndarray, unwritten()]
_Aliases = Annotated[np.ndarray, unwritten(types.int32)]


class AliasTables(NamedTuple):
    """Walker's alias tables of the rows' constants for the two powers of the radius."""

    heavy: _Aliases  #: Rows that are visited one by one. Their weight in the tables is zero.
    total: Vector  #: Sums of the two constants over all other rows, in the places of `ROW`.
    near_threshold: _Thresholds
    near_alias: _Aliases
    beyond_threshold: _Thresholds
    beyond_alias: _Aliases
    drawn: Int32Vector  #: Buffer of one chain, (N + SPARE,); empty in the tables that chains share.


@lazy_kernel(types.void(vector(), vector(), vector(types.int32)))
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
    # The remaining thresholds differ from one by rounding only. Rows of weight zero may remain by
    # rounding, too: these must never be drawn.
    heaviest = np.argmax(weights)
    for i in range(n_small):
        if threshold[small[i]] < 0.5:
            alias[small[i]] = heaviest
        else:
            threshold[small[i]] = 1.0
    for i in range(n_large):
        threshold[large[i]] = 1.0


@kernel_part
def sort(values, start, stop):
    """Sort values[start:stop] (Shell 1959, gaps of Knuth)."""
    # NumPy's sort takes longer to compile than everything else here; values are few.
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


@row_part
def is_drawn(rng, rows, w, n, times):
    """Draw whether row n is bright, at its rate times `times`."""
    # It is bright if its rate is NaN: then so is the weight of z, which is counted and rejected.
    rate = rate_of(rows, w, n)
    return rate != rate or rng.random() < -np.expm1(-times * rate)


@kernel_part
def draw_by_alias(rng, rate, threshold, alias, drawn, count):
    """Write Poisson(rate) draws from an alias table after the first `count`; return their end."""
    end = count + rng.poisson(rate)
    for i in range(count, end):
        n = rng.integers(0, threshold.shape[0])
        if rng.random() >= threshold[n]:
            n = alias[n]
        drawn[i] = n
    return end


@kernel_part
def draw_bright(rng, tables, rows, w, times):
    """Write the rows that are bright with P(z_n = 1) = 1 - exp(-times o_n); return their number."""
    n_rows, drawn, shared = rows.X.shape[0], tables.drawn, bound_part(rows, w)
    near = times * tables.total[ROW.near] * shared[POWERS.near]
    beyond = 0.0
    if shared[POWERS.beyond] != 0.0:  # if it is NaN, all rows are visited
        beyond = times * tables.total[ROW.beyond] * shared[POWERS.beyond]
    count = 0
    # In the tails so many draws are expected that a visit of all rows is cheaper, and the buffer
    # might be too small. (It has room for the heavy rows and eight times the draws.)
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
    """Return the log of the bright rows' factors over the probabilities of drawing them."""
    # By `draw_bright` a row is bright with probability 1 - e^-o_n. It is dark with probability
    # e^-o_n, which is its factor in the augmented density, too: both cancel for all dark rows.
    total = 0.0
    for i in range(count):
        total += log_factor[i] - np.log(-np.expm1(-rate_of(rows, w, index[i])))
    return total


@kernel_part
def thin(rng, rows, w, drawn, log_factor, count):
    """Thin rows drawn at twice their rates to a draw of z given theta; return their number."""
    # P(z_n = 1 | theta) = 1 - B_n / L_n = 1 - e^-g_n, where the gap g_n is at most twice the rate.
    kept = 0
    for i in range(count):
        n, rate = drawn[i], rate_of(rows, w, drawn[i])
        bright = 1.0 / (1.0 + np.exp(-rate - log_factor[i]))
        # A row with an infinite rate is bright, whatever its factor. So is a row whose odds are
        # NaN, which makes the weight NaN.
        known = bright == bright
        if rate == np.inf or not known or rng.random() < bright / -np.expm1(-2.0 * rate):
            drawn[kept], log_factor[kept] = n, log_factor[i]
            kept += 1
    return kept


@kernel_part
def draw_z(rng, tables, posterior, w, given_theta, log_factor, scratch):
    """Draw fresh z at coefficients w; write bright rows to tables.drawn, and their log factors.

    z is drawn as a proposal, or else from its conditional distribution given theta. Returns the
    number of bright rows and `log_weight_of_z`.
    """
    rows = posterior.rows
    count = draw_bright(rng, tables, rows, w, 2.0 if given_theta else 1.0)
    log_factors(rows, posterior.log_factor, w, tables.drawn, 0, count, log_factor, scratch)
    if given_theta:
        count = thin(rng, rows, w, tables.drawn, log_factor, count)
    return count, log_weight_of_z(rows, w, tables.drawn, log_factor, count)


@kernel_part
def accept_z(tables, log_factor, count, bright):
    """Make the drawn rows the bright ones."""
    for i in range(count):
        bright.index[i] = tables.drawn[i]
        bright.log_factor[i] = log_factor[i]
    bright.count[0] = count
