"""Conditional Hamiltonian updates: of theta given z, then of z given theta.

A single step on a straight line is the Metropolis-adjusted Langevin algorithm.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_flymc.compat.numba import generator_at, view
from pymc_flymc.kernels.dark_rates import dark_rate, take_dark
from pymc_flymc.kernels.following import log_volume
from pymc_flymc.kernels.native import kernel, kernel_part
from pymc_flymc.kernels.posterior import (
    accept_conditional_update,
    copy,
    finite_or_minus_inf,
    run_type,
)
from pymc_flymc.kernels.rescaling import REPEATS, rescale
from pymc_flymc.kernels.sweeps import NONE, Plan, begin, update_z
from pymc_flymc.kernels.trajectory import (
    LARGEST_KICK,
    Dynamics,
    density_and_gradient,
    density_and_gradient_at,
    row_force,
    simulate,
)


@kernel_part
def bright_force(posterior, at, dynamics, chain, bright, scratch):
    """Return log p(z | theta), up to a term in theta alone, at (theta, w, gradient), `at`.

    Writes the force and the bright rows' log factors. Needs chain.dark of z.
    """
    return row_force(
        posterior,
        posterior.rows,
        posterior.log_factor_gradient,
        bright.index,
        bright.count[0],
        *at,
        chain.dark,
        dynamics,
        chain.log_factor_new,
        scratch,
    )


@kernel_part
def log_density_given_z(posterior, dynamics, chain, bright, scratch):
    """Return the log density of (v, z) at chain.v_new; write bright rows' factors and the force."""
    log_density = density_and_gradient_at(posterior, dynamics, chain)
    if not -np.inf < log_density < np.inf:
        return finite_or_minus_inf(log_density, scratch)
    at = chain.theta_new, chain.w_new, dynamics.gradient_new
    log_density += log_volume(posterior.geometry.following, chain.theta_new)
    return log_density + bright_force(posterior, at, dynamics, chain, bright, scratch)


@kernel_part
def take_force(posterior, dynamics, chain, bright, scratch):
    """Write the force at the chain's state, `dynamics.kept_force`, from `dynamics.gradient`."""
    at = chain.theta, chain.w, dynamics.gradient
    bright_force(posterior, at, dynamics, chain, bright, scratch)
    copy(dynamics.force, dynamics.kept_force)


@kernel_part(inline="always")
def update_theta(rng, stale, posterior, dynamics, chain, bright, scratch):
    """Update theta once by a conditional Hamiltonian step. Return its acceptance probability.

    Leaves `dynamics.gradient` and `kept_force` at the state; needs both, but no stale force.
    """
    if stale:
        take_dark(posterior.rows, bright, chain)
        take_force(posterior, dynamics, chain, bright, scratch)
    copy(dynamics.kept_force, dynamics.force)
    log_density = chain.log_density[0] - dark_rate(chain.dark, chain.w)
    log_density += log_volume(posterior.geometry.following, chain.theta)
    for i in range(bright.count[0]):
        log_density += bright.log_factor[i]
    arguments = (posterior, dynamics, chain, bright, scratch)
    follow, shorter = log_density_given_z, 1.0  # trajectories are not shortened
    log_ratio = simulate(
        rng, follow, arguments, log_density, LARGEST_KICK, shorter, dynamics, chain, scratch
    )
    if -rng.standard_exponential() < log_ratio:
        accept_conditional_update(chain, dynamics.log_density_new[0], bright)
        copy(dynamics.gradient_new, dynamics.gradient)
        copy(dynamics.force, dynamics.kept_force)
    return np.exp(min(0.0, log_ratio))


@functools.cache
def run_kernel(dtype: np.dtype, n_likelihoods: int = 1) -> Callable[..., Any]:
    """Return the compiled ``run(rng, n, posterior, plan, dynamics, chain, bright, scratch)``."""
    # As in `metropolis`, it makes n transitions, or starts a chain, if n = 0.

    @kernel(run_type(Plan, Dynamics, dtype=dtype, n_likelihoods=n_likelihoods))
    def run(rng, n, posterior, plan, dynamics, chain, bright, scratch):
        rng = generator_at(rng)
        posterior, plan, dynamics = view(posterior), view(plan), view(dynamics)
        chain, bright, scratch = view(chain), view(bright), view(scratch)
        if n == 0:
            begin(rng, posterior, plan, chain, bright, scratch)
            return 0.0
        rescale(rng, REPEATS, posterior, chain, bright, scratch)
        total = 0.0
        # The caller may have changed parameters or statistics since the last run.
        density_and_gradient(posterior, chain.theta, chain.w, dynamics.gradient)
        for i in range(n):
            # Sweeps change z, and the force with it. If all rows are read, z never changes.
            stale = i == 0 or plan.scheme != NONE
            total += update_theta(rng, stale, posterior, dynamics, chain, bright, scratch)
            update_z(rng, posterior, plan, chain.w, bright, scratch)
        return total / n

    return run  # type: ignore[no-any-return]
