"""Angles around a predictor."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.random.basic import VonMisesRV
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.likelihoods.checks import check_values, known_number
from pymc_flymc.likelihoods.family import SmoothFamily
from pymc_flymc.likelihoods.likelihood import RowParameters


@dataclass(frozen=True)
class VonMises(SmoothFamily):
    r"""Observed angles around the predictor, of a known concentration.

    The log-likelihood is :math:`\kappa \cos(y - \eta)`: concave where the two are less than a
    quarter of a turn apart. `read` fills in kappa.
    """

    kappa: float = 1.0
    name = "von-mises"
    usage = "pm.VonMises(mu=eta, kappa=2.0)"
    distributions: Any = VonMisesRV
    log_concave = False

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return the predictor and kappa."""
        eta, kappa = rv.owner.op.dist_params(rv.owner)
        number = known_number(kappa, "kappa", rv, f"; Firefly needs a number: {self.usage}")
        return RowParameters(replace(self, kappa=number), eta)

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Return angles as float64."""
        values = np.asarray(values, dtype=np.float64)
        check_values(np.abs(values) <= np.pi, values, name, "angles between -pi and pi")
        return values

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return the log-likelihood without terms that do not depend on eta."""
        (eta,) = arguments
        return self.kappa * pt.cos(y - eta)
