"""Trajectories through a surrogate, corrected by fresh brightness."""

from typing import Any

import numpy as np

from pymc_flymc.kernels.posterior import make_chain
from pymc_flymc.kernels.surrogate import Surrogate, new_surrogate_proposals, run_kernel
from pymc_flymc.sampling.adaptation.base import Adaptation
from pymc_flymc.sampling.adaptation.hamiltonian import HamiltonianAdaptation
from pymc_flymc.sampling.adaptation.metropolis import plan_with_z
from pymc_flymc.sampling.chain import FireflyChain
from pymc_flymc.target.resampling import Resampling
from pymc_flymc.target.target import KernelSpec, Target

#: Largest length of a trajectory, in posterior standard deviations, and its acceptance rate. The
#: rate is high, because steps are cheap, and short steps reach regions that long ones do not.
LENGTH, TARGET_ACCEPT = 2.5, 0.9
#: Trajectories in a proposal.
REPEATS = 2
#: Proposals to come in from a start, at least where it was drawn, and at most.
FEWEST_APPROACHES, APPROACH = 2, 100


def _plan(target: Target, resampling: Resampling, cursor: np.ndarray) -> Surrogate:
    exact = target.data.exact
    assert exact is not None
    n_exact = len(exact.X)
    return Surrogate(
        plan_with_z(target, resampling, cursor),
        exact,
        np.arange(n_exact, dtype=np.int32),
        target.factor_gradients[0].address,
        make_chain(len(target.geometry.centre), target.n_slopes, n_exact),
    )


class SurrogateAdaptation(HamiltonianAdaptation):
    """Joint updates whose parameters come by trajectories through a surrogate."""

    # Each has several trajectories. Where these mix slowly, draws may be dependent.
    most = 10
    cheap_transitions, autocorrelation = Adaptation.cheap_transitions, Adaptation.autocorrelation

    def __init__(self) -> None:
        super().__init__(LENGTH, TARGET_ACCEPT)

    def first_transitions(self, target: Target) -> int:
        """Return one: each has several trajectories."""
        return 1

    def begin(self, target: Target) -> Any:
        """Return `kernels.surrogate.SurrogateProposals`."""
        d = len(target.geometry.centre)
        proposals = new_surrogate_proposals(d, target.n_slopes, LENGTH, TARGET_ACCEPT)
        proposals.repeats[:] = REPEATS
        return proposals

    def started(self, chain: FireflyChain, rng: np.random.Generator, dispersed: bool) -> None:
        """Follow the surrogate alone to where its mass is, and for a few proposals in any case.

        A state far out, where nearly all rows are bright, has a weight that no proposal can compete
        with, and each of them would begin there. This happens before the first draw, or in tuning,
        and moves the start alone. A start that a user has given, or that a chain has come to, moves
        only if it is so far out.
        """
        fewest = FEWEST_APPROACHES if dispersed else 0
        for i in range(APPROACH):
            if i >= fewest and not chain.is_far_out:
                break
            chain.state.log_weight[0] = -np.inf  # whatever comes is accepted
            chain.advance(rng, 1, 1.0)

    def dynamics(self, chain: FireflyChain) -> Any:
        """Return the parameters of trajectories, which are some of the kernel's."""
        return chain.kernel_parameters.dynamics

    def statistics(self, chain: FireflyChain) -> dict[str, Any]:
        """Step size, steps made, and the random walk's scale."""
        scale = float(np.exp(chain.kernel_parameters.log_scale[0]))
        return {**super().statistics(chain), "random_walk_scale": scale}


SURROGATE = SurrogateAdaptation.spec = KernelSpec(
    "surrogate", run_kernel, SurrogateAdaptation, _plan, gradients=True, fresh=True, exact=True
)
