"""Moves of a scale and of all effects that share it: exact for any choice of elements.

With few rows in each group, a small scale tau leaves its effects little room. Steps that suit all
other parameters are rejected there, so that chains rarely reach small scales. Here log tau changes
by delta, and the effects' distances from their location by the factor exp(delta), as if they were
written as location + tau * z.

If effects are written in this way, z has little room: many rows determine tau * z, and the ridge
along which it is constant is narrower for smaller z. Then z changes by the factor exp(-delta), so
that the effects stay, as if they were centred. A chain mixes if either way suits (Yu & Meng 2011).
A third kind of move keeps the coordinates of `following`, which are between the two.

Yu, Y. and Meng, X.-L. (2011). To center or not to center: that is not the question. Journal of
Computational and Graphical Statistics 20, 531-570.
"""

import numpy as np

from pymc_flymc.kernels.adjusted_brightness import adjusted_update
from pymc_flymc.kernels.dark_rates import take_dark
from pymc_flymc.kernels.following import (
    gather_effects,
    is_followed,
    location_of,
    log_volume,
    spread_effects,
)
from pymc_flymc.kernels.geometry import standardise, standardise_x
from pymc_flymc.kernels.native import kernel_part
from pymc_flymc.kernels.posterior import copy
from pymc_flymc.kernels.shared_scales import SharedScales
from pymc_flymc.kernels.shifts import propose_shift

#: Smallest and largest standard deviation of a change of log tau. It is uniform in its logarithm:
#: with few rows the posterior is some units wide, with many a few hundredths.
SMALLEST, LARGEST = 0.02, 2.0
#: Moves of each scale per draw. In a funnel of five effects, 22 rows, log tau had two to three
#: times as many effective draws as with one move, for at most a fifth more time.
REPEATS = 4
#: Moves in following coordinates that replace each of these but the first, if effects follow the
#: scale, or if the scale multiplies its effects and brightness can change with it.
FOLLOWED = 3
#: Smallest and largest standard deviation of such a move, in units of the preconditioner's.
NARROWEST, WIDEST = 0.6, 2.4
#: Scales of more effects than this move once per draw, unless effects follow them. Their
#: posteriors are rarely funnels, and so narrow that most of these moves are rejected, each at the
#: price of half a gradient. But of many effects that hardly differ the scale's density falls off so
#: fast above that trajectories which suit all else are rejected there.
MANY = 100
#: Most moves per draw. With more scales, some move in one draw, others in another.
MOST_MOVES = 64


def reading_moves(scales: SharedScales) -> int:
    """Return the number of moves of scales, once each, that read rows."""
    return min(scales.n_reading, MOST_MOVES)


@kernel_part
def propose_rescaling(rng, posterior, k, chain):
    """Propose chain.v_new, with scale k and its effects changed; return the log Jacobian.

    The change of log tau is symmetric around zero, whatever the state, and the change back undoes
    it. Effects are stretched by exp(change), or shrunk by it, around locations that stay: only they
    contribute to the Jacobian.
    """
    scales, theta = posterior.scales, chain.theta_new
    copy(chain.theta, theta)
    change = SMALLEST * (LARGEST / SMALLEST) ** rng.random() * rng.standard_normal()
    theta[scales.scale[k]] += change
    log_jacobian = 0.0
    for i in range(scales.first[k], scales.first[k + 1]):
        j = scales.effects[i]
        location = location_of(scales.locations, i, theta)
        theta[j] = location + (theta[j] - location) * np.exp(scales.power[i] * change)
        log_jacobian += scales.power[i] * change
    standardise(posterior.geometry, theta, chain.v_new)
    return log_jacobian


@kernel_part
def propose_followed(rng, posterior, k, chain):
    """Propose chain.v_new, with scale k changed in following coordinates; return the log Jacobian.

    Effects have the same room there for all scales. So the change can be as large as the scale's
    posterior is wide, by the preconditioner. It is symmetric, and its width depends on no state.
    """
    geometry, theta, scale = posterior.geometry, chain.theta_new, posterior.scales.scale[k]
    copy(geometry.centre, theta)
    theta[scale] += 1.0
    standardise_x(geometry, theta, chain.v_new)
    square = 0.0
    for j in range(theta.shape[0]):
        square += chain.v_new[j] * chain.v_new[j]
    width = NARROWEST * (WIDEST / NARROWEST) ** rng.random() / np.sqrt(square)
    copy(chain.theta, theta)
    gather_effects(geometry.following, theta)
    theta[scale] += width * rng.standard_normal()
    spread_effects(geometry.following, theta)
    standardise(geometry, theta, chain.v_new)
    following = geometry.following
    return log_volume(following, theta) - log_volume(following, chain.theta)


@kernel_part(inline="always")
def rescale(rng, repeats, posterior, chain, bright, scratch):
    """Update each scale up to `repeats` times, with z if the bound allows, then common shifts.

    Write the mean acceptance probability of the former.
    """
    if posterior.scales.scale.shape[0] > 0:
        take_dark(posterior.rows, bright, chain)
        arguments = (posterior.rows, posterior, chain, bright, scratch)
        rescale_by(rng, repeats, adjusted_update, arguments, posterior, chain)


@kernel_part(inline="always")
def rescale_by(rng, repeats, move, arguments, posterior, chain):
    """Update scales and common shifts by a kernel's own Metropolis-Hastings test, `move`.

    ``move(rng, log_correction, *arguments)`` accepts or rejects chain.v_new, and returns the
    acceptance probability. The most moves of each scale, `repeats`, must not depend on the state.
    """
    scales, following, total, n_moves = posterior.scales, posterior.geometry.following, 0.0, 0
    n_scales, n_shifts = scales.scale.shape[0], posterior.shifts.first.shape[0] - 1
    of_scales = min(repeats * n_scales, MOST_MOVES)
    of_shifts = min(repeats * n_shifts, MOST_MOVES)
    # If only some of many scales move, which ones must not depend on the state.
    start = rng.integers(0, n_scales) if n_scales > MOST_MOVES else 0
    first = rng.integers(0, n_shifts) if n_shifts > MOST_MOVES else 0
    for i in range(of_scales + of_shifts):
        is_shift, k, n_proposals, in_coordinates = i >= of_scales, (start + i) % n_scales, 1, False
        if n_scales <= i < of_scales:  # a scale, not for the first time
            multiplies = scales.power[scales.first[k]] < 0.0
            in_coordinates = is_followed(following, scales.scale[k])
            in_coordinates |= multiplies and posterior.columns.near.shape[0] > 0
            if in_coordinates:
                n_proposals = FOLLOWED
            elif scales.first[k + 1] - scales.first[k] > MANY:
                continue
        for _j in range(n_proposals):
            log_jacobian = 0.0
            if is_shift:
                propose_shift(rng, posterior, (first + i - of_scales) % n_shifts, chain)
            elif in_coordinates:
                log_jacobian = propose_followed(rng, posterior, k, chain)
            else:
                log_jacobian = propose_rescaling(rng, posterior, k, chain)
            # (A single call: a second one would keep the compiler from inlining it.)
            accept = move(rng, log_jacobian, *arguments)
            total += 0.0 if is_shift else accept
            n_moves += not is_shift
    chain.rescaled[0] = total / n_moves
