"""Updates of group effects one by one, given all other parameters and the brightness of rows.

Given these, the effects of different groups are independent. The density of an effect is normal,
from its prior and the collapsed bounds, times the pseudo-likelihood terms of its own bright rows.
So one sweep updates all groups, in time proportional to the number of groups and of bright rows. A
group that is held back by its rows does not hold back any other.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np
from numba import types

from pymc_flymc.kernels.factors import CHUNK, refuse_violations
from pymc_flymc.kernels.layout import MOMENTS
from pymc_flymc.kernels.native import call_log_factor, kernel_part
from pymc_flymc.kernels.native_graphs import call_density
from pymc_flymc.kernels.posterior import finite_or_minus_inf
from pymc_flymc.kernels.records import Int32Vector, IntVector, Matrix, Vector
from pymc_flymc.kernels.rows import row_predictors, shared_part
from pymc_flymc.kernels.sweeps import Plan

TWO_PI = 2.0 * np.pi
#: A bracket of angles that is shorter than this has shrunk to the present point.
LEAST_ANGLE = 1e-12
#: Share of sweeps that slice along a wider normal distribution, and the largest log2 of the ratio
#: of sds. A bound that touches a sharp peak, as of Laplace noise, may be far narrower than the
#: posterior. Along so narrow a distribution an effect moves away step by step, and the steps shrink
#: with the distance: chains saw nothing of tails with a tenth of the posterior.
WIDE, WIDEST = 0.1, 8.0


class Groups(NamedTuple):
    """The effects of one grouping factor, and how the brightness of their rows is resampled.

    G is the number of groups, Q the number of groups with rows, which come first, and N the number
    of rows. The fields from `boost` on are buffers.
    """

    #: Implicit resampling: the rows of group g are ``order[start[g]:start[g + 1]]``. Its
    #: probabilities q are rates: a row is proposed with probability 1 - exp(-c q), c depending on
    #: its group.
    plan: Plan
    #: Address of a function that writes the effects' `Moments` and returns the sum of log sds.
    moments: int
    vjp: int  #: Address of the vector-Jacobian product of slopes in means and sds.
    #: Indices in theta of the effects, (G,); `others` has all other parameters, (D - G,).
    elements: IntVector
    others: IntVector
    column: int  #: Index in w of the first effect's coefficient.
    q_max: Vector  #: Largest rate among the rows of each group, (Q,).
    #: Coefficients at which bounds touch, (Q,); `sd` has their approximate posterior sds.
    touching: Vector
    sd: Vector
    slack: Annotated[float, types.float64]  #: How much bounds are lowered, in expected gaps.
    boost: Vector  #: Factor on the rates of the rows of each group, (Q,).
    end: Int32Vector  #: Where the bright rows of each group end, sorted by group, (Q,).
    code: Int32Vector  #: Group of each bright row, (N,).
    #: Row indices while they are sorted, (N,).
    index: Int32Vector  # type: ignore[assignment]  # hides tuple.index, never wanted here
    #: Predictors of the bright rows, (N, 1); `moved` has those at another value of their effect.
    eta: Matrix
    moved: Matrix
    constants: Matrix  #: Constants of the bright rows, (N, R).
    rate: Vector  #: Rates at which candidates were proposed, (CHUNK,).


def new_groups(n_rows: int, n_constants: int, n_groups: int, **known: Any) -> Groups:
    """Return the record with its buffers; row buffers are committed as they are touched."""
    return Groups(
        **known,
        boost=np.empty(n_groups),
        end=np.empty(n_groups, np.int32),
        code=np.empty(n_rows, np.int32),
        index=np.empty(n_rows, np.int32),
        eta=np.empty((n_rows, 1)),
        moved=np.empty((n_rows, 1)),
        constants=np.empty((n_rows, n_constants)),
        rate=np.empty(CHUNK),
    )


@kernel_part
def moments_at(posterior, groups, theta, moments):
    """Write the effects' `Moments`, (3, G); return the sum of the logs of their sds."""
    return call_density(groups.moments, theta, posterior.statistics, moments.ravel())


@kernel_part
def sort_by_group(rows, groups, bright):
    """Sort the bright rows by group, to be read group by group; write where each group ends."""
    end, n_bright = groups.end, bright.count[0]
    for g in range(end.shape[0]):
        end[g] = 0
    for i in range(n_bright):
        groups.index[i] = bright.index[i]
        groups.moved[i, 0] = bright.log_factor[i]
        groups.code[i] = rows.codes[bright.index[i], 0]
        end[groups.code[i]] += 1
    total = 0
    for g in range(end.shape[0]):
        size = end[g]
        end[g] = total  # where the group begins, until its rows are in their places
        total += size
    for i in range(n_bright):
        g = groups.code[i]
        place = end[g]
        end[g] = place + 1
        bright.index[place] = groups.index[i]
        bright.log_factor[place] = groups.moved[i, 0]
        bright.slot[groups.index[i]] = place + 1


@kernel_part
def _gather_bright(posterior, groups, w, bright, scratch):
    """Write the predictors and the constants of the bright rows, one after the other."""
    rows, start, n_bright = posterior.rows, 0, bright.count[0]
    while start < n_bright:
        size = min(n_bright - start, CHUNK)
        row_predictors(rows, w, bright.index, start, size, scratch.eta, scratch.block)
        for i in range(size):
            groups.eta[start + i, 0] = scratch.eta[i, 0]
            for r in range(rows.constants.shape[1]):
                groups.constants[start + i, r] = rows.constants[bright.index[start + i], r]
        start += size


@kernel_part(inline="always")
def _log_factors_of_group(posterior, groups, first, last, shift, shared, bright, out, scratch):
    """Write a group's log factors, with predictors moved by `shift`; return their sum."""
    for i in range(first, last):
        groups.moved[i, 0] = groups.eta[i, 0] + shift
    eta, constants = groups.moved[first:last], groups.constants[first:last]
    call_log_factor(posterior.log_factor, eta, constants, shared, out[first:last])
    scratch.queries[0] += last - first
    refuse_violations(bright.index, first, last, out, scratch)
    total = 0.0
    for i in range(first, last):
        total += out[i]
    return total


@kernel_part(inline="always")
def draw_spread(rng):
    """Draw the sd of the normal distribution that a sweep slices along; no state changes it."""
    return 2.0 ** (WIDEST * rng.random()) if rng.random() < WIDE else 1.0


@kernel_part(inline="always")
def _slice_effect(
    rng, posterior, groups, first, last, v, spread, scale, shared, bright, out, scratch
):
    """Return a new value of a standardised effect v, of which rows first to last are bright.

    By elliptical slice sampling (Murray, Adams & MacKay 2010, figure 2): without these rows v is
    N(0, 1), which is N(0, spread^2) times another factor. Predictors change by `scale` for each
    unit of v.
    """
    narrower = 0.5 - 0.5 / spread**2
    before = -narrower * v * v
    for i in range(first, last):
        before += bright.log_factor[i]
    level = -rng.standard_exponential()  # log of a uniform height below the present density
    other = spread * rng.standard_normal()
    angle = TWO_PI * rng.random()
    low, high = angle - TWO_PI, angle
    while True:
        new = v * np.cos(angle) + other * np.sin(angle)
        shift = scale * (new - v)
        total = _log_factors_of_group(
            posterior, groups, first, last, shift, shared, bright, out, scratch
        )
        total -= narrower * new * new
        if level < finite_or_minus_inf(total - before, scratch) or angle == 0.0:
            return new
        if angle < 0.0:
            low = angle
        else:
            high = angle
        # Stay if the bracket has shrunk to the present point: rounding may reject even that.
        angle = low + (high - low) * rng.random() if high - low > LEAST_ANGLE else 0.0


@kernel_part
def propose_effects(rng, posterior, groups, moments, spread, chain, bright, scratch):
    """Write updated effects of all groups to chain.theta_new, and their rows' log factors.

    `spread` comes from `draw_spread`. Needs the `Moments` at chain.theta. Returns the change of the
    log density without rows, if the moments are right.
    """
    sort_by_group(posterior.rows, groups, bright)
    _gather_bright(posterior, groups, chain.w, bright, scratch)
    shared, n_with_rows = shared_part(posterior.rows, chain.w), groups.end.shape[0]
    for j in range(chain.theta.shape[0]):
        chain.theta_new[j] = chain.theta[j]
    change, first, out = 0.0, 0, chain.log_factor_new
    for g in range(groups.elements.shape[0]):
        j = groups.elements[g]
        last = groups.end[g] if g < n_with_rows else first
        mean, sd = moments[MOMENTS.mean, g], moments[MOMENTS.sd, g]
        v = (chain.theta[j] - mean) / sd
        if first == last:
            new = rng.standard_normal()
        else:
            scale = sd * moments[MOMENTS.change, g]
            new = _slice_effect(
                rng, posterior, groups, first, last, v, spread, scale, shared, bright, out, scratch
            )
        chain.theta_new[j] = mean + sd * new
        change += 0.5 * (v * v - new * new)
        first = last
    return change
