"""Updates of the brightness variables z given theta."""

from typing import Annotated, NamedTuple

import numpy as np
from numba import types

from pymc_flymc.kernels.brightness import brighten, darken, is_bright
from pymc_flymc.kernels.dark_rates import rate_of
from pymc_flymc.kernels.factors import CHUNK, log_factors, nan_is_dark
from pymc_flymc.kernels.geometry import unstandardise
from pymc_flymc.kernels.native import Int32Vector, IntVector, Vector, kernel_part, unwritten
from pymc_flymc.kernels.posterior import log_density_of


@kernel_part
def _boost_groups(groups, w):
    """Write the factor on the rates at which dark rows are proposed, for each group."""
    # A bound's gap grows with the squared distance of the group's effect from where the bound
    # touches. The factor depends on parameters, which do not move while brightness does.
    slack = groups.slack
    for g in range(groups.boost.shape[0]):
        z = (w[groups.column + g] - groups.touching[g]) / groups.sd[g]
        groups.boost[g] = (slack + z * z) / (slack + 1.0)


@kernel_part(inline="always")
def sweep_groups(rng, posterior, groups, w, bright, scratch):
    """Update the brightness of all rows by Metropolis-Hastings, group by group.

    As in `sweeps.implicit_sweep`, which explains why dark rows come first. Here probabilities grow
    with the distance of a group's effect from where its bounds touch. Far from there rows are
    bright more often, and with fixed probabilities they would rarely become bright.

    Proposals are the events of a Poisson process along the rows: a row is proposed if it has an
    event. The waiting time that is left at a group's end carries over to the next group, so that a
    group without proposals costs one comparison.
    """
    plan, n_bright, pending = groups.plan, bright.count[0], 0
    q, level, boost = plan.q, plan.level, groups.boost
    _boost_groups(groups, w)
    wait = rng.standard_exponential()
    for g in range(groups.end.shape[0]):
        place, stop, most = plan.start[g], plan.start[g + 1], boost[g] * groups.q_max[g]
        while wait < most * (stop - place):
            place += min(int(wait / most), stop - place - 1)  # the quotient is rounded
            n = plan.order[place]
            place += 1
            # A Poisson process has no memory: a new waiting time starts at the next row.
            wait = rng.standard_exponential()
            own = boost[g] * q[level[n]]
            # Rows are proposed at the group's largest rate, and thinned to their own rates.
            if not is_bright(bright, n) and rng.random() < np.expm1(-own) / np.expm1(-most):
                plan.candidates[pending] = n
                groups.rate[pending] = own
                pending += 1
                if pending == CHUNK:
                    _brighten_candidates_of_group(
                        rng, posterior, groups, pending, w, bright, scratch
                    )
                    pending = 0
        wait -= most * (stop - place)
    _brighten_candidates_of_group(rng, posterior, groups, pending, w, bright, scratch)
    for i in range(n_bright - 1, -1, -1):
        n = bright.index[i]
        log_p = log_probability(boost[posterior.rows.codes[n, 0]] * q[level[n]])
        # Bright -> dark is accepted with min(1, p / (L/B - 1)).
        if -rng.standard_exponential() < log_p - bright.log_factor[i]:
            darken(bright, i)


@kernel_part(inline="always")
def log_probability(rate):
    """Return the log of the probability that a Poisson process of a rate has an event."""
    return np.log(-np.expm1(-rate))


@kernel_part
def _brighten_candidates_of_group(rng, posterior, groups, size, w, bright, scratch):
    plan, log_factor = groups.plan, posterior.log_factor
    log_factors(posterior.rows, log_factor, w, plan.candidates, 0, size, plan.log_factor, scratch)
    for i in range(size):
        # Dark -> bright was proposed with probability p: accepted with min(1, (L/B - 1) / p).
        log_odds = nan_is_dark(plan.log_factor[i], scratch)
        log_ratio = log_odds - log_probability(groups.rate[i])
        if -rng.standard_exponential() < log_ratio:
            brighten(bright, plan.candidates[i], plan.log_factor[i])


NONE, IMPLICIT, WITH_REPLACEMENT, WITHOUT_REPLACEMENT, CYCLE = range(5)


class Plan(NamedTuple):
    """How z is resampled; see `pymc_flymc.target.resampling`."""

    scheme: int  #: One of the constants of this module.
    sweeps: int  #: Sweeps after each update of theta.
    size: int  #: Explicit schemes: number of rows visited in a sweep.
    cursor: IntVector  #: CYCLE: the next row to visit, (1,). Part of a chain's state.
    #: WITHOUT_REPLACEMENT: the last sweep that visited a row; ``stamp_now[0]`` is the current one.
    stamp: IntVector
    stamp_now: IntVector
    q: Vector  #: IMPLICIT: probability of proposing a dark row, by level, (L,).
    #: IMPLICIT: rows sorted by level, (N,) or (0,); level l has order[start[l]:start[l + 1]].
    order: Annotated[np.ndarray, unwritten(types.int32)]
    start: IntVector
    #: IMPLICIT: level of each row, (N,) or (0,).
    level: Annotated[np.ndarray, unwritten(types.uint8)]
    candidates: Int32Vector  #: Buffer, (CHUNK,), as `log_factor` is.
    log_factor: Vector


@kernel_part(inline="always")
def update_z(rng, posterior, plan, w, bright, scratch):
    """Update z given theta, by the plan's number of sweeps."""
    for _i in range(plan.sweeps):
        sweep(rng, plan, posterior.rows, posterior.log_factor, w, bright, scratch)


@kernel_part(inline="always")
def sweep(rng, plan, rows, log_factor, w, bright, scratch):
    """Update z once by the plan's scheme."""
    if plan.scheme == IMPLICIT:
        implicit_sweep(rng, plan, rows, log_factor, w, bright, scratch)
    elif plan.scheme != NONE:
        explicit_sweep(rng, plan, rows, log_factor, w, bright, scratch)


@kernel_part(inline="always")
def implicit_sweep(rng, plan, rows, log_factor, w, bright, scratch):
    """Update all rows by Metropolis-Hastings, in time proportional to the number of proposals.

    Algorithm 2 of Maclaurin & Adams (2014) with a proposal probability q by level instead of one.
    A row is updated once per sweep: rows bright at its start may darken, dark rows may brighten.
    If a row that has just darkened could brighten again, its conditional distribution would not be
    invariant. Hence dark rows are visited first, and those that brighten stay beyond `n_bright`.
    """
    n_bright = bright.count[0]
    pending = 0
    for level in range(plan.q.shape[0]):
        place = plan.start[level] - 1
        stop = plan.start[level + 1]
        while True:
            # The distance to the next proposal is geometric: rows in between are never visited.
            place += rng.geometric(plan.q[level])
            # A geometric variate can exceed the integers when q is tiny: then it wraps below zero.
            if place >= stop or place < 0:
                break
            n = plan.order[place]
            if not is_bright(bright, n):
                plan.candidates[pending] = n
                pending += 1
                if pending == CHUNK:
                    _brighten_candidates(rng, plan, pending, rows, log_factor, w, bright, scratch)
                    pending = 0
    _brighten_candidates(rng, plan, pending, rows, log_factor, w, bright, scratch)
    # Backwards: the row that takes a darkened row's place needs no visit, because it has had one or
    # has brightened in this sweep.
    for i in range(n_bright - 1, -1, -1):
        n = bright.index[i]
        log_odds = bright.log_factor[i] + rate_of(rows, w, n)
        # Bright -> dark is always proposed and accepted with min(1, q / (L/B - 1)).
        if -rng.standard_exponential() < np.log(plan.q[plan.level[n]]) - log_odds:
            darken(bright, i)


@kernel_part
def _brighten_candidates(rng, plan, size, rows, log_factor, w, bright, scratch):
    log_factors(rows, log_factor, w, plan.candidates, 0, size, plan.log_factor, scratch)
    for i in range(size):
        n = plan.candidates[i]
        log_odds = nan_is_dark(plan.log_factor[i] + rate_of(rows, w, n), scratch)
        # Dark -> bright was proposed with probability q: accepted with min(1, (L/B - 1) / q).
        if -rng.standard_exponential() < log_odds - np.log(plan.q[plan.level[n]]):
            brighten(bright, n, plan.log_factor[i])


@kernel_part(inline="always")
def explicit_sweep(rng, plan, rows, log_factor, w, bright, scratch):
    """Update a subset of the rows by Gibbs (Maclaurin & Adams 2014, Algorithm 1, lines 3 to 6)."""
    n_rows = bright.slot.shape[0]
    plan.stamp_now[0] += 1
    drawn = 0
    while drawn < plan.size:
        size = min(plan.size - drawn, CHUNK)
        for i in range(size):
            if plan.scheme == CYCLE:
                n = plan.cursor[0]
                plan.cursor[0] = (n + 1) % n_rows
            elif plan.scheme == WITHOUT_REPLACEMENT:
                # Floyd's algorithm: a uniform subset from exactly `size` draws, no rejections.
                j = n_rows - plan.size + drawn + i
                n = rng.integers(0, j + 1)
                if plan.stamp[n] == plan.stamp_now[0]:
                    n = j
                plan.stamp[n] = plan.stamp_now[0]
            else:
                n = rng.integers(0, n_rows)
            plan.candidates[i] = n
        gibbs_candidates(rng, plan, size, rows, log_factor, w, bright, scratch)
        drawn += size


@kernel_part(inline="always")
def begin(rng, posterior, plan, chain, bright, scratch):
    """Start a chain at chain.v: evaluate the density, and draw all of z given theta. O(N)."""
    # If the odds of a row are NaN, so is the density of the parameters: it is taken as zero.
    unstandardise(posterior.geometry, chain.v, chain.theta)
    chain.log_density[0] = log_density_of(posterior, chain.theta, chain.w)
    rows, log_factor, w = posterior.rows, posterior.log_factor, chain.w
    n_rows, before = bright.slot.shape[0], scratch.not_finite[0]
    start = 0
    while start < n_rows:
        size = min(n_rows - start, CHUNK)
        for i in range(size):
            plan.candidates[i] = start + i
        gibbs_candidates(rng, plan, size, rows, log_factor, w, bright, scratch)
        start += size
    if scratch.not_finite[0] > before:
        chain.log_density[0] = -np.inf
        scratch.not_finite[0] = before  # no proposal was rejected


@kernel_part
def gibbs_candidates(rng, plan, size, rows, log_factor, w, bright, scratch):
    """Draw z_n given theta, one after the other, for the rows in plan.candidates[:size]."""
    # Without a bound (scheme NONE) B = 0: all rows are bright, and their log factor is log L
    # itself. Rows whose rate is infinite are bright, too.
    log_factors(rows, log_factor, w, plan.candidates, 0, size, plan.log_factor, scratch)
    for i in range(size):
        n = plan.candidates[i]
        rate = rate_of(rows, w, n)
        log_odds = nan_is_dark(plan.log_factor[i] + rate, scratch)
        # A row drawn twice is updated twice: what counts is whether it is bright now.
        if is_bright(bright, n):
            darken(bright, bright.slot[n] - 1)
        # P(z_n = 1) = 1 - B/L = odds / (1 + odds).
        # A row that is always bright is so even if its likelihood, and so the density, is zero.
        always = plan.scheme == NONE or rate == np.inf
        if always or rng.random() < 1.0 / (1.0 + np.exp(-log_odds)):
            brighten(bright, n, plan.log_factor[i])
