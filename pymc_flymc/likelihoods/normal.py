"""Normal noise around a linear predictor: linear regression."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.random.basic import LogNormalRV, NormalRV
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.likelihoods.likelihood import RowParameters
from pymc_flymc.likelihoods.location_scale import LocationScale
from pymc_flymc.likelihoods.value_checks import check_values, is_positive


@dataclass(frozen=True)
class Normal(LocationScale):
    """Observed values that have normal noise around the predictor, or whose logarithms have it.

    The log density ``-u/2``, with u = ((y - eta)/sigma)^2, is linear in u, and so its own tangent.
    The bound is the likelihood for any sigma, and no row is ever bright.
    """

    of_logarithms: bool = False  #: Whether the model observes values whose logarithms are normal.
    name = "normal"
    usage = "pm.Normal(mu=eta, sigma=sigma), pm.LogNormal(mu=eta, sigma=sigma)"
    distributions = NormalRV | LogNormalRV
    n_features = 1

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return location and log sigma, and which of the two distributions it is."""
        likelihood = replace(self, of_logarithms=isinstance(rv.owner.op, LogNormalRV))
        return replace(super().read(rv), likelihood=likelihood)

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Return finite values as float64, or the logarithms of positive ones."""
        values = super().read_observed(values, name)
        if not self.of_logarithms:
            return values
        check_values(is_positive(values), values, name, "positive")
        return np.log(values)

    def log_normaliser(self, nuisances: Sequence[Any]) -> Any:
        """Return the graph of the part of the log density that does not depend on the residual."""
        return -nuisances[-1] - 0.5 * np.log(2.0 * np.pi)

    def log_kernel(self, z: Any, nuisances: Sequence[Any]) -> Any:
        """Return the graph of ``-z^2 / 2``."""
        return -0.5 * pt.sqr(z)

    def tangent(self, squared: np.ndarray, nuisances: Sequence[np.ndarray]) -> np.ndarray:
        """Return minus the slope, shape (1, n), which is the same everywhere."""
        return np.full((1, len(squared)), 0.5)

    def tangent_offset(self, one: Any, features: Sequence[Any], nuisances: Sequence[Any]) -> Any:
        """Return the graph of c, which is zero."""
        return 0.0 * one
