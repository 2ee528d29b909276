"""Firefly Monte Carlo with slice updates."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pymc.blocking import PointType
from pymc.model import Model
from pymc.util import RandomGenerator

from pymc_flymc.errors import check_choice
from pymc_flymc.steps.step import FireflyStep

if TYPE_CHECKING:
    from pymc_flymc.sampling.bound_choice import BoundSetting
    from pymc_flymc.sampling.sampler import Sampler, SamplingTask
    from pymc_flymc.target.resampling import Resampling

DIRECTIONS = ("coordinate", "random", "isotropic")


class FireflySlice(FireflyStep):
    """Firefly Monte Carlo with slice updates of the parameters.

    Stepping out and shrinkage (Neal 2003): nothing is rejected, and badly tuned widths cost time
    only. Every evaluation reads the bright rows, and counts.

    Parameters
    ----------
    vars, bound
        As in `FireflyHMC`.
    brightness : ImplicitResampling or ExplicitResampling, optional
        How the brightness of the rows is resampled; ``ImplicitResampling()`` by default.
    direction : {"coordinate", "random", "isotropic"}
        Whether a transition updates along each standardised coordinate in turn, along one direction
        that is random in standardised coordinates, or along one that is random in the parameters
        themselves, on the unconstrained scale, as in the paper.
    transitions, anchor, model, rng, initial_point, checkpoint
        As in `FireflyMH`.

    Raises
    ------
    UnsupportedModelError, ValueError
        As in `FireflyMH`.

    See Also
    --------
    FireflyMH : tries which moves are cheapest.
    FireflyHMC : for more than a handful of parameters.

    Notes
    -----
    Each draw has the statistics of `FireflyMH` without step sizes;
    ``acceptance_probability`` is one, and ``slice_width`` is the mean first width of the intervals,
    in posterior standard deviations.

    References
    ----------
    Neal, R. M. (2003). Slice sampling. Annals of Statistics 31, 705-767.

    Examples
    --------
    >>> with model:
    ...     idata = pm.sample(step=FireflySlice(direction="random"))
    """

    name = "firefly_slice"
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {
        **FireflyStep.common_stats,
        "slice_width": (np.float64, []),
    }

    def __init__(
        self,
        vars: Sequence[Any] | None = None,
        *,
        bound: BoundSetting = "auto",
        brightness: Resampling | None = None,
        direction: Literal["coordinate", "random", "isotropic"] = "coordinate",
        transitions: int | None = None,
        anchor: dict[str, Any] | None = None,
        model: Model | None = None,
        rng: RandomGenerator = None,
        initial_point: PointType | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        check_choice("direction", direction, DIRECTIONS)
        self._direction = direction
        common = vars, bound, brightness, transitions, anchor, model, rng, initial_point, checkpoint
        self._build(*common)

    def _choose(self, task: SamplingTask) -> Sampler:
        from pymc_flymc.sampling.adaptation import SliceAdaptation
        from pymc_flymc.sampling.choice import conditional_sampler

        adaptation = SliceAdaptation(self._direction)
        return conditional_sampler(task, self._brightness, adaptation, self._transitions)
