"""Normal noise whose scale differs from row to row."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.random.basic import LogNormalRV, NormalRV
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.likelihoods.functions import THIRD
from pymc_flymc.likelihoods.likelihood import RowParameters
from pymc_flymc.likelihoods.scales_by_row import ScalesByRow
from pymc_flymc.likelihoods.value_checks import check_values, is_positive

#: Added to absolute residuals, in units of the outcomes, for bounds that hold at any distance.
LEAST_RESIDUAL = 0.25


@dataclass(frozen=True)
class NormalScales(ScalesByRow):
    r"""Values with normal noise of variance V, see `ScalesByRow`.

    Up to a constant the log-likelihood is :math:`-(\log V + (y - \eta)^2 / V) / 2`.
    """

    of_logarithms: bool = False  #: Whether the model observes values whose logarithms are normal.
    name = "normal-scales"
    usage = "pm.Normal(mu=eta, sigma=pm.math.exp(tau))"
    distributions: Any = NormalRV | LogNormalRV

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return eta and tau, in units of the outcomes, and known standard errors."""
        mu, sigma = rv.owner.op.dist_params(rv.owner)
        of_logarithms = isinstance(rv.owner.op, LogNormalRV)
        likelihood = replace(self, of_logarithms=of_logarithms)
        return self.of_scales(likelihood, mu, sigma, pt.log(rv) if of_logarithms else rv, rv)

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Return values, or their logarithms, with known standard errors, (N, 2)."""
        if self.of_logarithms:
            y = values[:, 0]
            check_values(is_positive(y), y, name, "positive and finite")
            values = np.column_stack([np.log(y), values[:, 1]])
        return super().read_observed(values, name)

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return ``-(log V + (y - eta)^2 / V) / 2``."""
        (eta, tau), (value, error) = arguments, y
        log_v = self.log_squared_scale(tau, error)
        return -0.5 * (log_v + pt.sqr(value - eta) * pt.exp(-log_v))

    def third_beyond(
        self, eta: np.ndarray, spread: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        r"""Return a bound on the third derivatives which grows with 1/V, and with the residual.

        With :math:`p = e^{2 \tau} / V` the derivatives of 1/V in tau are :math:`-2 p / V`,
        :math:`(8 p^2 - 4 p) / V` and :math:`(-48 p^3 + 48 p^2 - 8 p) / V`, of absolute values at
        most 2, 4 and 8 over V; the third derivative of log V is at most 8/(6 sqrt 3). A residual r
        is at most |r| + d at a distance d, which grows no faster than :math:`R\, e^{d/R}`, with R =
        |r| + b for any b.
        """
        (eta_0, tau), (c, c_tau), (value, error) = eta, spread, y.T
        r = np.abs(value - eta_0) + LEAST_RESIDUAL
        with np.errstate(over="ignore"):
            precision = 1.0 / (np.exp(2.0 * tau) + error**2)
        terms = 4.0 * r**2 * c_tau**3 + 12.0 * r * c * c_tau**2 + 6.0 * c**2 * c_tau
        rate = self.growth_of_precision(tau, error) * c_tau + 2.0 * c / r
        return np.asarray(precision * terms + 4.0 * THIRD * c_tau**3), rate
