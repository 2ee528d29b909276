"""Hamiltonian trajectories of conditional updates."""

from typing import Any

import numpy as np

from pymc_flymc.kernels import hamiltonian
from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.kernels.trajectory import (
    GAMMA,
    GAMMA_OF_MANY,
    freeze_step,
    new_dynamics,
    restart_adaptation,
)
from pymc_flymc.sampling.adaptation.base import Adaptation, conditional_plan
from pymc_flymc.sampling.chain import FireflyChain
from pymc_flymc.sampling.costs import cheap_transitions, is_dear
from pymc_flymc.sampling.tuning import LARGEST_AUTOCORRELATION, diagonal_geometry, learn_geometry
from pymc_flymc.target.resampling import ImplicitResampling, Resampling
from pymc_flymc.target.target import KernelSpec, Target

#: Ratio of proposals to the bright rows expected, with many effects of groups. An effective draw of
#: the slowest of 3,061 parameters of a Rasch model took half the rows that it took with a ratio of
#: one, and of 2,007 of random intercepts as many.
MANY_EFFECTS = 4.0
#: Gradients of a trajectory where the posterior is near normal.
GRADIENTS = 4


class HamiltonianAdaptation(Adaptation):
    """Hamiltonian moves; with a length of zero, Langevin moves.

    Parameters
    ----------
    length : float
        Largest length of a trajectory, in posterior standard deviations.
    target_accept : float
    metric : {"auto", "dense", "diagonal", "isotropic"}
    """

    def __init__(
        self, length: float = 2.5, target_accept: float = 0.75, metric: str = "auto"
    ) -> None:
        self.length, self.target_accept = length, target_accept
        self.diagonal, self.isotropic = metric == "diagonal", metric == "isotropic"

    def usual_brightness(self, geometry: Geometry) -> Resampling:
        """Return sweeps that keep up with trajectories: these cost several gradients each.

        An effect depends on few rows. A row that is hardly ever bright stays bright for long once
        it is, and longer with a smaller ratio. Such rows hold back some of thousands of effects.
        """
        ratio = MANY_EFFECTS if len(geometry.diagonal) else 1.0
        return ImplicitResampling(ratio=ratio, sweeps=2 if self.length else 1)

    def first_transitions(self, target: Target) -> int:
        """Return one where that is enough: with no z to keep up with, or with many effects.

        Each effect depends on the few rows of its group, and a trajectory is long.
        """
        if not self.length:
            return 20
        return 5 if target.subsamples and not len(target.geometry.diagonal) else 1

    def cheap_transitions(self, target: Target) -> int:
        """Return as many conditional updates as cost little."""
        return cheap_transitions(target, self._usual_gradients)

    def autocorrelation(self, target: Target) -> float:
        """Return more than usual where a conditional update takes long."""
        dear = is_dear(target, self._usual_gradients)
        return LARGEST_AUTOCORRELATION if dear else super().autocorrelation(target)

    @property
    def _usual_gradients(self) -> int:
        return GRADIENTS if self.length else 1

    def begin(self, target: Target) -> Any:
        """Return `kernels.trajectory.Dynamics`."""
        gamma = GAMMA_OF_MANY if len(target.geometry.diagonal) else GAMMA
        d = len(target.geometry.centre)
        return new_dynamics(d, target.n_slopes, self.length, self.target_accept, gamma)

    def dynamics(self, chain: FireflyChain) -> Any:
        """Return the parameters of trajectories."""
        return chain.kernel_parameters

    def started(self, chain: FireflyChain, rng: np.random.Generator, dispersed: bool) -> None:
        """As of the base class; leave out correlations, if so asked."""
        super().started(chain, rng, dispersed)
        if self.diagonal:
            chain.set_geometry(diagonal_geometry(chain.geometry))

    def end_window(self, chain: FireflyChain, draws: np.ndarray, is_last: bool) -> None:
        """Learn the metric, but for the isotropic one."""
        if not (self.isotropic or is_last):  # the step size needs a window for the last metric
            chain.set_geometry(learn_geometry(chain.geometry, draws))
            restart_adaptation(self.dynamics(chain).step_size)

    def end_tuning(self, chain: FireflyChain) -> None:
        """Take the averaged step size."""
        freeze_step(self.dynamics(chain).step_size)

    def statistics(self, chain: FireflyChain) -> dict[str, Any]:
        """Step size, and steps made."""
        dynamics = self.dynamics(chain)
        n_steps, dynamics.n_steps[0] = int(dynamics.n_steps[0]), 0.0
        step_size = float(np.exp(dynamics.step_size.log_step[0]))
        return {"leapfrog_step_size": step_size, "n_leapfrog_steps": n_steps}

    def gradients(self, chain: FireflyChain) -> float:
        """Return the steps of trajectories."""
        return float(self.statistics(chain)["n_leapfrog_steps"])


HAMILTONIAN = HamiltonianAdaptation.spec = KernelSpec(
    "hamiltonian", hamiltonian.run_kernel, HamiltonianAdaptation, conditional_plan, gradients=True
)
