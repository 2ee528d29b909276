"""Random walks, pCN and independent proposals, in conditional and in joint updates."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_flymc.kernels import joint, metropolis
from pymc_flymc.kernels.fresh_brightness import SPARE
from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.kernels.metropolis import RANDOM_WALK, favour_best, new_proposal_mixture
from pymc_flymc.sampling.adaptation.base import Adaptation, conditional_plan
from pymc_flymc.sampling.chain import FireflyChain
from pymc_flymc.sampling.costs import cheap_transitions
from pymc_flymc.target.kernel_spec import KernelSpec
from pymc_flymc.target.resampling import Resampling
from pymc_flymc.target.target import Target

#: Mixtures of random walk, pCN and independent proposals: of conditional and of joint updates.
_CONDITIONAL = {"auto": (0.3, 0.7, 0.0), "random_walk": (1.0, 0.0, 0.0), "pcn": (0.0, 1.0, 0.0)}
_JOINT = {**_CONDITIONAL, "auto": (0.05, 0.05, 0.9), "independent": (0.0, 0.0, 1.0)}
_CONDITIONAL["isotropic"] = _CONDITIONAL["random_walk"]
PROPOSALS = (*_JOINT, "isotropic")


def plan_with_z(target: Target, resampling: Resampling, cursor: np.ndarray) -> Any:
    """Return the tables that z is drawn from together with theta."""
    (rows,) = target.data.parts
    assert target.data.alias is not None
    return target.data.alias._replace(drawn=np.empty(len(rows.X) + SPARE, np.int32))


def _joint(geometry: Geometry, proposal: str) -> Adaptation:
    return MetropolisAdaptation(proposal, True)


def _conditional(geometry: Geometry, proposal: str) -> Adaptation:
    return MetropolisAdaptation(proposal, False)


JOINT = KernelSpec("joint", joint.run_kernel, _joint, plan_with_z, fresh=True, weighs_density=True)
METROPOLIS = KernelSpec("metropolis", metropolis.run_kernel, _conditional, conditional_plan)


class MetropolisAdaptation(Adaptation):
    """Metropolis-Hastings updates.

    Parameters
    ----------
    proposal : str
        One of `PROPOSALS`.
    joint : bool
        Whether z is updated with theta.

    Raises
    ------
    ValueError
        If these updates do not have the proposal.
    """

    def __init__(self, proposal: str, joint: bool) -> None:
        mixtures = _JOINT if joint else _CONDITIONAL
        if joint and proposal == "isotropic":
            raise ValueError(
                "proposal='isotropic' is for conditional moves, and not for joint ones, "
                "which bound=Taylor() makes"
            )
        if proposal not in mixtures:
            raise ValueError(
                f"proposal={proposal!r} needs joint moves, that is bound=Taylor() and one "
                f"likelihood; without them it is one of {', '.join(mixtures)}"
            )
        self.spec = JOINT if joint else METROPOLIS
        self.mixture, self.adapt = mixtures[proposal], proposal == "auto"
        self.isotropic = proposal == "isotropic"
        self.is_normal = self.mixture[RANDOM_WALK] == 0.0
        self.fewest, self.sparing = (2, True) if joint else (1, False)

    def first_transitions(self, target: Target) -> int:
        """Return a few for joint updates, and more for conditional ones, which move slowly."""
        return 2 if target.is_joint else 20

    def cheap_transitions(self, target: Target) -> int:
        """As of the base class, for conditional updates."""
        return 1 if self.spec.fresh else cheap_transitions(target, 0)

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
