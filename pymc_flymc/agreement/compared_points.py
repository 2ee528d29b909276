"""Points at which a model and what was read of it are compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

import numpy as np

from pymc_flymc.agreement.evaluation import Point, of_reading
from pymc_flymc.agreement.values import Rounded, Values
from pymc_flymc.reading.flat import DensityGraph, Layout


@dataclass(frozen=True)
class Points:
    """Points at which a model and what was read of it are compared.

    Attributes
    ----------
    layout, others_layout : Layout
    graph : DensityGraph
        What was read.
    flat : list of (ndarray, ndarray)
        Values of the step's variables, and of those of other steps.
    """

    layout: Layout
    others_layout: Layout
    graph: DensityGraph
    flat: list[tuple[np.ndarray, np.ndarray]]

    @cached_property
    def read(self) -> Callable[[int], tuple[Values, list[list[Rounded | None]]]]:
        """`of_reading` at these points, as a function of the number of draws of rounding errors."""
        return cache(partial(of_reading, self.graph, self.flat))

    def at(self, some: np.ndarray) -> Points:
        """Return some of the points, which a boolean vector selects."""
        return replace(self, flat=[at for at, one in zip(self.flat, some, strict=True) if one])

    @property
    def named(self) -> list[Point]:
        """Values by the names of variables."""
        return [
            self.layout.unravel(theta) | self.others_layout.unravel(others)
            for theta, others in self.flat
        ]

    def describe(self, t: int) -> str:
        """Return a point as text."""
        theta = self.flat[t][0]
        shown = [f"{self.layout.describe(i)} = {theta[i]:.6g}" for i in range(min(len(theta), 6))]
        return ", ".join(shown) + (", ..." if len(theta) > 6 else "")
