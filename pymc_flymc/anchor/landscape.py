"""A model's log density as the anchor search sees it: rows in passes, the rest as a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymc_flymc.anchor.effects import Effects, find_effects
from pymc_flymc.anchor.objective import Objective
from pymc_flymc.anchor.surrogate import Surrogate
from pymc_flymc.anchor.trust_region import WithoutLimitError, maximise
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

    def height(self, theta: np.ndarray, expansion: JointExpansion) -> float:
        """Log density at theta, around which the log-likelihoods have been expanded.

        Raises what the model's own graph raises there: a search cannot begin at such a point.
        """
        value, _ = self.surrogate(theta, expansion.pack())
        if self.surrogate.error is not None:
            raise self.surrogate.error
        return value

    def objective(self, expansion: JointExpansion, near: bool = True) -> Objective:
        """Return what the search maximises, with the log-likelihoods as in an expansion."""
        return Objective(self.surrogate, expansion.pack(), self.effects, near)

    def maximise(self, objective: Objective, theta: np.ndarray) -> tuple[np.ndarray, Objective]:
        """Maximise an objective from theta, and return what was maximised; no pass over the data.

        Raises
        ------
        ValueError
            If it grows without limit; the message names a parameter.
        """
        try:
            return maximise(objective, theta)
        except WithoutLimitError as error:
            highest = error.theta
            i = int(np.argmax(np.abs(np.nan_to_num(objective(highest)[1]))))
            raise ValueError(
                f"no posterior mode found: the log density of the model with likelihood "
                f"{self.names} grows without limit as {self.layout.describe(i)} comes near "
                f"{highest[i]:.6g} (unconstrained), as at a covariance that is singular. A prior "
                "that keeps away from there would give it a mode"
            ) from None
