"""Updates of group effects one by one, given all other parameters and the brightness of rows.

Given these the effects of different groups are independent: each has a normal distribution, from
its prior and from the collapsed bounds, times the pseudo-likelihood terms of its own bright rows.
So one sweep updates all groups, in time proportional to the groups and the bright rows, and a group
that is held back by its rows holds no other.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numba import types

from pymc_flymc.kernels.brightness import brighten, darken, is_bright
from pymc_flymc.kernels.density import call_density
from pymc_flymc.kernels.factors import CHUNK, log_factors, refuse_violations
from pymc_flymc.kernels.layout import MOMENTS
from pymc_flymc.kernels.native import call_log_factor, kernel_part
from pymc_flymc.kernels.records import Int32Vector, IntVector, Vector
from pymc_flymc.kernels.rows import row_predictors, shared_part
from pymc_flymc.kernels.sweeps import Plan

__all__ = [
    "Groups",
    "link_rows_of_groups",
    "moments_at",
    "propose_effects",
    "sweep_groups",
]

TWO_PI = 2.0 * np.pi
#: Angles below which a bracket has shrunk to the present point itself.
LEAST_ANGLE = 1e-12


class Groups(NamedTuple):
    """The effects of one grouping factor, and how the brightness of their rows is resampled.

    G is the number of groups, N that of rows.

    Attributes
    ----------
    plan : Plan
        Of implicit resampling. ``order`` has rows sorted by group, group g having
        ``order[start[g]:start[g + 1]]``.
    moments, vjp : int
        Addresses of native functions: of the effects' `Moments` with the sum of the logs of sds, as
        of a density, and of the vector-Jacobian product of slopes in means and sds.
    elements, others : ndarray, shapes (G,) and (D - G,), int64
        Places in theta: of the effect of each column, and of all other parameters.
    column : int
        Place of the first effect's coefficient in w.
    q_max : ndarray, shape (G,)
        Largest probability of a row's being proposed among the rows of each group.
    touching, sd : ndarray, shape (G,)
        Coefficients at which bounds touch, and their posterior sds, about.
    slack : float
        By which bounds are lowered, in expected gaps.
    boost : ndarray, shape (G,)
        Buffer: what multiplies the probabilities of the rows of each group.
    first : ndarray, shape (G,), int32
        Buffer: place of the first bright row of a group among the bright ones, or -1.
    following : ndarray, shape (N,), int32
        Buffer: place of the next bright row of the same group, or -1.
    members : ndarray, shape (CHUNK,), int32
        Buffer.
    eta : ndarray, shape (N,)
        Buffer: predictors of the bright rows.
    log_q : ndarray, shape (CHUNK,)
        Buffer: logs of the probabilities with which candidates were proposed.
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
    first: Int32Vector
    following: Int32Vector
    members: Int32Vector
    eta: Vector
    log_q: Vector


@kernel_part
def moments_at(posterior, groups, theta, moments):
    """Write the effects' `Moments`, shape (3, G); return the sum of the logs of their sds."""
    return call_density(groups.moments, theta, posterior.statistics, moments.ravel())


@kernel_part
def link_rows_of_groups(posterior, groups, w, bright, scratch):
    """Write which bright rows are in each group, and their predictors."""
    rows, first, following = posterior.rows, groups.first, groups.following
    for g in range(first.shape[0]):
        first[g] = -1
    start, n_bright = 0, bright.count[0]
    while start < n_bright:
        size = min(n_bright - start, CHUNK)
        row_predictors(rows, w, bright.index, start, size, scratch.eta, scratch.block)
        for i in range(start, start + size):
            groups.eta[i] = scratch.eta[i - start, 0]
            g = rows.codes[bright.index[i], 0]
            following[i] = first[g]
            first[g] = i
        start += size


@kernel_part(inline="always")
def _log_factors_of_group(posterior, groups, g, shift, shared, bright, out, scratch):
    """Return the sum of the log factors of a group's bright rows, predictors moved by a shift.

    Writes them to `out`, at the places of the bright rows.
    """
    rows, total, i = posterior.rows, 0.0, groups.first[g]
    while i >= 0:
        size = 0
        while i >= 0 and size < CHUNK:
            n = bright.index[i]
            scratch.eta[size, 0] = groups.eta[i] + shift
            for r in range(rows.constants.shape[1]):
                scratch.constants[size, r] = rows.constants[n, r]
            groups.members[size] = i
            i = groups.following[i]
            size += 1
        values, constants = groups.plan.log_factor[:size], scratch.constants[:size]
        call_log_factor(posterior.log_factor, scratch.eta[:size], constants, shared, values)
        scratch.queries[0] += size
        for k in range(size):
            place = groups.members[k]
            out[place] = values[k]
            refuse_violations(bright.index, place, place + 1, out, scratch)
            total += out[place]
    return total


@kernel_part(inline="always")
def _slice_effect(rng, posterior, groups, g, v, scale, shared, bright, out, scratch):
    """Return another value of a standardised effect v that has bright rows.

    By elliptical slice sampling (Murray, Adams & MacKay 2010, figure 2): N(0, 1) is its
    distribution without them. `scale` says how far predictors move with it.
    """
    before, i = 0.0, groups.first[g]
    while i >= 0:
        before += bright.log_factor[i]
        i = groups.following[i]
    level = -rng.standard_exponential()  # log of a uniform height below the present density
    other = rng.standard_normal()
    angle = TWO_PI * rng.random()
    low, high = angle - TWO_PI, angle
    while True:
        new = v * np.cos(angle) + other * np.sin(angle)
        shift = scale * (new - v)
        total = _log_factors_of_group(posterior, groups, g, shift, shared, bright, out, scratch)
        if level < total - before or angle == 0.0:
            return new
        if angle < 0.0:
            low = angle
        else:
            high = angle
        # Shrunk to the present point itself, which rounding may put outside the slice: stay.
        angle = low + (high - low) * rng.random() if high - low > LEAST_ANGLE else 0.0


@kernel_part
def propose_effects(rng, posterior, groups, moments, chain, bright, scratch):
    """Write effects that all groups have updated to chain.theta_new, and their rows' log factors.

    Needs the `Moments` at chain.theta. Returns the change that this makes to the log density
    without rows, if they are right.
    """
    link_rows_of_groups(posterior, groups, chain.w, bright, scratch)
    shared, n_groups = shared_part(posterior.rows, chain.w), groups.first.shape[0]
    for j in range(chain.theta.shape[0]):
        chain.theta_new[j] = chain.theta[j]
    change = 0.0
    for g in range(n_groups):
        j = groups.elements[g]
        mean, sd = moments[MOMENTS.mean, g], moments[MOMENTS.sd, g]
        v = (chain.theta[j] - mean) / sd
        if groups.first[g] < 0:
            new = rng.standard_normal()
        else:
            scale, out = sd * moments[MOMENTS.change, g], chain.log_factor_new
            new = _slice_effect(rng, posterior, groups, g, v, scale, shared, bright, out, scratch)
        chain.theta_new[j] = mean + sd * new
        change += 0.5 * (v * v - new * new)
    return change


@kernel_part
def _boost_groups(groups, w):
    """Write what multiplies the probabilities with which the dark rows of groups are proposed.

    A bound's gap grows with the squared distance of the group's effect from where it touches. It
    depends on parameters, which do not move while brightness does.
    """
    slack = groups.slack
    for g in range(groups.boost.shape[0]):
        z = (w[groups.column + g] - groups.touching[g]) / groups.sd[g]
        groups.boost[g] = (slack + z * z) / (slack + 1.0)


@kernel_part(inline="always")
def sweep_groups(rng, posterior, groups, w, bright, scratch):
    """Metropolis-Hastings updates of the brightness of all rows, group by group.

    As `sweeps.implicit_sweep`, which says why dark rows come first, with probabilities that grow
    with the distance of a group's effect from where its bounds touch: there rows are bright more
    often, and with fixed probabilities they would seldom become so.
    """
    plan, n_bright, pending = groups.plan, bright.count[0], 0
    q, level, boost = plan.q, plan.level, groups.boost
    _boost_groups(groups, w)
    for g in range(groups.first.shape[0]):
        place, stop = plan.start[g] - 1, plan.start[g + 1]
        if place + 1 == stop:
            continue
        most = min(1.0, boost[g] * groups.q_max[g])
        while True:
            place += rng.geometric(most)
            # A geometric variate can exceed the integers: then it wraps below zero.
            if place >= stop or place < 0:
                break
            n = plan.order[place]
            if is_bright(bright, n):
                continue
            own = min(1.0, boost[g] * q[level[n]])
            # Of the rows that the group's largest probability proposes, those that their own does.
            if rng.random() < own / most:
                plan.candidates[pending] = n
                groups.log_q[pending] = np.log(own)
                pending += 1
            if pending == CHUNK:
                _brighten_candidates(rng, posterior, groups, pending, w, bright, scratch)
                pending = 0
    _brighten_candidates(rng, posterior, groups, pending, w, bright, scratch)
    for i in range(n_bright - 1, -1, -1):
        n = bright.index[i]
        log_q = np.log(min(1.0, boost[posterior.rows.codes[n, 0]] * q[level[n]]))
        # Bright -> dark is accepted with min(1, q / (L/B - 1)).
        if -rng.standard_exponential() < log_q - bright.log_factor[i]:
            darken(bright, i)


@kernel_part
def _brighten_candidates(rng, posterior, groups, size, w, bright, scratch):
    plan, log_factor = groups.plan, posterior.log_factor
    log_factors(posterior.rows, log_factor, w, plan.candidates, 0, size, plan.log_factor, scratch)
    for i in range(size):
        # Dark -> bright was proposed with probability q: accepted with min(1, (L/B - 1) / q).
        if -rng.standard_exponential() < plan.log_factor[i] - groups.log_q[i]:
            brighten(bright, plan.candidates[i], plan.log_factor[i])
