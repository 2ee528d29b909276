"""Fresh brightness: each row bright with probability 1 - exp(-kappa_n power), most unseen.

Poisson(sum of rates) draws with probabilities proportional to the rates are independent Poisson
counts of the rows; the rows drawn at least once are the bright ones. The few rows that would be
drawn again and again, because they are bright nearly always, are visited one by one instead.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types

from pymc_flymc.kernels.factors import log_factors
from pymc_flymc.kernels.native import kernel, kernel_part, named_tuple_type, vector
from pymc_flymc.kernels.rows import shared_part

__all__ = [
    "HEAVY",
    "KAPPA",
    "SPARE",
    "AliasTables",
    "accept_z",
    "alias_table",
    "draw_bright",
    "draw_z",
    "log_weight_of_z",
    "tables_type",
]

#: Columns of the table of constants that hold kappa, within the limit of the radius and beyond.
KAPPA = 0
#: Rows more often bright than this are visited one by one.
HEAVY = 0.4
#: Room for repeated draws beyond N: at most N/8 are expected where draws are made at all.
SPARE = 4096


class AliasTables(NamedTuple):
    """Walker's alias tables of the two columns of kappa, and a buffer.

    Attributes
    ----------
    heavy : ndarray, shape (H,), int32
        Rows that are visited one by one. Their weight in the tables is zero.
    total : ndarray, shape (2,), float64
        Sum of kappa over all other rows, within the limit of the radius and beyond.
    near_threshold, far_threshold : ndarray, shape (N,), float64
    near_alias, far_alias : ndarray, shape (N,), int32
    drawn : ndarray, shape (N + SPARE,), int32
        Buffer of one chain.
    """

    heavy: np.ndarray
    total: np.ndarray
    near_threshold: np.ndarray
    near_alias: np.ndarray
    far_threshold: np.ndarray
    far_alias: np.ndarray
    drawn: np.ndarray


def tables_type() -> types.Type:
    """Numba type of `AliasTables`."""
    threshold = types.Array(types.float64, 1, "C", readonly=True)
    alias = types.Array(types.int32, 1, "C", readonly=True)
    return named_tuple_type(
        AliasTables,
        {
            "heavy": alias,
            "total": vector(),
            "near_threshold": threshold,
            "near_alias": alias,
            "far_threshold": threshold,
            "far_alias": alias,
            "drawn": vector(types.int32),
        },
    )


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
    # What is left differs from one by rounding only, but for rows of weight zero that rounding has
    # left over: these must never be drawn.
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
def draw_bright(rng, tables, rows, shared):
    """Write the bright rows to tables.drawn; return their number.

    P(z_n = 1) = 1 - exp(-o_n) with o_n = kappa_n power, independently.
    """
    power, far = shared[-3], shared[-2] > 0.5  # nuisance parameters may stand before
    n_rows = rows.X.shape[0]
    column = KAPPA + 1 if far else KAPPA
    count = 0
    for i in range(tables.heavy.shape[0]):
        n = tables.heavy[i]
        if rng.random() < -np.expm1(-rows.constants[n, column] * power):
            tables.drawn[count] = n
            count += 1
    rate = tables.total[1 if far else 0] * power
    # Far out: so many draws that it is cheaper to visit all rows, and that the buffer might not do.
    # (It has room for the heavy rows and eight times the draws that are expected here.)
    if not rate <= (n_rows - tables.heavy.shape[0]) / 8.0:
        count = 0
        for n in range(n_rows):
            if rng.random() < -np.expm1(-rows.constants[n, column] * power):
                tables.drawn[count] = n
                count += 1
        return count
    total = rng.poisson(rate)
    threshold = tables.far_threshold if far else tables.near_threshold
    alias = tables.far_alias if far else tables.near_alias
    light = count
    for i in range(total):
        n = rng.integers(0, n_rows)
        if rng.random() >= threshold[n]:
            n = alias[n]
        tables.drawn[light + i] = n
    if total > 1:
        sort(tables.drawn, light, light + total)
    for i in range(light, light + total):
        # A row drawn twice is as bright as one drawn once.
        if i == light or tables.drawn[i] != tables.drawn[count - 1]:
            tables.drawn[count] = tables.drawn[i]
            count += 1
    return count


@kernel_part
def log_weight_of_z(rows, shared, index, log_odds, count):
    """Log of the bright rows' factors over their chances of having been drawn.

    The factors are L_n/B_n - 1, and those of a draw of z by `draw_bright` are 1 - e^-o_n of the
    bright rows, e^-o_n of the dark ones. The e^-o_n of all rows are the remainders of the bounds:
    they are in the augmented density, too, and cancel.
    """
    power = shared[-3]
    column = KAPPA + 1 if shared[-2] > 0.5 else KAPPA
    total = 0.0
    for i in range(count):
        o = rows.constants[index[i], column] * power
        total += log_odds[i] - (o + np.log(-np.expm1(-o)))
    return total


@kernel_part
def draw_z(rng, tables, posterior, w, log_odds, scratch):
    """Draw z afresh at coefficients w: bright rows to tables.drawn, their log odds beside.

    Returns their number and `log_weight_of_z`.
    """
    rows = posterior.rows
    shared = shared_part(rows, w)
    count = draw_bright(rng, tables, rows, shared)
    log_factors(rows, posterior.log_factor, w, tables.drawn, 0, count, log_odds, scratch)
    return count, log_weight_of_z(rows, shared, tables.drawn, log_odds, count)


@kernel_part
def accept_z(tables, log_odds, count, bright):
    """Make the rows that were drawn the bright ones."""
    for i in range(count):
        bright.index[i] = tables.drawn[i]
        bright.log_odds[i] = log_odds[i]
    bright.count[0] = count
