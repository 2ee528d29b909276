"""What all parts of the log density that are compared have in common."""

from __future__ import annotations

from typing import Protocol

from pymc_flymc.agreement.compared_points import Points
from pymc_flymc.agreement.values import Values


class ComparedPart(Protocol):
    """A part of the log density, as a step computes it and as the model does."""

    @property
    def what(self) -> str:
        """What it is, for messages."""
        ...

    def evaluate(self, points: Points, draws: int) -> tuple[Values, Values]:
        """Evaluate both sides at some points, with some draws of rounding errors."""
        ...

    def expected(self, points: Points, with_checks: bool) -> Values:
        """Evaluate the model's own side, with its checks of distributions' parameters or without.

        With them it takes a pass over the rows.
        """
        ...

    def place(self, i: int) -> str:
        """Where the i-th of its numbers belongs, for messages: empty if there is one for all."""
        ...
