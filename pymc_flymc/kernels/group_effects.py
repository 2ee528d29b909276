"""Updates of group effects one by one, given all other parameters and the brightness of rows.

Given these, the effects of different groups are independent. The density of each is normal, from
its prior and the collapsed bounds, times the pseudo-likelihood terms of its own bright rows. So one
sweep updates all groups, in time proportional to the number of groups and of bright rows. A group
that is held back by its rows does not hold back any other.
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
#: Share of sweeps that slice along a wider normal distribution, and the log2 of how much wider its
#: sd is at most. A bound that touches a sharp peak, as of Laplace noise, may be far narrower than
#: the posterior. Along such a one an effect has to go out step by step, each the smaller the
#: further it is: of tails that are in a tenth of the posterior, chains saw nothing.
WIDE, WIDEST = 0.1, 8.0


class Groups(NamedTuple):
    """The effects of one grouping factor, and how the brightness of their rows is resampled.

    G is the number of groups, Q that of groups with rows, which come first, and N that of rows.

    Attributes
    ----------
    plan : Plan
        Of implicit resampling. ``order`` has rows sorted by group: those of group g are
        ``order[start[g]:start[g + 1]]``. Its probabilities q are rates: a row is proposed with
        probability 1 - exp(-c q), where c depends on its group's effect.
    moments, vjp : int
        Addresses of native functions. The first is called like a density: it writes the effects'
        `Moments`, and returns the sum of the logs of sds. The second is the vector-Jacobian product
        of slopes in means and sds.
    elements, others : ndarray, shapes (G,) and (D - G,), int64
        Places in theta: of the effect of each column, and of all other parameters.
    column : int
        Place of the first effect's coefficient in w.
    q_max : ndarray, shape (Q,)
        Largest rate among the rows of each group.
    touching, sd : ndarray, shape (Q,)
        Coefficients at which bounds touch, and their approximate posterior sds.
    slack : float
        How much bounds are lowered, in expected gaps.
    boost : ndarray, shape (Q,)
        Buffer: the factor on the rates of the rows of each group.
    end : ndarray, shape (Q,), int32
        Buffer: where the bright rows of each group end, sorted by group.
    code, index : ndarray, shape (N,), int32
        Buffers: the group of each bright row; and the rows' numbers while they are sorted.
    eta, moved : ndarray, shape (N, 1)
        Buffers: predictors of the bright rows, and those at another value of their effect.
    constants : ndarray, shape (N, R)
        Buffer: constants of the bright rows.
    rate : ndarray, shape (CHUNK,)
        Buffer: rates at which candidates were proposed.
    """

    plan: Plan
    moments: int
    vjp: int
    elements: IntVector
    others: IntVector
    column: int
    q_max: Vector
    touching: Vector
    sd: Vector
    slack: Annotated[float, types.float64]
    boost: Vector
    end: Int32Vector
    code: Int32Vector
    index: Int32Vector  # type: ignore[assignment]  # hides tuple.index, never wanted here
    eta: Matrix
    moved: Matrix
    constants: Matrix
    rate: Vector


def new_groups(n_rows: int, n_constants: int, n_groups: int, **known: Any) -> Groups:
    """Return the record with its buffers; those of rows are committed as they are touched."""
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
    """Write the effects' `Moments`, shape (3, G); return the sum of the logs of their sds."""
    return call_density(groups.moments, theta, posterior.statistics, moments.ravel())


@kernel_part
def sort_by_group(rows, groups, bright):
    """Sort the bright rows by group, and write where those of each group end.

    The order of bright rows is arbitrary. Sorted, they are read one group after the other.
    """
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
    """Return the sum of the log factors of a group's bright rows, predictors moved by a shift.

    Writes them to out[first:last].
    """
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
    """Return another value of a standardised effect v, of which rows first to last are bright.

    By elliptical slice sampling (Murray, Adams & MacKay 2010, figure 2): without these rows v is
    N(0, 1), which is N(0, spread^2) times another factor. Predictors change by `scale` times the
    change of v.
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

    `spread` is as of `draw_spread`. Needs the `Moments` at chain.theta. Returns the change of the
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
