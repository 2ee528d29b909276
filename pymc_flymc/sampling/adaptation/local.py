"""Local sweeps: effects of groups one by one, and trajectories of all other parameters."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from pymc_flymc.anchor.anchor import Anchor
from pymc_flymc.bounds.quadratic_bounds import TightenedBound
from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.kernels.layout import MOMENTS
from pymc_flymc.kernels.local import Groups, new_groups, new_local_proposals, run_kernel
from pymc_flymc.sampling.adaptation.base import conditional_plan
from pymc_flymc.sampling.adaptation.hamiltonian import HamiltonianAdaptation
from pymc_flymc.sampling.chain import FireflyChain
from pymc_flymc.target.resampling import ImplicitResampling, Resampling
from pymc_flymc.target.target import KernelSpec, Target

#: Largest length of a trajectory of global parameters, in posterior sds.
LENGTH, TARGET_ACCEPT = 2.5, 0.75
#: Of effects and their rows, after a trajectory, which takes as long with 100,000 groups.
SWEEPS = 4


def _plan(target: Target, resampling: Resampling, cursor: np.ndarray) -> Groups:
    effects, conditionals = target.effects, target.conditionals
    rows, levels = target.data.parts[0], target.data.levels
    assert effects is not None and conditionals is not None and levels is not None
    q, column, centre = rows.n_sparse, rows.X.shape[1] + rows.intercept, target.geometry.centre
    moments = np.empty((len(MOMENTS), len(effects)))
    conditionals.moments(centre, target.statistics, moments.ravel())
    lowest = np.zeros(q, np.uint8) + np.uint8(len(levels.q) - 1)
    np.minimum.at(lowest, rows.codes[:, 0], levels.level)
    return new_groups(
        len(rows.X),
        rows.constants.shape[1],
        q,
        plan=conditional_plan(target, resampling, cursor),
        moments=conditionals.moments.address,
        vjp=conditionals.vjp.address,
        elements=effects,
        others=np.setdiff1d(np.arange(len(centre)), effects),
        column=column,
        q_max=levels.q[lowest],
        touching=target.coefficients(centre, target.statistics)[column : column + q],
        sd=(np.abs(moments[MOMENTS.change]) * moments[MOMENTS.sd])[:q],
        slack=cast(TightenedBound, target.parts[0].bound).slack,
    )


class LocalChain(FireflyChain):
    """A chain whose kernel has coordinates of its own, for the global parameters."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._set_coordinates()

    def set_geometry(self, geometry: Geometry) -> None:
        """Go on in other standardised coordinates, at the same parameters."""
        super().set_geometry(geometry)
        self._set_coordinates()

    def _set_coordinates(self) -> None:
        geometry, others = self.geometry, self.plan.others
        # Most are dense. A mean of several groups' effects, one of many, may be diagonal.
        is_diagonal = np.isin(others, geometry.diagonal)
        places = np.searchsorted(geometry.dense, others[~is_diagonal])
        diagonal = np.searchsorted(geometry.diagonal, others[is_diagonal])
        m = len(geometry.dense)
        factor = np.zeros((len(others), m + len(diagonal)))
        factor[~is_diagonal, :m] = geometry.factor[places]
        factor[is_diagonal, :m] = -geometry.coupling[:, diagonal].T @ geometry.factor
        factor[is_diagonal, m:] = np.diag(geometry.scale[diagonal])
        self.kernel_parameters.centre[:] = geometry.centre[others]
        self.kernel_parameters.factor[:] = np.linalg.cholesky(factor @ factor.T)

    def advance(self, rng: np.random.Generator, n: int, gain: float) -> float:
        """Make n transitions; return the mean acceptance probability of trajectories."""
        accept = super().advance(rng, n, gain)
        self.state.v[:] = self.geometry.standardise(self.state.theta)
        return accept


class LocalAdaptation(HamiltonianAdaptation):
    """Local sweeps of effects, and trajectories of global parameters that effects follow."""

    def __init__(self) -> None:
        super().__init__(LENGTH, TARGET_ACCEPT)

    def usual_brightness(self, geometry: Geometry) -> Resampling:
        """Return several sweeps: they take less time than a trajectory."""
        return ImplicitResampling(ratio=1.0, sweeps=SWEEPS)

    def first_transitions(self, target: Target) -> int:
        """Return one: each has a trajectory and several sweeps."""
        return 1

    def begin(self, target: Target) -> Any:
        """Return `kernels.local.LocalProposals`."""
        assert target.effects is not None
        d, g = len(target.geometry.centre), len(target.effects)
        return new_local_proposals(d, g, target.n_slopes, LENGTH, TARGET_ACCEPT)

    def new_chain(self, target: Any, brightness: Resampling, anchor: Anchor | None) -> FireflyChain:
        """Return a chain over a target, whose anchor may not be the step's first."""
        return LocalChain(target, brightness, self.begin(target), anchor)

    def statistics(self, chain: FireflyChain) -> dict[str, Any]:
        """As of the base class, and the sweeps of effects in a transition."""
        return super().statistics(chain) | {"local_sweeps": chain.plan.plan.sweeps}

    def dynamics(self, chain: FireflyChain) -> Any:
        """Return the parameters of trajectories, which are some of the kernel's."""
        return chain.kernel_parameters.dynamics


LOCAL = LocalAdaptation.spec = KernelSpec(
    "local", run_kernel, LocalAdaptation, _plan, gradients=True, local=True
)
