"""Points at which a model and what was read of it are compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pymc_flymc.agreement.evaluation import Point
from pymc_flymc.agreement.values import Rounded, Values
from pymc_flymc.reading.flat import Layout


@dataclass(frozen=True)
class Points:
    """Points at which a model and what was read of it are compared.

    Attributes
    ----------
    layout, others_layout : Layout
    flat : list of (ndarray, ndarray)
        Values of the step's variables, and of those of other steps.
    read : callable
        `of_reading` at these points, as a function of the number of draws of rounding errors.
    """

    layout: Layout
    others_layout: Layout
    flat: list[tuple[np.ndarray, np.ndarray]]
    read: Callable[[int], tuple[Values, list[list[Rounded | None]]]]

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
