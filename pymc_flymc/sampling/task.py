"""What is to be sampled, as far as the choice of bounds and of a kernel goes, and by what."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymc_flymc.bounds import Bound, Problem
from pymc_flymc.reading.flat import DensityGraph
from pymc_flymc.sampling.adaptation.base import Adaptation
from pymc_flymc.sampling.sampler import Sampler
from pymc_flymc.target.building import build_target
from pymc_flymc.target.resampling import Resampling


@dataclass(frozen=True)
class SamplingTask:
    """A model that has been read, at its anchor, and the bounds that were asked for.

    Attributes
    ----------
    graph : DensityGraph
    problems : sequence of Problem
        One for each likelihood.
    bounds : sequence of Bound or str
        What was asked for each of these: a bound, or "auto".
    others : ndarray, shape (F,)
        Variables of other step methods, at the model's initial point.
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

        Parameters
        ----------
        bounds : sequence of Bound
            One for each likelihood.
        adaptation : Adaptation
            Of the kernel.
        brightness : ImplicitResampling or ExplicitResampling, optional
            That of the adaptation by default.
        transitions : int, optional
            As of `Sampler`.
        n_exact : int
            As of `build_target`.
        """
        brightness = brightness or adaptation.usual_brightness(self.problems[0].anchor.geometry)
        settings = brightness, len(self.others), adaptation.spec, n_exact
        target = build_target(self.graph, self.problems, bounds, *settings)
        return Sampler(target, adaptation, brightness, transitions)
