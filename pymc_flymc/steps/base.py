"""What all Firefly step methods have in common: reading a model, running a chain."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from pymc.blocking import PointType, StatsType
from pymc.model import Model, modelcontext
from pymc.step_methods.compound import BlockedStep, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import RandomGenerator, get_random_generator
from pytensor.graph.traversal import graph_inputs

from pymc_flymc.anchor import Anchor, anchor_at, find_anchor
from pymc_flymc.bounds import Bound, Problem
from pymc_flymc.chain import FireflyChain
from pymc_flymc.density import DensityGraph, Layout, flatten_model
from pymc_flymc.full_passes import warn_of_full_passes
from pymc_flymc.lifetime import end_with_parent
from pymc_flymc.model import anchor_point, read_model
from pymc_flymc.passes import RowDerivatives
from pymc_flymc.reanchoring import Anchors, same_anchors
from pymc_flymc.regression import Regression, names_of
from pymc_flymc.resampling import ImplicitResampling, Resampling
from pymc_flymc.steps.progress import BrightRowsProgress
from pymc_flymc.surrogate import Surrogate
from pymc_flymc.target import Target
from pymc_flymc.tuning import Tuning

__all__ = ["FireflyStep"]

_log = logging.getLogger("pymc.flymc")

#: Starting points are this many posterior standard deviations around the anchor, so that R-hat can
#: tell whether the chains have forgotten them.
OVERDISPERSION = 2.0
#: The mean of fewer draws is no place for an anchor.
ENOUGH_DRAWS = 20


@dataclass_state
class FireflyState(StepMethodState):
    """What a saved sampling state holds; see `FireflyChain.save`."""

    tune: bool
    tuning: Tuning | None = field(default=None)
    chain_state: dict[str, Any] | None = field(default=None)


class FireflyStep(BrightRowsProgress, BlockedStep):
    """A step method over (parameters, brightness); subclasses say how the parameters move."""

    default_blocked = True
    default_tune_steps = 500
    #: Statistics of all steps; subclasses add their own.
    common_stats: ClassVar[dict[str, Any]] = {
        "n_bright": (np.int64, []),
        "likelihood_queries": (np.int64, []),
        "accept": (np.float64, []),
        "transitions": (np.int64, []),
    }
    #: How brightness is resampled by default.
    default_brightness = ImplicitResampling()
    #: Transitions in a step before tuning has had its say.
    first_transitions = 5
    _state_class = FireflyState

    def _build(
        self,
        vars: Sequence[Any] | None,
        brightness: Resampling | None,
        transitions: int | None,
        anchor: dict[str, Any] | None,
        model: Model | None,
        rng: RandomGenerator,
        initial_point: PointType | None,
    ) -> None:
        """Read the model, find the anchor and build the target."""
        if transitions is not None and (transitions != int(transitions) or transitions < 1):
            raise ValueError(f"transitions must be a positive integer, not {transitions!r}")
        model = modelcontext(model)
        reading = read_model(model, vars)
        self.vars, self._per_row = list(reading.vars), reading.per_row
        self.rng = get_random_generator(rng)
        self.tune = True
        initial_point = initial_point or model.initial_point()
        inputs = set(graph_inputs([reading.rest_logp]))
        others = [v for v in model.value_vars if v in inputs and v not in self.vars]
        self._layout = Layout.of(self.vars, initial_point)
        self._others_layout = Layout.of(others, initial_point)
        self._default_theta = self._layout.ravel(initial_point)

        regressions = [
            Regression(
                part.name,
                part.predictor.design,
                part.observed,
                part.likelihood,
                RowDerivatives(part.likelihood),
            )
            for part in reading.parts
        ]
        graph = flatten_model(
            reading.rest_logp,
            [part.predictor.coefficients for part in reading.parts],
            [regression.design.n_coefficients for regression in regressions],
            self.vars,
            self._layout,
            others,
            self._others_layout,
        )
        surrogate = Surrogate(graph, self._others_layout.ravel(initial_point))
        if anchor is None:
            anchors = find_anchor(surrogate, regressions, self._default_theta, self._layout)
        else:
            theta = self._layout.ravel(anchor_point(model, anchor))
            anchors = anchor_at(surrogate, regressions, theta, self._layout)
        self.brightness = self.default_brightness if brightness is None else brightness
        problems = [
            Problem(**regression.__dict__, anchor=found)
            for regression, found in zip(regressions, anchors, strict=True)
        ]
        self._transitions = transitions
        self.tuning: Tuning | None = None
        self._chain: FireflyChain | None = None
        self.target = self._choose(graph, problems, self._others_layout.ravel(initial_point))
        self._anchors = Anchors.of(self.target, problems, self._layout, self.brightness)
        _log.info(
            f"{type(self).__name__}: {names_of(regressions)}, anchor found in "
            f"{anchors[0].passes:.1f} passes over the data"
        )
        names = [part.name for part in reading.parts]
        others_now = self._others_layout.ravel(initial_point)
        warn_of_full_passes(reading.full_passes, names, self.target, others_now)

    @abstractmethod
    def _choose(
        self, graph: DensityGraph, problems: Sequence[Problem], others: np.ndarray
    ) -> Target:
        """Build the target, with the bound asked for or good ones."""

    @abstractmethod
    def _new_moves(self) -> Any:
        """Return the kernel's settings as a chain starts with them."""

    @abstractmethod
    def _statistics(self, chain: FireflyChain) -> dict[str, Any]:
        """Return the statistics of a draw beside the common ones."""

    def _started(self, chain: FireflyChain) -> None:
        """Go on from a chain's first state."""

    def _end_window(self, chain: FireflyChain, draws: np.ndarray) -> None:
        """Learn from a tuning window's draws, whitened, shape (n, D)."""

    def _end_tuning(self, chain: FireflyChain) -> None:
        """Freeze what has been learnt."""

    @property
    def bounds(self) -> tuple[Bound | None, ...]:
        """The bound in use for each likelihood."""
        return tuple(part.bound for part in self.target.parts)

    def setup_chain(self, rng: RandomGenerator, tune: int, draws: int) -> None:
        """Start a new chain: nothing of an earlier one remains."""
        super().setup_chain(rng, tune, draws)
        end_with_parent()
        self._chain = self._new_chain()
        self.tune = tune > 0
        self.tuning = self._new_tuning(tune)

    def _new_tuning(self, steps: int) -> Tuning:
        first = self.first_transitions
        return Tuning(
            steps=steps,
            transitions=self._transitions or first,
            fewest=first if self.target.is_joint else 1,
            adapt_transitions=self._transitions is None,
        )

    def _new_chain(
        self, anchors: tuple[Anchor, ...] | None = None, target: Target | None = None
    ) -> FireflyChain:
        """Return a chain at the step's first anchor, or at one that has moved, with its target."""
        if anchors is not None and target is None:
            target = self._anchors.target_at(anchors)
        return FireflyChain(target or self.target, self.brightness, self._new_moves(), anchors)

    def step(self, point: PointType) -> tuple[PointType, StatsType]:
        """Make the transitions of one draw."""
        if self._chain is None or self.tuning is None:
            self.setup_chain(self.rng, 0, 1)
        chain, tuning = self._chain, self.tuning
        assert chain is not None and tuning is not None
        theta = self._layout.ravel(point)
        chain.set_others(self._others_layout.ravel(point))
        if not chain.started:
            self._start(chain, theta)
            self._started(chain)
        elif not np.array_equal(theta, self._layout.round(chain.state.theta)):
            # Somebody else moved our variables: z must be drawn again from its conditional law.
            chain.start_at(self.rng, theta)
        transitions = tuning.transitions
        accept = chain.advance(self.rng, transitions, tuning.gain() if self.tune else 0.0)
        if self.tune:
            window = tuning.record(chain.state.v, chain.n_bright)
            if window is not None:
                chain, draws = self._reanchor(chain, *window)
                self._end_window(chain, draws)
            if tuning.is_over:
                self._end_tuning(chain)
        stats = {
            "n_bright": chain.n_bright,
            "likelihood_queries": chain.take_queries(),
            "accept": accept,
            "transitions": transitions,
            **self._statistics(chain),
        }
        # All keys, in their order; never in place: the point may be memory shared with PyMC.
        return {**point, **self._layout.unravel(chain.state.theta)}, [stats]

    def _start(self, chain: FireflyChain, theta: np.ndarray) -> None:
        name = type(self).__name__
        if not np.array_equal(theta, self._default_theta):
            if not np.isfinite(chain.start_at(self.rng, theta)):
                raise ValueError(f"{name}: the model's log density is not finite at initvals")
            return
        spread = OVERDISPERSION
        for _ in range(50):
            v = spread * self.rng.standard_normal(len(theta))
            if np.isfinite(chain.log_density_at(v)):
                chain.start(self.rng, v)
                return
            spread *= 0.8  # beyond the support of a bounded variable
        raise ValueError(f"{name}: found no starting point of finite density around the anchor")

    def _reanchor(
        self, chain: FireflyChain, draws: np.ndarray, bright: float
    ) -> tuple[FireflyChain, np.ndarray]:
        """Move the anchor to the mean of a window's draws, whitened, shape (n, D), if that pays.

        Tuning starts again for the steps that are left of it: what has been learnt at the old
        anchor, where other rows were bright, says little. The parameters stay where they are and z
        is drawn afresh from its law given them, as the augmented density is another one. Neither
        affects exactness: once tuning is over, nothing moves.

        Returns
        -------
        The chain that goes on, and the draws in its coordinates.
        """
        tuning = self.tuning
        assert tuning is not None
        # Not in the first window, in which a chain comes in from its starting point.
        if tuning.is_over or len(draws) == tuning.step or len(draws) < ENOUGH_DRAWS:
            return chain, draws
        draws_theta = np.stack([chain.unwhiten(v) for v in draws])
        found = self._anchors.better(chain, draws_theta, bright)
        if found is None:
            return chain, draws
        moved = self._new_chain(*found)
        moved.set_others(chain.others)
        moved.start_at(self.rng, chain.state.theta)
        moved.scratch.queries[0] += chain.take_queries()
        self._started(moved)
        self._chain, self.tuning = moved, self._new_tuning(tuning.steps - tuning.step)
        return moved, np.stack([moved.whiten(theta) for theta in draws_theta])

    @property
    def chain_state(self) -> dict[str, Any] | None:
        """State of the running chain, a part of `sampling_state`."""
        return None if self._chain is None else self._chain.save()

    @chain_state.setter
    def chain_state(self, saved: dict[str, Any] | None) -> None:
        if saved is None:
            self._chain = None
            return
        anchors = saved["anchors"]
        if self._chain is None or not same_anchors(self._chain.anchors, anchors):
            self._chain = self._new_chain(anchors)
        self._chain.restore(saved)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickle without the model, which holds the data: they travel as a file."""
        dropped = ("_BlockedStep__newargs", "_chain")
        state = {k: v for k, v in self.__dict__.items() if k not in dropped}
        return _rebuild, (type(self), state, self.chain_state)


def _rebuild(cls: type, state: dict[str, Any], chain_state: dict[str, Any] | None) -> FireflyStep:
    step: FireflyStep = object.__new__(cls)
    step.__dict__.update(state)
    step._chain = None
    step.chain_state = chain_state
    return step
