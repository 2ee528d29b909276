"""Kernels: how their parameters begin, what they learn while a chain tunes, what they report."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, cast

import numpy as np

from pymc_flymc.anchor.anchor import Anchor
from pymc_flymc.bounds.jaakkola_jordan import TightenedBound
from pymc_flymc.errors import check_choice
from pymc_flymc.kernels import hamiltonian, joint, local, metropolis, surrogate
from pymc_flymc.kernels import slice as slices
from pymc_flymc.kernels.fresh_brightness import SPARE
from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.kernels.layout import MOMENTS
from pymc_flymc.kernels.local import Groups, new_groups, new_local_proposals
from pymc_flymc.kernels.metropolis import RANDOM_WALK, favour_best, new_proposal_mixture
from pymc_flymc.kernels.posterior import make_chain
from pymc_flymc.kernels.slice import new_slices
from pymc_flymc.kernels.surrogate import Surrogate, new_surrogate_proposals
from pymc_flymc.kernels.trajectory import (
    GAMMA,
    GAMMA_OF_MANY,
    freeze_step,
    new_dynamics,
    restart_adaptation,
)
from pymc_flymc.sampling.chain import FireflyChain
from pymc_flymc.sampling.costs import cheap_transitions, is_dear
from pymc_flymc.sampling.tuning import (
    LARGEST_AUTOCORRELATION,
    TARGET_AUTOCORRELATION,
    diagonal_geometry,
    isotropic_geometry,
    learn_geometry,
)
from pymc_flymc.target.resampling import ImplicitResampling, Resampling, make_plan
from pymc_flymc.target.target import KernelSpec, Target


class Adaptation(ABC):
    """How a kernel's settings begin, what they learn while a chain tunes, and what they report."""

    #: Of the kernel. It has the class, and so it is set below it.
    spec: ClassVar[KernelSpec]
    #: The fewest transitions in a draw that tuning may choose, and the most.
    fewest, most = 1, 2000
    #: Whether nothing is learnt from draws in tuning but how dependent they are.
    sparing = False
    #: Whether all that is known of the posterior's shape is left out.
    isotropic = False
    #: Whether all proposals are made for the Laplace approximation: reversible for that density.
    is_normal = False

    def usual_brightness(self, geometry: Geometry) -> Resampling:
        """Return how brightness is resampled, unless the user says otherwise."""
        return ImplicitResampling()

    def first_transitions(self, target: Any) -> int:
        """Return the transitions in a draw before any tuning."""
        return 5

    def cheap_transitions(self, target: Any) -> int:
        """Return the transitions that a draw may have whatever it is worth, as they cost little."""
        return 1

    def autocorrelation(self, target: Any) -> float:
        """Return what neighbouring draws should have."""
        return TARGET_AUTOCORRELATION

    @abstractmethod
    def begin(self, target: Target) -> Any:
        """Return the kernel's settings, a named tuple, as a chain starts with them."""

    def new_chain(self, target: Any, brightness: Resampling, anchor: Anchor | None) -> FireflyChain:
        """Return a chain over a target, whose anchor may not be the step's first."""
        return FireflyChain(target, brightness, self.begin(target), anchor)

    def started(self, chain: FireflyChain, rng: np.random.Generator, dispersed: bool) -> None:
        """Go on from a chain's first state, which was drawn around the anchor or has been given."""
        if self.isotropic:
            chain.set_geometry(isotropic_geometry(chain.geometry))

    def end_window(self, chain: FireflyChain, draws: np.ndarray, is_last: bool) -> None:
        """Learn from a tuning window's draws, standardised, shape (n, D)."""

    def end_tuning(self, chain: FireflyChain) -> None:
        """Freeze what has been learnt."""

    @abstractmethod
    def statistics(self, chain: FireflyChain) -> dict[str, Any]:
        """Return the statistics of a draw beside those that all kernels have."""

    def gradients(self, chain: FireflyChain) -> float:
        """Return the gradients that were evaluated since this was last asked."""
        return 0.0


def conditional_plan(target: Target, resampling: Resampling, cursor: np.ndarray) -> Any:
    """Return how z is resampled between conditional updates of theta."""
    n_rows = sum(len(part.X) for part in target.data.parts)
    scheme = resampling if target.subsamples else None
    return make_plan(scheme, n_rows, target.data.levels, cursor)


def plan_with_z(target: Target, resampling: Resampling, cursor: np.ndarray) -> Any:
    """Return the tables that z is drawn from together with theta."""
    (rows,) = target.data.parts
    assert target.data.alias is not None
    return target.data.alias._replace(drawn=np.empty(len(rows.X) + SPARE, np.int32))


#: Mixtures that all of these updates have.
_EITHER = {"random_walk": (1.0, 0.0, 0.0), "pcn": (0.0, 1.0, 0.0)}


class MetropolisAdaptation(Adaptation):
    """Metropolis-Hastings updates of the parameters, given the brightness.

    `proposal`: one of `mixtures`.

    Raises ValueError if these updates do not have the proposal.
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


class SliceAdaptation(Adaptation):
    """Slice updates along standardised coordinates ("coordinate"), or along random directions.

    These are random in standardised coordinates ("random"), or in the model's own ("isotropic").
    """

    def __init__(self, direction: str = "coordinate") -> None:
        self.random, self.isotropic = direction != "coordinate", direction == "isotropic"

    def begin(self, target: Target) -> Any:
        """Return `kernels.slice.Slices`."""
        return new_slices(len(target.geometry.centre), self.random)

    def statistics(self, chain: FireflyChain) -> dict[str, Any]:
        """Mean width of the intervals."""
        return {"slice_width": float(chain.kernel_parameters.width.mean())}


SLICE = SliceAdaptation.spec = KernelSpec(
    "slice", slices.run_kernel, SliceAdaptation, conditional_plan
)


#: Largest length of a trajectory, in posterior standard deviations, and its acceptance rate.
LENGTH, TARGET_ACCEPT = 2.5, 0.75
#: Ratio of proposals to the bright rows expected, with many effects of groups. An effective draw of
#: the slowest of 3,061 parameters of a Rasch model took half the rows that it took with a ratio of
#: one, and of 2,007 of random intercepts as many.
MANY_EFFECTS = 4.0
#: Gradients of a trajectory where the posterior is near normal.
GRADIENTS = 4


class HamiltonianAdaptation(Adaptation):
    """Hamiltonian moves; with a length of zero, Langevin moves.

    `length`: largest length of a trajectory, in posterior standard deviations.
    """

    def __init__(
        self, length: float = LENGTH, target_accept: float = TARGET_ACCEPT, metric: str = "auto"
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


#: Acceptance rate of trajectories through a surrogate. It is high, because steps are cheap, and
#: short steps reach regions that long ones do not.
SURROGATE_ACCEPT = 0.9
#: Trajectories in a proposal.
REPEATS = 2
#: Proposals to come in from a start, at least where it was drawn, and at most.
FEWEST_APPROACHES, APPROACH = 2, 100


def _surrogate_plan(target: Target, resampling: Resampling, cursor: np.ndarray) -> Surrogate:
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
        super().__init__(LENGTH, SURROGATE_ACCEPT)

    def first_transitions(self, target: Target) -> int:
        """Return one: each has several trajectories."""
        return 1

    def begin(self, target: Target) -> Any:
        """Return `kernels.surrogate.SurrogateProposals`."""
        d = len(target.geometry.centre)
        proposals = new_surrogate_proposals(d, target.n_slopes, LENGTH, SURROGATE_ACCEPT)
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
    "surrogate",
    surrogate.run_kernel,
    SurrogateAdaptation,
    _surrogate_plan,
    gradients=True,
    fresh=True,
    exact=True,
)


#: Of effects and their rows, after a trajectory, which takes as long with 100,000 groups.
SWEEPS = 4


def _local_plan(target: Target, resampling: Resampling, cursor: np.ndarray) -> Groups:
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
    "local", local.run_kernel, LocalAdaptation, _local_plan, gradients=True, local=True
)

#: All kernels, by name.
KERNELS = {spec.name: spec for spec in (JOINT, METROPOLIS, HAMILTONIAN, SLICE, SURROGATE, LOCAL)}


def spec_of(kernel: str) -> KernelSpec:
    """Return the kernel of a name.

    Raises ValueError if there is none; it lists those that there are.
    """
    check_choice("kernel", kernel, KERNELS)
    return KERNELS[kernel]
