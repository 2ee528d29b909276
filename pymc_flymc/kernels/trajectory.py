"""Hamiltonian trajectories in standardised coordinates, and their step size."""

from typing import NamedTuple

import numpy as np

from pymc_flymc.kernels.dark_rates import dark_rate
from pymc_flymc.kernels.factors import add_gradients
from pymc_flymc.kernels.geometry import standardise_gradient, unstandardise
from pymc_flymc.kernels.native import Vector, call_density_gradient, call_vjp, kernel_part, zeros
from pymc_flymc.kernels.posterior import finite_or_minus_inf

#: Constants of dual averaging (Hoffman & Gelman 2014, section 3.2.1).
GAMMA, T0, KAPPA = 0.05, 10.0, 0.75
#: GAMMA for many effects of groups. While a chain tunes, step sizes jump, and trajectories of short
#: steps take long: for 100,000 effects they had 17 steps, and 14 with this; with the final size
#: they have 12. While a metric of correlated parameters is learnt, jumps do no harm: of 36 pairs of
#: chains for effects of carriers and airports five learnt a bad metric with this, none with GAMMA.
GAMMA_OF_MANY = 0.2


class Averaging(NamedTuple):
    """Places in the state of dual averaging; `centre` is what it shrinks to, `error` is a mean."""

    centre: int = 0
    updates: int = 1
    error: int = 2
    log_step: int = 3


AVERAGING = Averaging()


class StepSize(NamedTuple):
    """Step size and its adaptation."""

    log_step: Vector  #: Log of the step size, in posterior standard deviations, (1,).
    target: Vector  #: Target acceptance rate, (1,).
    gamma: Vector  #: The smaller, the more an update changes the step size, (1,).
    averaging: Vector  #: State of dual averaging, in the places of `Averaging`.


def new_step_size(n_parameters: int, target: float, gamma: float) -> StepSize:
    """Return the step size as a chain starts with it."""
    # Optimal scaling of HMC (Beskos et al. 2013); there may be no parameters but effects.
    log_step = np.log([max(n_parameters, 1) ** -0.25])
    size = StepSize(log_step, np.array([target]), np.array([gamma]), np.zeros(len(AVERAGING)))
    restart_adaptation(size)
    return size


def restart_adaptation(size: StepSize) -> None:
    """Reset dual averaging, and start it from the present step size."""
    log_step = size.log_step[0]
    size.averaging[:] = 0.0
    size.averaging[AVERAGING.centre] = log_step + np.log(2.0)
    size.averaging[AVERAGING.log_step] = log_step


def freeze_step(size: StepSize) -> None:
    """Set the step size to the averaged one: the end of adaptation."""
    size.log_step[0] = size.averaging[AVERAGING.log_step]


@kernel_part
def adapt_step(size, accept, log_largest):
    """Update dual averaging by an acceptance probability (Hoffman & Gelman 2014, equation 6)."""
    state = size.averaging
    state[AVERAGING.updates] += 1.0
    n = state[AVERAGING.updates]
    error = state[AVERAGING.error]
    error += 1.0 / (n + T0) * (size.target[0] - accept - error)
    state[AVERAGING.error] = error
    log_step = min(state[AVERAGING.centre] - np.sqrt(n) / size.gamma[0] * error, log_largest)
    state[AVERAGING.log_step] += n**-KAPPA * (log_step - state[AVERAGING.log_step])
    size.log_step[0] = log_step


#: Most steps in a trajectory, reached only while the step size is far from tuned.
MAX_STEPS = 256
#: Largest step size, in posterior standard deviations, if N(0, I) is followed exactly: with a
#: normal posterior any size would be accepted. With a skewed posterior, proposals from the tail may
#: be accepted so rarely, and others so often, that the mean rate is no guide; two kicks are safer.
LARGEST_STEP = 1.25
#: Largest change of a coordinate of the momentum, which is N(0, 1), in half a step. The part that
#: undoes the rotation may be larger, and local sweeps have no limit. Both 1 and 1.5 let chains
#: reach steep tails as they should; 1.5 binds less often.
LARGEST_KICK = 1.5


class Dynamics(NamedTuple):
    """Step size, length of trajectories, and buffers: the slope is (P,), all others (D,)."""

    step_size: StepSize
    length: Vector  #: Largest length of a trajectory, (1,); zero for single leapfrog steps.
    gain: Vector  #: Whether the step size is being adapted (0 or 1), (1,).
    n_steps: Vector  #: Number of steps made, (1,).
    log_density_new: Vector  #: Log density at the end of the trajectory, without rows, (1,).
    momentum: Vector
    slope: Vector
    gradient: Vector  #: Of the log density without rows, at the chain's parameters.
    gradient_new: Vector  #: The same at the end of the trajectory.
    total_gradient: Vector  #: With rows.
    force: Vector  #: `total_gradient` in standardised coordinates.
    kept_force: Vector  #: The force where a trajectory begins.


def new_dynamics(
    n_parameters: int, n_coefficients: int, length: float, target: float, gamma: float = GAMMA
) -> Dynamics:
    """Return dynamics as a chain starts with them; n_coefficients is the length of chain.w."""
    of_theta = "gradient", "gradient_new", "total_gradient", "force", "kept_force"
    return Dynamics(
        step_size=new_step_size(n_parameters, target, gamma),
        length=np.array([length]),
        slope=np.zeros(n_coefficients),
        **zeros(1, "gain", "n_steps", "log_density_new"),
        **zeros(n_parameters, "momentum", *of_theta),
    )


@kernel_part
def density_and_gradient(posterior, theta, w, gradient):
    """Return the log density without rows; write w and the gradient, both at theta."""
    return call_density_gradient(
        posterior.density_gradient, posterior.jacobian, theta, posterior.statistics, w, gradient
    )


@kernel_part
def density_and_gradient_at(posterior, dynamics, chain):
    """Return `density_and_gradient` at chain.v_new; write theta_new, and leave all in buffers."""
    unstandardise(posterior.geometry, chain.v_new, chain.theta_new)
    dynamics.log_density_new[0] = density_and_gradient(
        posterior, chain.theta_new, chain.w_new, dynamics.gradient_new
    )
    return dynamics.log_density_new[0]


@kernel_part
def row_force(
    posterior,
    rows,
    log_factor_gradient,
    index,
    count,
    theta,
    w,
    gradient,
    dark,
    dynamics,
    out,
    scratch,
):
    """Return the sum of the log factors of rows index[:count], less the rate of the dark rows.

    Writes the factors and the force, which is the gradient in v. It is the sum of `gradient`, in
    theta without rows, and of the gradients of these rows and of `dark`, see `take_dark`.
    """
    total = dynamics.total_gradient
    for j in range(total.shape[0]):
        total[j] = gradient[j]
    total_factor = -dark_rate(dark, w)
    for j in range(w.shape[0]):
        dynamics.slope[j] = -dark[j]
    add_gradients(rows, log_factor_gradient, w, index, 0, count, out, dynamics.slope, scratch)
    call_vjp(posterior.vjp, posterior.jacobian, theta, posterior.statistics, dynamics.slope, total)
    for i in range(count):
        total_factor += out[i]
    standardise_gradient(posterior.geometry, theta, total, dynamics.force)
    return total_factor


@kernel_part
def kinetic_energy(momentum):
    """Return |p|^2 / 2: momenta are N(0, I) in standardised coordinates."""
    total = 0.0
    for j in range(momentum.shape[0]):
        total += 0.5 * momentum[j] * momentum[j]
    return total


@kernel_part
def draw_steps(rng, dynamics, shorter):
    """Draw the number of steps, and their size, at most the one of `dynamics` over `shorter`.

    The length is random, because trajectories of one length might return to where they began. It is
    at least half the largest: a shorter one would cost a gradient, too. It must not depend on the
    state: the way back must be as probable as the way there.
    """
    step = np.exp(dynamics.step_size.log_step[0]) / shorter
    if dynamics.length[0] == 0.0:
        return 1, step
    length = (0.5 + 0.5 * rng.random()) * dynamics.length[0] / shorter
    if length >= MAX_STEPS * step:
        return MAX_STEPS, step
    n_steps = max(int(np.ceil(length / step)), 1)
    return n_steps, length / n_steps


@kernel_part(inline="always")
def kick(step, force, pull, largest):
    """Return the change of a coordinate of the momentum in half a step, by the force on it.

    `pull` is the force of a normal density towards its centre, which the rotation between kicks
    applies and kicks take back. In tails heavier than normal it exceeds the posterior's force,
    at any distance. Unless kicks undo it there, steps from or to there are almost never accepted.

    Any other change is at most `largest`. A density may fall off much faster on one side than
    elsewhere, as the density of an effect without events does. There the force throws a step that
    fits everywhere else into the tail. Such steps are rejected, and so are the steps that would
    lead there: without a limit, chains rarely visit that side. Any function of the position may be
    the kick: volume is kept, and a trajectory is its own way back. Small steps are not affected.
    """
    undone = 0.5 * step * pull
    change = 0.5 * step * (force + pull)
    return min(max(change, min(-largest, undone)), max(largest, undone))


@kernel_part(inline="always")
def simulate(
    rng, log_density_at, arguments, log_density, largest, shorter, dynamics, chain, scratch
):
    """Follow a trajectory from chain.v to chain.v_new. Return its log acceptance ratio.

    ``log_density_at``, called with `arguments` at each point, returns the log density at
    chain.v_new and writes `dynamics.force` there; `log_density` is the one at chain.v, whose force
    is there at the start. `largest` is the largest kick of a coordinate. The length and its steps
    are divided by `shorter`, which must not depend on the state; if it is one, the step size
    adapts.
    """
    n_steps, step = draw_steps(rng, dynamics, shorter)
    momentum, force = dynamics.momentum, dynamics.force
    # Between kicks a trajectory follows N(0, I) exactly, which is a rotation. Kicks come from the
    # rest of the log density (Shahbaba et al. 2014). Like a leapfrog's straight lines, which
    # Langevin moves follow, rotations are reversible and keep volume.
    pull = 1.0 if dynamics.length[0] > 0.0 else 0.0
    cosine, sine = (np.cos(step), np.sin(step)) if pull > 0.0 else (1.0, step)
    for j in range(momentum.shape[0]):
        momentum[j] = rng.standard_normal()
        chain.v_new[j] = chain.v[j]
    before = log_density - kinetic_energy(momentum)
    log_ratio = -np.inf
    for i in range(n_steps):
        for j in range(momentum.shape[0]):
            x = chain.v_new[j]
            p = momentum[j] + kick(step, force[j], pull * x, largest)
            chain.v_new[j] = cosine * x + sine * p
            momentum[j] = cosine * p - pull * sine * x
        after = log_density_at(*arguments)
        # Outside the support, or NaN: rejected. The way back would meet the same point, so that
        # stopping here keeps the reversibility (a limit on the energy error would not).
        if not -np.inf < finite_or_minus_inf(after, scratch) < np.inf:
            break
        dynamics.n_steps[0] += 1.0
        for j in range(momentum.shape[0]):
            momentum[j] += kick(step, force[j], pull * chain.v_new[j], largest)
        if i == n_steps - 1:
            log_ratio = finite_or_minus_inf(after - kinetic_energy(momentum) - before, scratch)
    if dynamics.gain[0] > 0.0 and shorter == 1.0:
        log_largest = np.log(LARGEST_STEP) if pull > 0.0 else np.inf
        adapt_step(dynamics.step_size, np.exp(min(0.0, log_ratio)), log_largest)
    return log_ratio
