"""What all chains of a step share: how each begins, tunes and moves its anchor, and the task."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_flymc.anchor.anchor import Anchor
from pymc_flymc.bounds import Bound, Problem
from pymc_flymc.reading.flat import DensityGraph
from pymc_flymc.sampling.adaptation import Adaptation
from pymc_flymc.sampling.chain import FireflyChain
from pymc_flymc.sampling.reanchoring import Anchors
from pymc_flymc.sampling.tuning import Tuning
from pymc_flymc.target.resampling import Resampling
from pymc_flymc.target.target import build_target

#: The mean of fewer draws is no place for an anchor.
ENOUGH_DRAWS = 20


@dataclass(frozen=True)
class Sampler:
    """Makes chains, and lets them learn while they tune.

    `target`: at the first anchor. `transitions`: of (theta, z) in a draw; by default they are
    learnt. `anchors`: none if the anchor stays where it is.
    """

    target: Any
    adaptation: Adaptation
    brightness: Resampling
    transitions: int | None = None
    anchors: Anchors | None = None

    @property
    def fewest(self) -> int:
        """The fewest transitions in a draw that tuning may choose."""
        return max(self.adaptation.fewest, self.adaptation.cheap_transitions(self.target))

    @property
    def autocorrelation(self) -> float:
        """What neighbouring draws should have."""
        return self.adaptation.autocorrelation(self.target)

    def new_tuning(self, steps: int) -> Tuning:
        """Return the schedule of a chain that has so many tuning draws."""
        adaptation = self.adaptation
        return Tuning(
            steps=steps,
            transitions=self.transitions or adaptation.first_transitions(self.target),
            fewest=self.fewest,
            most=adaptation.most,
            adapt_transitions=self.transitions is None,
            sparing=adaptation.sparing and self.transitions is None,
            autocorrelation=self.autocorrelation,
        )

    def new_chain(self, anchor: Anchor | None = None, target: Any = None) -> FireflyChain:
        """Return a chain at the first anchor, or at one that has moved, with its target."""
        if anchor is not None and target is None and self.anchors is not None:
            target = self.anchors.target_at(anchor)
        return self.adaptation.new_chain(target or self.target, self.brightness, anchor)

    def start(
        self, chain: FireflyChain, rng: np.random.Generator, theta: np.ndarray | None = None
    ) -> None:
        """Start a chain at given unconstrained parameters, or else dispersed around the anchor.

        Raises ValueError if the density is zero there.
        """
        if theta is None:
            if not chain.start_dispersed(rng):
                raise ValueError(
                    "Firefly: found no starting point of finite density around the anchor"
                )
        elif not np.isfinite(chain.start_at(rng, theta)):
            chain.started = False  # no chain goes on from here
            raise ValueError("Firefly: the model's log density is not finite at initvals")
        self.adaptation.started(chain, rng, dispersed=theta is None)

    def learn(
        self, chain: FireflyChain, tuning: Tuning, rng: np.random.Generator
    ) -> tuple[FireflyChain, Tuning]:
        """Take note of a tuning draw; return the chain and the schedule that go on."""
        window = tuning.record(chain.state.v, chain.n_bright)
        if window is not None:
            draws, bright = window
            chain, tuning, draws = self._reanchored(chain, tuning, draws, bright, rng)
            self.adaptation.end_window(chain, draws, tuning.is_over)
        if tuning.is_over:
            self.adaptation.end_tuning(chain)
        return chain, tuning

    def _reanchored(
        self,
        chain: FireflyChain,
        tuning: Tuning,
        draws: np.ndarray,
        bright: float,
        rng: np.random.Generator,
    ) -> tuple[FireflyChain, Tuning, np.ndarray]:
        """Move the anchor to the mean of a window's draws, if that pays.

        Tuning starts again for the steps that are left of it: what has been learnt at the old
        anchor, where other rows were bright, says little. The parameters stay where they are, but
        where the kernel's adaptation lets chains come in from far. z is drawn again given them, as
        the augmented density is another one. None of this affects exactness: once tuning is over,
        nothing moves.

        Parameters
        ----------
        draws : ndarray, shape (n, D)
            Standardised.
        bright : float
            Their mean number of bright rows.

        Returns
        -------
        The chain and the schedule that go on, and the draws in the chain's coordinates.
        """
        same = chain, tuning, draws
        # Not in the first window, in which a chain comes in from its starting point.
        if tuning.is_over or len(draws) == tuning.step or len(draws) < ENOUGH_DRAWS:
            return same
        if self.anchors is None:
            return same
        thetas = np.stack([chain.geometry.unstandardise(v) for v in draws])
        found = self.anchors.better(chain, thetas, bright)
        if found is None:
            return same
        moved = self.new_chain(*found)
        moved.set_others(chain.others)
        moved.start_at(rng, chain.state.theta)
        moved.scratch.queries[0] += chain.take_queries()
        self.adaptation.started(moved, rng, dispersed=False)
        standardised = np.stack([moved.geometry.standardise(theta) for theta in thetas])
        return moved, self.new_tuning(tuning.steps - tuning.step), standardised


@dataclass(frozen=True)
class SamplingTask:
    """A model that has been read, at its anchor, and the bounds that were asked for.

    `problems`: one for each likelihood. `bounds`: what was asked for each of these: a bound, or
    "auto". `others` (F,): variables of other step methods, at the model's initial point.
    """

    graph: DensityGraph
    problems: Sequence[Problem]
    bounds: Sequence[Bound | str]
    others: np.ndarray

    def sampler(
        self,
        bounds: Sequence[Bound],
        adaptation: Adaptation,
        brightness: Resampling | None = None,
        transitions: int | None = None,
        n_exact: int = 0,
    ) -> Sampler:
        """Build what samples by a kernel under bounds, in one pass over the data.

        `bounds`: one for each likelihood. `adaptation`: of the kernel. `brightness`: that of the
        adaptation by default. `transitions`: as of `Sampler`. `n_exact`: as of `build_target`.
        """
        brightness = brightness or adaptation.usual_brightness(self.problems[0].anchor.geometry)
        settings = brightness, len(self.others), adaptation.spec, n_exact
        target = build_target(self.graph, self.problems, bounds, *settings)
        return Sampler(target, adaptation, brightness, transitions)
