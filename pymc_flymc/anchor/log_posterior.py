"""A model's log density for mode finding: rows by passes over the data, the rest as a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pymc_flymc.anchor.effects import Effects, find_effects
from pymc_flymc.anchor.expanded_density import ExpandedDensity
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.reading.flat import Layout
from pymc_flymc.regression.expansion import JointExpansion
from pymc_flymc.regression.regression import Regression, expand, names_of


@dataclass(frozen=True)
class LogPosterior:
    """A model's log density."""

    density: ExpandedDensity  #: The model with its log-likelihoods replaced by quadratics.
    regressions: tuple[Regression, ...]
    layout: Layout
    effects: Effects  #: Parameters that are integrated out, and those that count as independent.

    @classmethod
    def of(
        cls, density: ExpandedDensity, regressions: Sequence[Regression], layout: Layout
    ) -> LogPosterior:
        """Return the log density, with effects of groups separated from other parameters."""
        effects = find_effects(density, [each.design for each in regressions], layout)
        return cls(density, tuple(regressions), layout, effects)

    def integrating_out(self, places: np.ndarray) -> LogPosterior:
        """Return the same log density with other parameters integrated out."""
        return replace(self, effects=replace(self.effects, integrated_out=places))

    @property
    def names(self) -> str:
        """Return the names of the observed variables, for messages."""
        return names_of(self.regressions)

    def expand(self, theta: np.ndarray, strides: Sequence[int] | None = None) -> JointExpansion:
        """Expand the log-likelihoods around the coefficients at theta, in one pass."""
        return expand(self.regressions, self.density.coefficients(theta), strides)

    def value(self, theta: np.ndarray, expansion: JointExpansion) -> float:
        """Return the log density at theta, around which the log-likelihoods have been expanded."""
        # The model's own errors there are raised: a search cannot begin at such a point.
        value, gradient = self.density(theta, expansion.pack())
        if self.density.error is not None:
            raise self.density.error
        bad = np.flatnonzero(~np.isfinite(gradient))
        if np.isfinite(value) and bad.size:
            raise UnsupportedModelError(
                f"the log density of the model with likelihood {self.names} has no finite "
                f"derivative in {self.layout.describe(int(bad[0]))} where the search for its mode "
                "begins; give FireflyMH an anchor=, or the variables other initial values"
            )
        return value

    def curvature_along(self, theta: np.ndarray, expansion: JointExpansion, v: np.ndarray) -> float:
        """Return minus the second derivative along v at theta, with the rows expanded."""
        return -float(v @ self.density.hessian_times(theta, expansion.pack(), v))
