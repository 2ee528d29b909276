"""What is to be sampled, as far as the choice of bounds and of a kernel goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pymc_flymc.bounds import Bound, Problem
from pymc_flymc.reading.flat import DensityGraph
from pymc_flymc.sampling.nuts_gradients import nuts_gradients


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

    @cached_property
    def nuts_gradients(self) -> float:
        """Gradients that NUTS would take per effective draw, by the Laplace approximation."""
        return nuts_gradients(self.problems[0].anchor.geometry)
