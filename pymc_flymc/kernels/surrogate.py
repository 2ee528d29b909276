"""Joint updates of theta and z whose theta is proposed by trajectories through a surrogate."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pymc_flymc.compat.numba import generator_at, view
from pymc_flymc.kernels.dark_rates import take_dark
from pymc_flymc.kernels.following import log_volume
from pymc_flymc.kernels.fresh_brightness import (
    ATTEMPTS,
    MOVED,
    AliasTables,
    accept_z,
    draw_z,
    log_weight_of_z,
)
from pymc_flymc.kernels.geometry import unstandardise
from pymc_flymc.kernels.native import Int32Vector, Vector, kernel, kernel_part
from pymc_flymc.kernels.posterior import (
    Chain,
    accept_theta,
    conditional_metropolis,
    copy,
    copy_state,
    finite_or_minus_inf,
    is_same,
    run_type,
)
from pymc_flymc.kernels.rescaling import REPEATS, rescale_by
from pymc_flymc.kernels.rows import Rows
from pymc_flymc.kernels.trajectory import (
    LARGEST_KICK,
    Dynamics,
    density_and_gradient_at,
    new_dynamics,
    row_force,
    simulate,
)


class Surrogate(NamedTuple):
    """What a surrogate has in addition to its density."""

    tables: AliasTables  #: Of the rows outside S; the rows of S have rate zero there.
    exact: Rows  #: The rows of S.
    numbers: Int32Vector  #: Indices of the rows of S among themselves: from 0 on.
    remainder_gradient: int  #: Address of their remainders R_n, with gradients.
    walker: Chain  #: State of a proposal while it is made.


@kernel_part
def log_surrogate(posterior, surrogate, dynamics, chain, scratch):
    """Return the log of q at chain.v_new; write theta_new, w_new and the force."""
    log_density = density_and_gradient_at(posterior, dynamics, chain)
    return add_exact_rows(log_density, posterior, surrogate, dynamics, chain, scratch)


@kernel_part
def log_surrogate_of_coordinates(posterior, surrogate, dynamics, chain, scratch):
    """Return the log density under q of the coordinates chain.v_new; as `log_surrogate`."""
    log_density = log_surrogate(posterior, surrogate, dynamics, chain, scratch)
    return log_density + log_volume(posterior.geometry.following, chain.theta_new)


@kernel_part
def log_surrogate_along(posterior, surrogate, dynamics, chain, without_rows, scratch):
    """Return `log_surrogate`, and the log density without rows; read no row if coefficients stay.

    In that case the force is stale. `without_rows` is the log density without rows at chain.v.
    """
    log_density = density_and_gradient_at(posterior, dynamics, chain)
    if is_same(chain.w_new, chain.w):  # as along the ridge of a product: remainders stay, too
        log_q = finite_or_minus_inf(chain.log_density[0] + log_density - without_rows, scratch)
    else:
        log_q = add_exact_rows(log_density, posterior, surrogate, dynamics, chain, scratch)
    return log_q, log_density


@kernel_part
def add_exact_rows(log_density, posterior, surrogate, dynamics, chain, scratch):
    """Add the remainders of S to the log density without rows, and write the force."""
    if not -np.inf < log_density < np.inf:
        return finite_or_minus_inf(log_density, scratch)
    log_density += row_force(
        posterior,
        surrogate.exact,
        surrogate.remainder_gradient,
        surrogate.numbers,
        surrogate.numbers.shape[0],
        chain.theta_new,
        chain.w_new,
        dynamics.gradient_new,
        surrogate.walker.dark,  # no rows: zeros
        dynamics,
        chain.log_factor_new,
        scratch,
    )
    dynamics.log_density_new[0] = finite_or_minus_inf(log_density, scratch)
    return dynamics.log_density_new[0]


#: Share of conditional random walks. They still move in tails heavier than the surrogate's, where
#: joint updates would be stuck.
WALKS = 0.05
#: Target acceptance rate of these (Roberts, Gelman & Gilks 1997).
TARGET_WALK = 0.234


class SurrogateProposals(NamedTuple):
    """Settings of the proposals, and their adaptation."""

    #: Robbins-Monro gain, (1,); zero outside tuning, or else the chain would not be Markov.
    gain: Vector
    repeats: Vector  #: Number of trajectories in a proposal, (1,).
    walks: Vector  #: Share of conditional random walks, (1,).
    log_scale: Vector  #: Log of the random walk's scale, (1,).
    #: Buffer: force at the chain's parameters, (D,). The dynamics keep the force at the walker's.
    kept_force: Vector
    #: Buffer: log density without rows at the chain's parameters, while scales move, (1,).
    without_rows: Vector
    dynamics: Dynamics


def new_surrogate_proposals(
    n_parameters: int, n_coefficients: int, length: float, target: float
) -> SurrogateProposals:
    """Return proposals as a chain starts with them; n_coefficients is the length of chain.w."""
    d = n_parameters
    return SurrogateProposals(
        gain=np.zeros(1),
        repeats=np.ones(1),
        walks=np.full(1, WALKS),
        log_scale=np.log([2.38 / np.sqrt(d)]),
        kept_force=np.zeros(d),
        without_rows=np.zeros(1),
        dynamics=new_dynamics(d, n_coefficients, length, target),
    )


@kernel_part(inline="always")
def update_walker(rng, posterior, surrogate, proposals, scratch):
    """Update the walker once by a Hamiltonian step, reversible for q."""
    walker, dynamics = surrogate.walker, proposals.dynamics
    copy(dynamics.kept_force, dynamics.force)
    arguments = (posterior, surrogate, dynamics, walker, scratch)
    before = walker.log_density[0] + log_volume(posterior.geometry.following, walker.theta)
    follow, shorter = log_surrogate_of_coordinates, 1.0  # trajectories are not shortened
    log_ratio = simulate(
        rng, follow, arguments, before, LARGEST_KICK, shorter, dynamics, walker, scratch
    )
    if -rng.standard_exponential() < log_ratio:
        accept_theta(walker, dynamics.log_density_new[0])
        copy(dynamics.force, dynamics.kept_force)


@kernel_part
def weigh(posterior, chain, bright):
    """Write the chain's weight, which is stale after a conditional update of theta."""
    index, factors, count = bright.index, bright.log_factor, bright.count[0]
    chain.log_weight[0] = log_weight_of_z(posterior.rows, chain.w, index, factors, count)


@kernel_part
def walk(rng, posterior, surrogate, proposals, chain, bright, scratch):
    """Make one conditional random walk of theta. Return its acceptance probability."""
    scale = np.exp(proposals.log_scale[0])
    for j in range(chain.v.shape[0]):
        chain.v_new[j] = chain.v[j] + scale * rng.standard_normal()
    take_dark(posterior.rows, bright, chain)
    log_density = log_surrogate(posterior, surrogate, proposals.dynamics, chain, scratch)
    # p(theta, z) is q, less the rates of dark rows, times the bright rows' factors.
    following = posterior.geometry.following
    log_correction = log_volume(following, chain.theta_new) - log_volume(following, chain.theta)
    accepted, accept = conditional_metropolis(
        rng, log_density, log_correction, posterior, chain, bright, scratch
    )
    if accepted:
        copy(proposals.dynamics.force, proposals.kept_force)
    weigh(posterior, chain, bright)
    proposals.log_scale[0] += proposals.gain[0] * (accept - TARGET_WALK)
    return accept


@kernel_part
def move_scale(rng, log_correction, posterior, surrogate, proposals, chain, bright, scratch):
    """Update as `posterior.conditional_update` does; leave the chain's weight and force stale.

    Needs proposals.without_rows, and leaves it there; and chain.dark of z.
    """
    log_density, without_rows = log_surrogate_along(
        posterior, surrogate, proposals.dynamics, chain, proposals.without_rows[0], scratch
    )
    accepted, accept = conditional_metropolis(
        rng, log_density, log_correction, posterior, chain, bright, scratch
    )
    if accepted:
        proposals.without_rows[0] = without_rows
    return accept


@kernel_part
def rescale(rng, posterior, surrogate, proposals, chain, bright, scratch):
    """Update each scale in turn, conditionally on z. Write the mean acceptance probability."""
    dynamics = proposals.dynamics
    take_dark(posterior.rows, bright, chain)
    copy(chain.v, chain.v_new)
    proposals.without_rows[0] = density_and_gradient_at(posterior, dynamics, chain)
    arguments = (posterior, surrogate, proposals, chain, bright, scratch)
    rescale_by(rng, REPEATS, move_scale, arguments, posterior, chain)
    weigh(posterior, chain, bright)
    # Once after all moves, because it reads the rows of S.
    copy(chain.v, chain.v_new)
    chain.log_density[0] = log_surrogate(posterior, surrogate, dynamics, chain, scratch)
    copy(dynamics.force, proposals.kept_force)


@kernel_part(inline="always")
def transition(
    rng, walks, repeats, given_theta, posterior, surrogate, proposals, chain, bright, scratch
):
    """Make one transition: trajectories or a conditional random walk, then a fresh z.

    Needs the force of the chain's parameters in proposals.kept_force, and leaves it there. With
    `given_theta`, z comes from its conditional distribution given theta instead.
    """
    walker, tables = surrogate.walker, surrogate.tables
    walked = 0.0
    if walks:
        walked = walk(rng, posterior, surrogate, proposals, chain, bright, scratch)
    copy_state(chain, walker)
    copy(proposals.kept_force, proposals.dynamics.kept_force)
    for _i in range(repeats):
        update_walker(rng, posterior, surrogate, proposals, scratch)
    count, of_z = draw_z(
        rng, tables, posterior, walker.w, given_theta, chain.log_factor_new, scratch
    )
    # Bright rows alone are left in the acceptance ratio: q and the dark rows have cancelled. An
    # infinite weight would be accepted, and the chain would never leave it.
    weight = finite_or_minus_inf(of_z, scratch)
    log_ratio = weight - chain.log_weight[0]
    accept = np.exp(min(0.0, log_ratio)) if log_ratio > -np.inf else 0.0
    if -rng.standard_exponential() < log_ratio:
        copy_state(walker, chain)
        copy(proposals.dynamics.kept_force, proposals.kept_force)
        chain.log_weight[0] = weight
        accept_z(tables, chain.log_factor_new, count, bright)
    return walked if walks else accept


@functools.cache
def run_kernel(dtype: np.dtype) -> Callable[..., Any]:
    """Return the compiled `run`, as in `metropolis`."""

    @kernel(run_type(Surrogate, SurrogateProposals, dtype=dtype))
    def run(rng, n, posterior, surrogate, proposals, chain, bright, scratch):
        rng = generator_at(rng)
        posterior, surrogate, proposals = view(posterior), view(surrogate), view(proposals)
        chain, bright, scratch = view(chain), view(bright), view(scratch)
        # The caller may have changed parameters or statistics since the last run.
        copy(chain.v, chain.v_new)
        log_density = log_surrogate(posterior, surrogate, proposals.dynamics, chain, scratch)
        copy(proposals.dynamics.force, proposals.kept_force)
        begin, given_theta = n <= 0, n == MOVED
        if begin:
            unstandardise(posterior.geometry, chain.v, chain.theta)
            copy(chain.w_new, chain.w)
            bright.count[0] = 0
            chain.log_weight[0] = -np.inf
        chain.log_density[0] = log_density
        proposals.dynamics.gain[0] = proposals.gain[0]
        # At log weight -inf every proposal is accepted. Rescaling would assign a finite weight, so
        # it is left out for this draw.
        comes_in = chain.log_weight[0] == -np.inf
        if not comes_in and posterior.scales.scale.shape[0] > 0:
            rescale(rng, posterior, surrogate, proposals, chain, bright, scratch)
        total = 0.0
        for _i in range(ATTEMPTS if begin else n):
            if begin and (chain.log_weight[0] > -np.inf or log_density == -np.inf):
                break
            walks = not begin and rng.random() < proposals.walks[0]
            repeats = 0 if begin or walks else int(proposals.repeats[0])
            total += transition(
                rng,
                walks,
                repeats,
                given_theta,
                posterior,
                surrogate,
                proposals,
                chain,
                bright,
                scratch,
            )
        return 0.0 if begin else total / n

    return run  # type: ignore[no-any-return]
