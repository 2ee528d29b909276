"""The step size of trajectories, learnt by dual averaging while a chain tunes."""

from typing import NamedTuple

import numpy as np

from pymc_flymc.kernels.native import kernel_part
from pymc_flymc.kernels.records import Vector

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
