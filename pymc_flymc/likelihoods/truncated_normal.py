"""Normal noise around a predictor, truncated at one side: truncated regression."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import evaluate, free_inputs, has_rows_of_data
from pymc_flymc.likelihoods.family import JointlySmoothFamily
from pymc_flymc.likelihoods.functions import log_normal_cdf
from pymc_flymc.likelihoods.likelihood import RowParameters
from pymc_flymc.likelihoods.links import as_columns
from pymc_flymc.likelihoods.value_checks import check_values, scalar_parameter


@dataclass(frozen=True)
class TruncatedNormal(JointlySmoothFamily):
    r"""Values with normal noise around :math:`\eta_n`, all above a limit l, or all below it.

    The predictors are :math:`\chi = (\eta - l) / \sigma` and :math:`t = 1 / \sigma`, both linear in
    coefficients over :math:`\sigma` and in :math:`1 / \sigma` itself. With :math:`d = y - l` the
    log-likelihood is :math:`-(\chi - d t)^2 / 2 - \log\Phi(\pm\chi) - \log\sigma`. Its first term
    is quadratic.
    """

    side: float = 1.0  #: 1 if values are above the limit, -1 if they are below it.
    name = "truncated-normal"
    usage = "pm.TruncatedNormal(mu=eta, sigma=sigma, lower=lower)"
    distributions: Any = pm.TruncatedNormal.rv_type
    n_predictors: int = 2
    row_data: tuple[str, ...] = ("the distance from the limit",)

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return both predictors, and distances from the limit."""
        mu, sigma, *limits = rv.owner.op.dist_params(rv.owner)
        if free_inputs(limits):
            raise UnsupportedModelError(
                f"a limit of the observed variable {rv.name!r} is free; Firefly needs one that is "
                "data: a number, an array or pm.Data"
            )
        finite = [np.isfinite(evaluate(limit)) for limit in limits]
        if not any(each.all() and not other.any() for each, other in (finite, finite[::-1])):
            raise UnsupportedModelError(
                f"the observed variable {rv.name!r} must have one limit, and the same side in all "
                f"rows: lower= or upper=, as in {self.usage}"
            )
        side = 1.0 if finite[0].all() else -1.0
        limit, other = limits if side > 0.0 else limits[::-1]
        scale = scalar_parameter(sigma, "sigma", rv).astype("float64")
        predictors = as_columns((mu - limit) / scale, 1.0 / scale)
        rest = -pt.log(scale) if free_inputs([scale]) else None
        distance = side * (rv - limit)
        if has_rows_of_data(other):  # rows out of core may have both limits
            distance = pt.switch(pt.isinf(other), distance, -1.0)
        return RowParameters(replace(self, side=side), predictors, [], [distance], rest=rest)

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Return d and the side, (N, 2), of values and their distances from the limit."""
        values = super().read_observed(values, name)
        distance = values[:, 1]
        check_values(distance >= 0.0, values[:, 0], name, "within the limit of truncation")
        return np.column_stack([self.side * distance, np.full_like(distance, self.side)])

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return the log-likelihood without terms in sigma alone."""
        (chi, t), (d, side) = arguments, y
        value: Any = -0.5 * pt.sqr(chi - d * t) - log_normal_cdf(side * chi)
        return value
