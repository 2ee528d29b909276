"""Slice updates given z."""

from __future__ import annotations

from typing import Any

from pymc_flymc.kernels.slice import new_slices
from pymc_flymc.sampling.chain import FireflyChain
from pymc_flymc.sampling.tuners.base import Tuner
from pymc_flymc.target.target import Target

__all__ = ["SliceTuner"]


class SliceTuner(Tuner):
    """Slice updates along coordinates, or along random directions."""

    def __init__(self, random: bool) -> None:
        self.random = random

    def begin(self, target: Target) -> Any:
        """Return `kernels.slice.Slices`."""
        return new_slices(len(target.geometry.centre), self.random)

    def statistics(self, chain: FireflyChain) -> dict[str, Any]:
        """Mean width of the intervals."""
        return {"slice_width": float(chain.moves.width.mean())}
