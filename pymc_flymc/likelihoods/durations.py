"""Durations: Weibull, exponential and gamma variables with a log link, and free shapes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.random.basic import ExponentialRV, GammaRV
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.gammas import log_gamma
from pymc_flymc.likelihoods.checks import (
    check_values,
    is_positive,
    known_number,
    scalar_parameter,
)
from pymc_flymc.likelihoods.family import Family, SmoothFamily
from pymc_flymc.likelihoods.jets import log_positive
from pymc_flymc.likelihoods.likelihood import RowParameters
from pymc_flymc.likelihoods.links import find_log_mean, unreadable
from pymc_flymc.likelihoods.normal import (
    WITHIN_LIMITS,
    censoring_of,
    is_censored,
    uncensored,
)
from pymc_flymc.likelihoods.products import simplified

_WEIBULL: Any = pm.Weibull.rv_type


@dataclass(frozen=True)
class Durations(SmoothFamily):
    r"""Positive values y with the scale ``exp(eta_n)``, which may be censored.

    Up to a constant the log-likelihood is :math:`-a\,\eta - (y e^{-\eta})^k`. A Weibull variable of
    shape k has a = k; a gamma variable has its shape for a, and k = 1. With
    :math:`s = (y e^{-\eta})^k` a value at the upper limit has the log-likelihood -s, and one at the
    lower limit :math:`\log(1 - e^{-s})`.
    """

    power: float = 1.0  #: k.
    mass: float = 1.0  #: a.
    from_left: bool = False  #: Whether there may be values at a lower limit.
    #: Whether the density at zero is positive and finite, as for an exponential variable.
    has_zeros: bool = False
    name = "durations"
    usage = "pm.Exponential(scale=pm.math.exp(eta)), pm.Weibull(alpha, beta=pm.math.exp(eta))"
    row_data: tuple[str, ...] = ("the state",)

    def matches(self, rv: TensorVariable) -> bool:
        """Return whether a random variable is of one of the three kinds, or censored."""
        if rv.owner is None:
            return False
        if is_censored(rv):
            # The likelihood of a censored gamma variable is an incomplete gamma function.
            return isinstance(uncensored(rv).owner.op, ExponentialRV | _WEIBULL)
        return isinstance(rv.owner.op, ExponentialRV | GammaRV | _WEIBULL)

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return the log scale, from the graph of the scale, and which values are censored."""
        kind, state, from_left = censoring_of(rv, lowest=0.0)
        parameters = kind.owner.op.dist_params(kind.owner)
        *shapes, scale = (simplified(each, of_rows=False) for each in parameters)
        number = known_number(shapes[0], "alpha", rv, "") if shapes else 1.0
        power = 1.0 if isinstance(kind.owner.op, GammaRV) else number
        likelihood = replace(
            self, power=power, mass=number, from_left=from_left, has_zeros=not shapes
        )
        return RowParameters(likelihood, _log_of(scale, rv), row_data=[state])

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Return columns (N, 2): y^k, and at which limit y is."""
        y, state = np.asarray(values, dtype=np.float64).T
        sign = "zero or more" if self.has_zeros else "positive"
        good = is_positive(y) | (self.has_zeros & (y == 0.0) & (state == 0.0))
        expected = WITHIN_LIMITS.format(f"{sign} and finite")
        check_values(good & ~np.isnan(state), y, name, expected)
        return np.stack([y**self.power, state], axis=1)

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return ``-a eta - (y exp(-eta))^k``, without terms that do not depend on eta."""
        (eta,), (power, state) = arguments, y
        mass = pt.switch(pt.eq(state, 0.0), self.mass, 0.0)
        value: Any = -mass * eta - power * pt.exp(-self.power * eta)
        if not self.from_left:
            return value
        return pt.switch(state < 0.0, log_positive(pt.log(power) - self.power * eta), value)


class WeibullFree(Durations):
    r"""Weibull variables y, maybe censored, of a shape k that is sampled.

    With the scale :math:`e^{\eta_n}` the predictor is :math:`\psi = k (\eta - \log y)`, which is
    linear in k times the coefficients of eta and in k itself: the design has a column of log y. The
    log-likelihood of a row is :math:`-\psi - e^{-\psi}`, as of an exponential variable with the
    value one, or the one of `Durations` if y is censored. An uncensored value adds :math:`\log k`.
    """

    name = "weibull-free"

    def matches(self, rv: TensorVariable) -> bool:
        """Return whether a random variable is a Weibull one, or a censored Weibull one."""
        return super().matches(rv) and isinstance(uncensored(rv).owner.op, _WEIBULL)

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return psi, which values are censored, and the further terms of rows."""
        kind, state, from_left = censoring_of(rv, lowest=0.0)
        alpha, scale = kind.owner.op.dist_params(kind.owner)
        shape = scalar_parameter(alpha, "alpha", rv)
        psi = shape * (_log_of(scale, rv) - pt.log(rv))
        rest = pt.eq(state, 0.0) * pt.log(shape)
        return RowParameters(replace(self, from_left=from_left), psi, row_data=[state], rest=rest)

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Check durations as `Durations` does; the first column of the result is one."""
        columns = super().read_observed(values, name)
        columns[:, 0] = 1.0
        return columns


class GammaFree(Family):
    r"""Gamma variables y with the mean :math:`e^{\eta_n}` and a shape a that is sampled.

    Up to a constant the log-likelihood is :math:`a\,(\log y - \eta - y e^{-\eta})`, a times the one
    of an exponential variable, plus :math:`a \log a - \log\Gamma(a)`.
    """

    name = "gamma-free"
    usage = "pm.Gamma(alpha, beta=alpha / pm.math.exp(eta))"
    distributions: Any = GammaRV
    nuisances: tuple[str, ...] = ("log alpha",)

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return the logarithms of the mean and of the shape."""
        alpha, scale = rv.owner.op.dist_params(rv.owner)
        shape = simplified(alpha, of_rows=False)
        if not all(shape.type.broadcastable):
            raise UnsupportedModelError(
                f"alpha of the observed variable {rv.name!r} has a value for each row, as it has "
                "where mu= and sigma= are given, unless mu is an exponential function and sigma in "
                f"proportion to it; Firefly needs one for all rows: {self.usage}"
            )
        shape = scalar_parameter(shape, "alpha", rv)
        # The shape is positive: its sign is one.
        mean = simplified(scale * alpha, signs=False)
        return RowParameters(self, _log_of(mean, rv), [pt.log(shape)])

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Return values, which must be positive and finite."""
        y = np.asarray(values, dtype=np.float64)
        check_values(is_positive(y), y, name, "positive and finite")
        return y

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return the log-likelihood without terms in y alone."""
        eta, log_shape = arguments
        value: Any = pt.exp(log_shape) * (pt.log(y) - eta - y * pt.exp(-eta))
        return value + self.log_normaliser(log_shape)

    def log_normaliser(self, log_scale: TensorVariable) -> TensorVariable:
        """Return ``a log a - log Gamma(a)``."""
        shape = pt.exp(log_scale)
        value: Any = shape * log_scale - log_gamma(shape)
        return value

    def unit(self, y: np.ndarray) -> tuple[Durations, np.ndarray]:
        """Return the likelihood for a shape of one, exponential, and its observed values."""
        return Durations(), np.column_stack([y, np.zeros(len(y))])


def _log_of(scale: TensorVariable, rv: TensorVariable) -> TensorVariable:
    """Return the logarithm of a scale or mean, a predictor."""
    eta = find_log_mean(scale, rv)
    if eta is None:
        raise unreadable(rv, "scale", "exponential", f"{Durations.usage}, or {GammaFree.usage}")
    return eta
