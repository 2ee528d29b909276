"""Transitions that propose theta and z together: a pseudo-marginal method without memory.

Maclaurin & Adams (2014), section 5, remark that Firefly Monte Carlo with theta and z updated
together is a pseudo-marginal method. With the Taylor bound, fresh brightness cancels the remainder
of the bound: the acceptance ratio is almost the one of a sampler that reads all rows.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_flymc.compat.numba import generator_at, view
from pymc_flymc.kernels.dark_rates import take_dark
from pymc_flymc.kernels.fresh_brightness import (
    ATTEMPTS,
    MOVED,
    AliasTables,
    accept_z,
    draw_z,
    log_weight_of_z,
)
from pymc_flymc.kernels.metropolis import (
    INDEPENDENT,
    PCN,
    RANDOM_WALK,
    ProposalMixture,
    pick,
    propose_pcn,
    update_theta,
)
from pymc_flymc.kernels.native import kernel, kernel_part
from pymc_flymc.kernels.posterior import (
    accept_theta,
    conditional_update,
    finite_or_minus_inf,
    log_density_at,
    run_type,
)
from pymc_flymc.kernels.rescaling import REPEATS, rescale_by

#: Kind of a transition that draws fresh z and does not move theta, for the start of a chain.
REFRESHMENT = -1


@kernel_part
def log_weight(log_density, v, of_z):
    """Return log W(theta, z): log of the augmented density over the proposal's density.

    The augmented density is given in `dark_rates`. The proposal's is N(v; 0, I) times the one of z;
    `of_z` is what `log_weight_of_z` returns.
    """
    total = log_density
    for j in range(v.shape[0]):
        total += 0.5 * v[j] * v[j]
    return total + of_z


@kernel_part
def weigh(posterior, chain, bright):
    """Write the chain's weight, which is stale after a conditional update of theta."""
    index, factors, count = bright.index, bright.log_factor, bright.count[0]
    of_z = log_weight_of_z(posterior.rows, chain.w, index, factors, count)
    chain.log_weight[0] = log_weight(chain.log_density[0], chain.v, of_z)


@kernel_part(inline="always")
def update_joint(rng, beta, given_theta, posterior, tables, chain, bright, scratch):
    """Update (theta, z) once by Metropolis-Hastings. Return the acceptance probability.

    theta is proposed by pCN, which is reversible for the Laplace approximation. For beta = 1 it is
    independent of the state. For beta = 0 it stays, and z alone is refreshed. With `given_theta`, z
    comes from its conditional distribution given theta instead.
    """
    propose_pcn(rng, beta, chain.v, chain.v_new)
    log_density = log_density_at(posterior, chain)
    if not finite_or_minus_inf(log_density, scratch) > -np.inf:
        return 0.0
    count, of_z = draw_z(
        rng, tables, posterior, chain.w_new, given_theta, chain.log_factor_new, scratch
    )
    # An infinite weight would be accepted, and the chain would never leave it.
    weight = finite_or_minus_inf(log_weight(log_density, chain.v_new, of_z), scratch)
    log_ratio = weight - chain.log_weight[0]
    if -rng.standard_exponential() < log_ratio:
        accept_theta(chain, log_density)
        chain.log_weight[0] = weight
        accept_z(tables, chain.log_factor_new, count, bright)
    return np.exp(min(0.0, log_ratio)) if log_ratio > -np.inf else 0.0


@kernel_part(inline="always")
def transition(rng, kind, given_theta, posterior, tables, proposals, chain, bright, scratch):
    """Make one transition: a joint update, or a conditional random walk and a refreshment of z."""
    # The walk still moves in tails heavier than the Laplace approximation's, where joint updates
    # would be stuck.
    walked, beta = 0.0, 0.0
    if kind == RANDOM_WALK:
        walked = update_theta(rng, kind, posterior, proposals, chain, bright, scratch)
        weigh(posterior, chain, bright)
    elif kind == INDEPENDENT:
        beta = 1.0
    elif kind == PCN:
        # pCN with a step drawn at random: large ones for the bulk, small ones for the tails.
        beta = rng.random()
    # (One call for all kinds: a second call would keep the compiler from inlining it.)
    accept = update_joint(rng, beta, given_theta, posterior, tables, chain, bright, scratch)
    if kind == RANDOM_WALK or kind == REFRESHMENT:
        return walked
    proposals.proposed[kind] += 1.0
    # On average |v' - v|^2 is 2 (1 - rho) |v|^2.
    jump = 2.0 * (1.0 - np.sqrt(1.0 - beta * beta)) * chain.v.shape[0]
    proposals.jumped[kind] += accept * jump
    return accept


@functools.cache
def run_kernel(dtype: np.dtype) -> Callable[..., Any]:
    """Return the compiled `run`, as in `metropolis`."""

    @kernel(run_type(AliasTables, ProposalMixture, dtype=dtype))
    def run(rng, n, posterior, tables, proposals, chain, bright, scratch):
        rng = generator_at(rng)
        posterior, tables, proposals = view(posterior), view(tables), view(proposals)
        chain, bright, scratch = view(chain), view(bright), view(scratch)
        begin, given_theta = n <= 0, n == MOVED
        if begin:
            bright.count[0] = 0
            chain.log_density[0] = chain.log_weight[0] = -np.inf
        elif posterior.scales.scale.shape[0] > 0:
            # A move reads as many rows as a transition, and proposals rarely miss a small scale.
            take_dark(posterior.rows, bright, chain)
            arguments = (posterior, chain, bright, scratch)
            # (Its bounds have no parts, with which brightness could change. That code is long.)
            rescale_by(rng, min(REPEATS, n), conditional_update, arguments, posterior, chain)
            weigh(posterior, chain, bright)
        total = 0.0
        for _i in range(ATTEMPTS if begin else n):
            if begin and chain.log_weight[0] > -np.inf:
                break
            kind = REFRESHMENT if begin else pick(rng, proposals.weight)
            total += transition(
                rng, kind, given_theta, posterior, tables, proposals, chain, bright, scratch
            )
        return 0.0 if begin else total / n

    return run  # type: ignore[no-any-return]
