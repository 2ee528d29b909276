"""Blocks of independent proposals: thetas, fresh brightness by two-level tables, and weights.

These kernels do what `joint` does, for many proposals at a time, none of which depends on a chain's
state. Rows are drawn for all of them, read in their order, and weighed.
"""

from typing import Annotated, NamedTuple

import numpy as np
from numba import types

from pymc_flymc.compat.numba import generator_at, view
from pymc_flymc.kernels.factors import Scratch, log_factors
from pymc_flymc.kernels.fresh_brightness import log_weight_of_z, sort
from pymc_flymc.kernels.generators import GENERATOR
from pymc_flymc.kernels.geometry import Geometry, unstandardise
from pymc_flymc.kernels.layout import POWERS
from pymc_flymc.kernels.native import kernel_part, lazy_kernel
from pymc_flymc.kernels.native_graphs import call_density
from pymc_flymc.kernels.records import matrix, record_type, unwritten, vector
from pymc_flymc.kernels.rows import Rows

#: Rows whose rates are added up together. Within a group a row is found by adding up rates again.
#: This takes 4 bytes per row, where an alias table takes twelve.
GROUP = 256
#: The rows of a partition are visited one by one if there are no more than this.
FEW = 16


class RateTables(NamedTuple):
    """Bounds on the remainders of a partition's rows, from which brightness is drawn.

    Attributes
    ----------
    near, beyond : ndarray, shape (n,), float32
        Multipliers of the two powers of the radius. The bounds are exactly these float32 numbers.
    near_sums, beyond_sums : ndarray, shape (ceil(n / GROUP) + 1,), float64
        Their cumulative sums at the beginnings of groups, and at the end.
    """

    near: Annotated[np.ndarray, unwritten(types.float32)]
    beyond: Annotated[np.ndarray, unwritten(types.float32)]
    near_sums: Annotated[np.ndarray, unwritten()]
    beyond_sums: Annotated[np.ndarray, unwritten()]


def make_tables(near: np.ndarray, beyond: np.ndarray) -> RateTables:
    """Return the tables of a partition, from rates in float32, shape (n,)."""
    frozen = [np.ascontiguousarray(each) for each in (near, beyond)]
    frozen += [_sums(each) for each in frozen]
    for each in frozen:
        each.flags.writeable = False
    return RateTables(*frozen)


def _sums(rates: np.ndarray) -> np.ndarray:
    starts = np.arange(0, len(rates), GROUP)
    sums = np.add.reduceat(rates, starts, dtype=np.float64) if len(rates) else np.empty(0)
    return np.concatenate([[0.0], np.cumsum(sums)])


@lazy_kernel(
    types.void(types.int64, vector(), record_type(Geometry), matrix, matrix, matrix, vector())
)
def densities(density, statistics, geometry, v, theta, w, out):
    """Write theta, w with what rows share, and the log density with the bounds, for each v."""
    for k in range(v.shape[0]):
        unstandardise(geometry, v[k], theta[k])
        out[k] = call_density(density, theta[k], statistics, w[k])


@kernel_part
def find_row(rates, sums, place):
    """Return the row whose interval of the cumulative rates contains a place."""
    low, high = 0, sums.shape[0] - 1
    total = sums[high]
    while high - low > 1:
        middle = (low + high) // 2
        # By rounding, the place may be the total: groups of zero rates may come after it.
        if sums[middle] <= place and sums[middle] < total:
            low = middle
        else:
            high = middle
    left = place - sums[low]
    last = low * GROUP
    for n in range(low * GROUP, min((low + 1) * GROUP, rates.shape[0])):
        if rates[n] > 0.0:
            last = n
            left -= rates[n]
            if left < 0.0:
                return n
    return last  # by rounding, the place may be beyond the last row


@kernel_part
def draw_by_sums(rng, rates, sums, power, drawn, first, count):
    """Add rows drawn in proportion to their rates, Poisson-many, to those in drawn[first:count].

    Returns their end. They are distinct and in order.
    """
    total = sums[sums.shape[0] - 1]
    n_drawn, n_wanted = 0, rng.poisson(total * power)
    while n_drawn < n_wanted:
        # Duplicates are removed in between, so that the array has room for all draws.
        room = min(n_wanted - n_drawn, rates.shape[0] - (count - first))
        if room == 0:  # all rows are bright already
            break
        for _i in range(room):
            drawn[count] = find_row(rates, sums, rng.random() * total)
            count += 1
        n_drawn += room
        sort(drawn, first, count)
        kept = first
        for i in range(first, count):
            if i == first or drawn[i] != drawn[kept - 1]:
                drawn[kept] = drawn[i]
                kept += 1
        count = kept
    return count


@lazy_kernel(
    types.int64(
        GENERATOR,
        record_type(RateTables),
        types.Array(types.float64, 2, "A"),
        types.int64,
        vector(types.int64),
        vector(types.int32),
    )
)
def draw_rows(rng, tables, shared, start, ends, drawn):
    """Draw the bright rows of proposals from `start` on: each with probability 1 - exp(-o_n).

    They are the rows drawn at least once, as in `fresh_brightness.draw_bright`. Those of
    proposal k end at ends[k] in `drawn`. Returns the first proposal that `drawn` has no room
    for; its length is twice the number of rows at least.

    Parameters
    ----------
    shared : ndarray, shape (K, 2)
        The `POWERS` of each proposal.
    """
    rng, tables = generator_at(rng), view(tables)
    n_rows, count = tables.near.shape[0], 0
    last = tables.near_sums.shape[0] - 1
    for k in range(start, shared.shape[0]):
        if drawn.shape[0] - count < n_rows:
            return k
        near, beyond = shared[k, POWERS.near], shared[k, POWERS.beyond]
        total = tables.near_sums[last] * near
        if beyond > 0.0:
            total += tables.beyond_sums[last] * beyond
        if not np.isfinite(near + beyond):  # never accepted, see `Proposer.at`
            ends[k] = count
            continue
        if n_rows <= FEW or not total <= n_rows / 8.0:
            for n in range(n_rows):
                rate = tables.near[n] * near + tables.beyond[n] * beyond
                # At the anchor infinity times zero is NaN: the row is kept bright.
                if rate != rate or rng.random() < -np.expm1(-rate):
                    drawn[count] = n
                    count += 1
            ends[k] = count
            continue
        first = count
        count = draw_by_sums(rng, tables.near, tables.near_sums, near, drawn, first, count)
        if beyond > 0.0:
            rates, sums = tables.beyond, tables.beyond_sums
            count = draw_by_sums(rng, rates, sums, beyond, drawn, first, count)
        ends[k] = count
    return shared.shape[0]


@lazy_kernel(
    types.void(
        types.int64,
        record_type(Rows, np.dtype(np.float64)),
        matrix,
        types.int64,
        types.int64,
        vector(types.int64),
        vector(types.int32),
        record_type(Scratch),
        vector(),
        vector(),
    )
)
def weigh(log_factor, rows, w, start, stop, ends, index, scratch, buffer, out):
    """Write the log of the bright rows' factors over their chances for proposals start to stop.

    Parameters
    ----------
    rows : Rows
        Of all proposals, with constants as of a Taylor bound.
    w : ndarray, shape (K, P + S)
        Coefficients, and what rows share.
    ends, index : ndarray
        Proposal k has the rows ``index[ends[k - 1]:ends[k]]``, from zero for the first.
    buffer : ndarray
        Of floats, as long as `index`.
    out : ndarray, shape (K,)
    """
    rows, scratch = view(rows), view(scratch)
    first = 0
    for k in range(start, stop):
        last = ends[k]
        if last > first:
            size = last - first
            part, factors = index[first:last], buffer[first:last]
            log_factors(rows, log_factor, w[k], part, 0, size, factors, scratch)
            out[k] = log_weight_of_z(rows, w[k], part, factors, size)
        first = last
