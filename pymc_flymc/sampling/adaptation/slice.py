"""Conditional slice updates."""

from typing import Any

from pymc_flymc.kernels.slice import new_slices, run_kernel
from pymc_flymc.sampling.adaptation.base import Adaptation, conditional_plan
from pymc_flymc.sampling.chain import FireflyChain
from pymc_flymc.target.target import KernelSpec, Target


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


SLICE = SliceAdaptation.spec = KernelSpec("slice", run_kernel, SliceAdaptation, conditional_plan)
