"""Normal noise around a linear predictor: plain, truncated, skewed, censored; and angles."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.random.basic import LogNormalRV, NormalRV, VonMisesRV
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import evaluate, free_inputs, has_rows_of_data
from pymc_flymc.likelihoods.checks import (
    check_values,
    is_positive,
    known_number,
    one_for_all_rows,
    scalar_parameter,
)
from pymc_flymc.likelihoods.family import JointlySmoothFamily, SmoothFamily
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


_CENSORED: Any = pm.Censored.rv_type
#: What values must be, for messages: values beyond the limits have the state NaN.
WITHIN_LIMITS = "{}, or beyond the limit of censoring"


class Censoring(NamedTuple):
    """A variable without its censoring, and which of its values are censored."""

    variable: TensorVariable
    #: Graph of 1 at the upper limit, -1 at the lower one, 0 between them and NaN beyond them: for
    #: each row, or for all. The observed variable stands for its values.
    state: TensorVariable
    from_left: bool  #: Whether there may be values at a lower limit.


def is_censored(rv: TensorVariable) -> bool:
    """Return whether a random variable is ``pm.Censored``."""
    return rv.owner is not None and isinstance(rv.owner.op, _CENSORED)


def uncensored(rv: TensorVariable) -> TensorVariable:
    """Return the variable inside ``pm.Censored``, or the variable itself."""
    return rv.owner.op.dist_params(rv.owner)[0] if is_censored(rv) else rv


def censoring_of(rv: TensorVariable, lowest: float) -> Censoring:
    """Return which values of a variable, always above `lowest`, are censored at fixed limits."""
    if not is_censored(rv):
        return Censoring(rv, pt.constant(0.0), False)
    variable, lower, upper = rv.owner.op.dist_params(rv.owner)
    if free_inputs([lower, upper]):
        raise UnsupportedModelError(
            f"a limit of the observed variable {rv.name!r} is free; Firefly needs limits of "
            "censoring that are data: numbers, an array or pm.Data"
        )
    beyond = pt.gt(rv, upper) | pt.lt(rv, lower)
    # If both limits are equal, PyMC takes the value for one at the lower limit.
    sides = pt.switch(pt.le(rv, lower), -1.0, pt.ge(rv, upper).astype("float64"))
    from_left = not (all(lower.type.broadcastable) and np.all(evaluate(lower) <= lowest))
    return Censoring(variable, pt.switch(beyond, np.nan, sides), from_left)


@dataclass(frozen=True)
class CensoredNormal(SmoothFamily):
    r"""Values with normal noise around the predictor, or their logarithms, censored at limits.

    The predictor here is :math:`\psi = (\eta - y) / \sigma`, which is linear in coefficients over
    :math:`\sigma` and in :math:`1 / \sigma` itself: if sigma is sampled, the design has a column of
    y. The log-likelihood is :math:`-\psi^2 / 2 - \log\sigma` for an uncensored value,
    :math:`\log\Phi(\psi)` at the upper limit, and :math:`\log\Phi(-\psi)` at the lower limit. The
    first of them is its own expansion. Olsen, R. J. (1978), Note on the uniqueness of the maximum
    likelihood estimator for the Tobit model, *Econometrica* 46, 1211-1215.
    """

    of_logarithms: bool = False  #: Whether the model observes values whose logarithms are normal.
    name = "censored-normal"
    usage = (
        "pm.Censored(pm.Normal.dist(eta, sigma), lower=lower, upper=upper), "
        "pm.Censored(pm.LogNormal.dist(eta, sigma), lower=lower, upper=upper)"
    )
    row_data: tuple[str, ...] = ("the state",)

    def matches(self, rv: TensorVariable) -> bool:
        """Return whether a random variable is a censored normal or log-normal one."""
        return is_censored(rv) and isinstance(uncensored(rv).owner.op, NormalRV | LogNormalRV)

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return psi, which values are censored, and the further terms of uncensored ones."""
        of_logarithms = isinstance(uncensored(rv).owner.op, LogNormalRV)
        normal, state, _ = censoring_of(rv, lowest=0.0 if of_logarithms else -np.inf)
        mu, sigma = normal.owner.op.dist_params(normal.owner)
        scale, unit = scale_and_unit(sigma, "sigma", rv)
        psi = mu - (pt.log(rv) if of_logarithms else rv)
        psi = (psi if unit is None else psi / unit) / scale
        rest = pt.eq(state, 0.0) * -pt.log(scale) if free_inputs([scale]) else None
        likelihood = replace(self, of_logarithms=of_logarithms)
        return RowParameters(likelihood, psi, row_data=[state], rest=rest)

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Return whether values are uncensored, and at which limit they are otherwise, (N, 2)."""
        y, state = np.asarray(values, dtype=np.float64).T
        good, what = np.isfinite(y), "finite"
        if self.of_logarithms:
            good, what = is_positive(y), "positive and finite"
        check_values(good & ~np.isnan(state), y, name, WITHIN_LIMITS.format(what))
        return np.column_stack([state == 0.0, np.where(state == 0.0, 1.0, state)])

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return ``-psi^2 / 2``, or the logarithm of the normal distribution function."""
        (psi,), (seen, side) = arguments, y
        return pt.switch(seen > 0.5, -0.5 * pt.sqr(psi), log_normal_cdf(side * psi))


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
