"""Skew-normal noise around a predictor."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.graphs.tools import free_inputs
from pymc_flymc.likelihoods.family import JointlySmoothFamily
from pymc_flymc.likelihoods.functions import log_normal_cdf
from pymc_flymc.likelihoods.likelihood import RowParameters
from pymc_flymc.likelihoods.links import as_columns
from pymc_flymc.likelihoods.location_scale import scale_and_unit
from pymc_flymc.likelihoods.value_checks import one_for_all_rows


class SkewNormal(JointlySmoothFamily):
    r"""Observed values with skew-normal noise around :math:`\eta_n`.

    With :math:`z = (y - \eta) / \sigma` the log-likelihood is :math:`-z^2 / 2 + \log\Phi(\alpha z)
    - \log\sigma`. Its predictors are z and :math:`\alpha z`, linear in coefficients times
    :math:`1 / \sigma` and :math:`\alpha / \sigma`, and in these themselves: the design has a column
    of y. The first term is its own expansion.
    """

    name = "skew-normal"
    usage = "pm.SkewNormal(mu=eta, sigma=sigma, alpha=alpha)"
    distributions: Any = pm.SkewNormal.rv_type
    n_predictors = 2

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return both predictors, and the further terms of rows."""
        mu, sigma, alpha = rv.owner.op.dist_params(rv.owner)
        alpha = one_for_all_rows(alpha, "alpha", rv).astype("float64")
        scale, unit = scale_and_unit(sigma, "sigma", rv)
        z = (rv - mu if unit is None else (rv - mu) / unit) / scale
        rest = -pt.log(scale) if free_inputs([scale]) else None
        return RowParameters(self, as_columns(z, alpha * z), rest=rest)

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Check values, and return ones: the design contains the values."""
        return np.ones_like(super().read_observed(values, name))

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return the log-likelihood without terms in sigma alone."""
        z, skewed = arguments
        value: Any = y * (log_normal_cdf(skewed) - 0.5 * pt.sqr(z))
        return value
