"""What kernels learn while a chain tunes, and how those of conditional updates resample z."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from pymc_flymc.anchor.anchor import Anchor
from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.sampling.chain import FireflyChain
from pymc_flymc.sampling.tuning import TARGET_AUTOCORRELATION, isotropic_geometry
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
