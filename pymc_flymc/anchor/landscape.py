"""A model's log density as the anchor search sees it: rows in passes, the rest as a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymc_flymc.anchor.effects import Effects, find_effects
from pymc_flymc.anchor.objective import Objective
from pymc_flymc.anchor.surrogate import Surrogate
from pymc_flymc.reading.flat import Layout
from pymc_flymc.regression.regression import JointExpansion, Regression, expand, names_of

__all__ = ["Landscape"]


@dataclass(frozen=True)
class Landscape:
    """A model's log density.

    Attributes
    ----------
    surrogate : Surrogate
        The model with its log-likelihoods replaced by quadratics.
    regressions : tuple of Regression
    layout : Layout
        Names of the parameters, for messages.
    effects : Effects
        What is integrated out, and which parameters the Laplace approximation takes as independent.
    """

    surrogate: Surrogate
    regressions: tuple[Regression, ...]
    layout: Layout
    effects: Effects

    @classmethod
    def of(
        cls, surrogate: Surrogate, regressions: Sequence[Regression], layout: Layout
    ) -> Landscape:
        """Tell effects of groups from other parameters."""
        effects = find_effects(surrogate, [each.design for each in regressions], layout)
        return cls(surrogate, tuple(regressions), layout, effects)

    @property
    def names(self) -> str:
        """Names of the observed variables, for messages."""
        return names_of(self.regressions)

    def expand(self, theta: np.ndarray, strides: Sequence[int] | None = None) -> JointExpansion:
        """Expand the log-likelihoods around the coefficients at theta, in one pass."""
        return expand(self.regressions, self.surrogate.coefficients(theta), strides)

    def objective(self, expansion: JointExpansion, near: bool = True) -> Objective:
        """Return what the search maximises, with the log-likelihoods as in an expansion."""
        return Objective(self.surrogate, expansion.pack(), self.effects, near)
