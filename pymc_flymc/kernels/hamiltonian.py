"""Hamiltonian updates of theta given z, then z given theta.

A single leapfrog step is the Metropolis-adjusted Langevin algorithm.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types

from pymc_flymc.kernels.brightness import brightness_type
from pymc_flymc.kernels.factors import add_gradients, scratch_type
from pymc_flymc.kernels.geometry import unwhiten, whiten_gradient
from pymc_flymc.kernels.native import (
    borrow,
    call_density_gradient,
    call_pullback,
    kernel,
    kernel_part,
    named_tuple_type,
    vector,
)
from pymc_flymc.kernels.posterior import (
    accept_given_z,
    chain_type,
    known,
    posterior_type,
)
from pymc_flymc.kernels.sweeps import begin, plan_type, sweep

__all__ = [
    "Dynamics",
    "freeze_step",
    "new_dynamics",
    "restart_adaptation",
    "run_kernel",
]

#: Leapfrog steps in a trajectory, at most: reached only while the step size is far from tuned.
MAX_STEPS = 256
#: Constants of dual averaging (Hoffman & Gelman 2014, section 3.2.1).
GAMMA, T0, KAPPA = 0.05, 10.0, 0.75


class Dynamics(NamedTuple):
    """Step size, length of trajectories, and buffers.

    Attributes
    ----------
    log_step : ndarray, shape (1,)
        Log of the leapfrog step size, in posterior standard deviations.
    length : ndarray, shape (1,)
        Largest length of a trajectory; zero for single steps.
    target : ndarray, shape (1,)
        Acceptance rate aimed at.
    gain : ndarray, shape (1,)
        Whether the step size is being adapted (0 or 1).
    averaging : ndarray, shape (4,)
        State of dual averaging: centre of the shrinkage, updates made, mean error, averaged log
        step.
    tally : ndarray, shape (1,)
        Leapfrog steps made.
    momentum, slope, gradient, gradient_new, total_gradient, force : ndarray
        Buffers, of shape (P,) if the slope in coefficients, else (D,). The gradients are those of
        the log density of prior and collapsed bounds at the chain's parameters and at the end of
        the trajectory, and that with the bright rows.
    """

    log_step: np.ndarray
    length: np.ndarray
    target: np.ndarray
    gain: np.ndarray
    averaging: np.ndarray
    tally: np.ndarray
    momentum: np.ndarray
    slope: np.ndarray
    gradient: np.ndarray
    gradient_new: np.ndarray
    total_gradient: np.ndarray
    force: np.ndarray


def new_dynamics(n_parameters: int, n_coefficients: int, length: float, target: float) -> Dynamics:
    """Return dynamics as a chain starts with them; n_coefficients is the length of chain.w."""
    d = n_parameters
    log_step = np.log([d**-0.25])  # optimal scaling of HMC (Beskos et al. 2013)
    dynamics = Dynamics(
        log_step=log_step,
        length=np.array([length]),
        target=np.array([target]),
        gain=np.zeros(1),
        averaging=np.zeros(4),
        tally=np.zeros(1),
        momentum=np.zeros(d),
        slope=np.zeros(n_coefficients),
        gradient=np.zeros(d),
        gradient_new=np.zeros(d),
        total_gradient=np.zeros(d),
        force=np.zeros(d),
    )
    restart_adaptation(dynamics)
    return dynamics


def restart_adaptation(dynamics: Dynamics) -> None:
    """Forget what dual averaging has seen, and start from the present step size."""
    log_step = dynamics.log_step[0]
    dynamics.averaging[:] = log_step + np.log(2.0), 0.0, 0.0, log_step


def freeze_step(dynamics: Dynamics) -> None:
    """Take the averaged step size: the end of adaptation."""
    dynamics.log_step[0] = dynamics.averaging[3]


def dynamics_type() -> types.Type:
    """Numba type of `Dynamics`."""
    return named_tuple_type(Dynamics, {field: vector() for field in Dynamics._fields})


@kernel_part
def density_and_gradient(posterior, theta, w, gradient):
    """Log density of prior and collapsed bounds, without the rows; writes w and the gradient."""
    return call_density_gradient(
        posterior.density_gradient, theta, posterior.statistics, w, gradient
    )


@kernel_part
def log_odds_and_force(posterior, theta, w, gradient, dynamics, out, bright, scratch):
    """Return the sum of the bright rows' log odds at theta; write these and the force.

    The force is the gradient in v of log p(theta, z): to `gradient`, that of the prior and the
    collapsed bounds, it adds the bright rows.
    """
    n_bright = bright.count[0]
    for j in range(w.shape[0]):
        dynamics.slope[j] = 0.0
    add_gradients(
        posterior.rows,
        posterior.log_factor_gradient,
        w,
        bright.index,
        0,
        n_bright,
        out,
        dynamics.slope,
        scratch,
    )
    total = dynamics.total_gradient
    for j in range(total.shape[0]):
        total[j] = gradient[j]
    call_pullback(posterior.pullback, theta, posterior.statistics, dynamics.slope, total)
    whiten_gradient(posterior.geometry, total, dynamics.force)
    log_odds = 0.0
    for i in range(n_bright):
        log_odds += out[i]
    return log_odds


@kernel_part
def kinetic_energy(momentum):
    """|p|^2 / 2: momenta are N(0, I) in whitened coordinates."""
    total = 0.0
    for j in range(momentum.shape[0]):
        total += 0.5 * momentum[j] * momentum[j]
    return total


@kernel_part(inline="always")
def update_theta(rng, posterior, dynamics, chain, bright, scratch):
    """One Hamiltonian update of theta given z. Returns its acceptance probability.

    Needs `dynamics.gradient` at the chain's parameters, and leaves it there.
    """
    n_parameters = chain.v.shape[0]
    step = np.exp(dynamics.log_step[0])
    # The number of steps is random, against trajectories that return to where they began. It may
    # not depend on the state: the way back must be as probable as the way there.
    n_steps = 1
    if dynamics.length[0] > 0.0:
        length = rng.random() * dynamics.length[0]
        n_steps = MAX_STEPS if length >= MAX_STEPS * step else max(int(np.ceil(length / step)), 1)
    momentum, force = dynamics.momentum, dynamics.force
    for j in range(n_parameters):
        momentum[j] = rng.standard_normal()
        chain.v_new[j] = chain.v[j]
    # z has changed since the last update, and the force with it.
    log_odds = log_odds_and_force(
        posterior,
        chain.theta,
        chain.w,
        dynamics.gradient,
        dynamics,
        chain.log_odds_new,
        bright,
        scratch,
    )
    before = chain.log_density[0] + log_odds - kinetic_energy(momentum)
    log_density = -np.inf
    log_ratio = -np.inf
    for i in range(n_steps):
        for j in range(n_parameters):
            momentum[j] += 0.5 * step * force[j]
            chain.v_new[j] += step * momentum[j]
        unwhiten(posterior.geometry, chain.v_new, chain.theta_new)
        log_density = density_and_gradient(
            posterior, chain.theta_new, chain.w_new, dynamics.gradient_new
        )
        # Outside the support, or NaN: rejected. The way back would meet the same point, so that
        # stopping here keeps the reversibility (a limit on the energy error would not).
        if not -np.inf < log_density < np.inf:
            break
        dynamics.tally[0] += 1.0
        log_odds = log_odds_and_force(
            posterior,
            chain.theta_new,
            chain.w_new,
            dynamics.gradient_new,
            dynamics,
            chain.log_odds_new,
            bright,
            scratch,
        )
        for j in range(n_parameters):
            momentum[j] += 0.5 * step * force[j]
        if i == n_steps - 1:
            log_ratio = known(log_density + log_odds - kinetic_energy(momentum) - before)
    accept = np.exp(min(0.0, log_ratio))
    if -rng.standard_exponential() < log_ratio:
        accept_given_z(chain, log_density, bright)
        for j in range(n_parameters):
            dynamics.gradient[j] = dynamics.gradient_new[j]
    if dynamics.gain[0] > 0.0:
        average(dynamics, accept)
    return accept


@kernel_part
def average(dynamics, accept):
    """Adapt the step size by dual averaging (Hoffman & Gelman 2014, equation 6)."""
    state = dynamics.averaging
    state[1] += 1.0
    weight = 1.0 / (state[1] + T0)
    state[2] += weight * (dynamics.target[0] - accept - state[2])
    dynamics.log_step[0] = state[0] - np.sqrt(state[1]) / GAMMA * state[2]
    state[3] += state[1] ** -KAPPA * (dynamics.log_step[0] - state[3])


@functools.cache
def run_kernel(dtype: np.dtype, n_likelihoods: int = 1) -> Callable[..., Any]:
    """Compiled ``run(rng, n, posterior, plan, dynamics, chain, bright, scratch)``.

    Makes n transitions and returns the mean acceptance probability; or starts a chain, if n = 0.
    """
    target = posterior_type(dtype, n_likelihoods)
    state = (chain_type(), brightness_type(), scratch_type())

    @kernel(
        types.float64(
            types.npy_rng,
            types.int64,
            target,
            plan_type(),
            dynamics_type(),
            *state,
        )
    )
    def run(rng, n, posterior, plan, dynamics, chain, bright, scratch):
        posterior, plan, dynamics = borrow(posterior), borrow(plan), borrow(dynamics)
        chain, bright, scratch = borrow(chain), borrow(bright), borrow(scratch)
        if n == 0:
            begin(rng, posterior, plan, chain, bright, scratch)
            return 0.0
        total = 0.0
        # Whoever called may have changed parameters or statistics since the last run.
        density_and_gradient(posterior, chain.theta, chain.w, dynamics.gradient)
        for _i in range(n):
            total += update_theta(rng, posterior, dynamics, chain, bright, scratch)
            for _j in range(plan.sweeps):
                sweep(rng, plan, posterior.rows, posterior.log_factor, chain.w, bright, scratch)
        return total / n

    return run  # type: ignore[no-any-return]
