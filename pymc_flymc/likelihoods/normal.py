"""Normal noise around a linear predictor: plain, truncated and skewed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.random.basic import LogNormalRV, NormalRV
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import evaluate, free_inputs, has_rows_of_data
from pymc_flymc.likelihoods.checks import (
    check_values,
    is_positive,
    one_for_all_rows,
    scalar_parameter,
)
from pymc_flymc.likelihoods.family import JointlySmoothFamily
from pymc_flymc.likelihoods.jets import log_normal_cdf
from pymc_flymc.likelihoods.likelihood import RowParameters
from pymc_flymc.likelihoods.links import as_columns
from pymc_flymc.likelihoods.location_scale import LocationScale, scale_and_unit


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
