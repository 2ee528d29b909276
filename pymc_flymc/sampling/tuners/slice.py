"""Slice updates given z."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_flymc.kernels.slice import new_slices
from pymc_flymc.sampling.chain import FireflyChain
from pymc_flymc.sampling.metric import isotropic_geometry
from pymc_flymc.sampling.tuners.base import Tuner
from pymc_flymc.target.target import Target

__all__ = ["SliceTuner"]


class SliceTuner(Tuner):
    """Slice updates along coordinates ("coordinate"), or along random directions.

    These are random in whitened coordinates ("random"), or in the model's own ("isotropic").
    """

    def __init__(self, direction: str) -> None:
        self.random, self.isotropic = direction != "coordinate", direction == "isotropic"

    def begin(self, target: Target) -> Any:
        """Return `kernels.slice.Slices`."""
        return new_slices(len(target.geometry.centre), self.random)

    def started(self, chain: FireflyChain, rng: np.random.Generator, dispersed: bool) -> None:
        """Leave out all that is known of the posterior's shape, if so asked."""
        if self.isotropic:
            chain.set_geometry(isotropic_geometry(chain.geometry))

    def statistics(self, chain: FireflyChain) -> dict[str, Any]:
        """Mean width of the intervals."""
        return {"slice_width": float(chain.moves.width.mean())}
