"""Random walks, pCN and independent proposals, in conditional and in joint updates."""

from typing import Any, ClassVar

import numpy as np

from pymc_flymc.kernels import joint, metropolis
from pymc_flymc.kernels.fresh_brightness import SPARE
from pymc_flymc.kernels.metropolis import RANDOM_WALK, favour_best, new_proposal_mixture
from pymc_flymc.sampling.adaptation.base import Adaptation, conditional_plan
from pymc_flymc.sampling.chain import FireflyChain
from pymc_flymc.sampling.costs import cheap_transitions
from pymc_flymc.target.resampling import Resampling
from pymc_flymc.target.target import KernelSpec, Target


def plan_with_z(target: Target, resampling: Resampling, cursor: np.ndarray) -> Any:
    """Return the tables that z is drawn from together with theta."""
    (rows,) = target.data.parts
    assert target.data.alias is not None
    return target.data.alias._replace(drawn=np.empty(len(rows.X) + SPARE, np.int32))


#: Mixtures that all of these updates have.
_EITHER = {"random_walk": (1.0, 0.0, 0.0), "pcn": (0.0, 1.0, 0.0)}


class MetropolisAdaptation(Adaptation):
    """Metropolis-Hastings updates of the parameters, given the brightness.

    Parameters
    ----------
    proposal : str
        One of `mixtures`.

    Raises
    ------
    ValueError
        If these updates do not have the proposal.
    """

    #: Mixtures of random walk, pCN and independent proposals.
    mixtures: ClassVar[dict[str, tuple[float, float, float]]] = {
        "auto": (0.3, 0.7, 0.0),
        **_EITHER,
        "isotropic": _EITHER["random_walk"],
    }
    #: What is said of other proposals.
    _refusal = (
        "proposal={!r} needs joint moves, that is bound=Taylor() and one likelihood; without them "
        "it is one of {}"
    )

    def __init__(self, proposal: str = "auto") -> None:
        if proposal not in self.mixtures:
            raise ValueError(self._refusal.format(proposal, ", ".join(self.mixtures)))
        self.mixture, self.adapt = self.mixtures[proposal], proposal == "auto"
        self.isotropic = proposal == "isotropic"
        self.is_normal = self.mixture[RANDOM_WALK] == 0.0

    def first_transitions(self, target: Target) -> int:
        """Return many: conditional updates move slowly."""
        return 20

    def cheap_transitions(self, target: Target) -> int:
        """Return as many conditional updates as cost little."""
        return cheap_transitions(target, 0)

    def begin(self, target: Target) -> Any:
        """Return `kernels.metropolis.ProposalMixture`."""
        return new_proposal_mixture(len(target.geometry.centre), np.array(self.mixture))

    def end_window(self, chain: FireflyChain, draws: np.ndarray, is_last: bool) -> None:
        """Favour the proposal that jumps farthest."""
        favour_best(chain.kernel_parameters, self.adapt)

    def statistics(self, chain: FireflyChain) -> dict[str, Any]:
        """Scales of the proposals."""
        walk, pcn = np.exp(chain.kernel_parameters.log_scale)
        return {"random_walk_scale": float(walk), "pcn_scale": float(pcn)}


class JointAdaptation(MetropolisAdaptation):
    """Metropolis-Hastings updates of parameters and brightness together."""

    mixtures: ClassVar[dict[str, tuple[float, float, float]]] = {
        "auto": (0.05, 0.05, 0.9),
        **_EITHER,
        "independent": (0.0, 0.0, 1.0),
    }
    _refusal = (
        "proposal={!r} is for conditional moves, and not for joint ones, which bound=Taylor() makes"
    )
    fewest, sparing = 2, True
    cheap_transitions = Adaptation.cheap_transitions

    def first_transitions(self, target: Target) -> int:
        """Return a few: most proposals are independent."""
        return 2


METROPOLIS = MetropolisAdaptation.spec = KernelSpec(
    "metropolis", metropolis.run_kernel, MetropolisAdaptation, conditional_plan
)
JOINT = JointAdaptation.spec = KernelSpec(
    "joint", joint.run_kernel, JointAdaptation, plan_with_z, fresh=True
)
#: What `FireflyMH` may be told to use.
PROPOSALS = (*JointAdaptation.mixtures, "isotropic")
