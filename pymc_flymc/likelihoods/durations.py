"""Durations: Weibull, exponential and gamma variables, log link; shapes that are free."""

from __future__ import annotations

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
from pymc_flymc.graphs.tools import evaluate, free_inputs
from pymc_flymc.likelihoods.family import Family, SmoothFamily
from pymc_flymc.likelihoods.likelihood import RowParameters
from pymc_flymc.likelihoods.links import find_log_mean, unreadable
from pymc_flymc.likelihoods.products import simplified
from pymc_flymc.likelihoods.value_checks import check_values, is_positive, scalar_parameter

__all__ = ["Durations", "GammaFree", "WeibullFree"]

_WEIBULL: Any = pm.Weibull.rv_type
_CENSORED: Any = pm.Censored.rv_type
#: Beyond a limit its likelihood is an incomplete gamma function, which is of another form.
_UNCENSORED = GammaRV


@dataclass(frozen=True)
class Durations(SmoothFamily):
    r"""Positive values y with the scale ``exp(eta_n)``, which may be censored from the right.

    Up to a constant the log-likelihood is :math:`-a\,\eta - (y e^{-\eta})^k`. Of a Weibull variable
    k is the shape, and so is a; a gamma variable has its shape for a and k = 1; that of a censored
    value is :math:`-(y e^{-\eta})^k` alone.

    Attributes
    ----------
    power, mass : float
        k, and a for a value that is not censored; they are read from the model.
    """

    power: float = 1.0
    mass: float = 1.0
    name = "durations"
    usage = "pm.Exponential(scale=pm.math.exp(eta)), pm.Weibull(alpha, beta=pm.math.exp(eta))"
    row_data: tuple[str, ...] = ("upper",)

    def matches(self, rv: TensorVariable) -> bool:
        """Return whether a random variable is of one of the three kinds, or censored."""
        if rv.owner is None:
            return False
        if isinstance(rv.owner.op, _CENSORED):
            inner = _kind(rv)
            return self.matches(inner) and not isinstance(inner.owner.op, _UNCENSORED | _CENSORED)
        return isinstance(rv.owner.op, ExponentialRV | GammaRV | _WEIBULL)

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return the log scale, found inside the graph of the scale, and limits of censoring."""
        kind, upper = _without_limit(rv)
        *shapes, scale = map(simplified, kind.owner.op.dist_params(kind.owner))
        shape = scalar_parameter(shapes[0], "alpha", rv) if shapes else pt.constant(1.0)
        if free_inputs([shape]):
            raise UnsupportedModelError(f"alpha of the observed variable {rv.name!r} is free")
        number = float(evaluate(shape))
        likelihood = replace(self, power=number, mass=number)
        if isinstance(kind.owner.op, GammaRV):
            likelihood = replace(self, power=1.0, mass=number)
        return RowParameters(likelihood, _log_of(scale, rv), row_data=[upper])

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Return columns a and y^k of durations and limits, both columns of (N, 2)."""
        y, upper = np.asarray(values, dtype=np.float64).T
        expected = "positive and finite, or beyond the limit of censoring"
        check_values(is_positive(y) & (y <= upper), y, name, expected)
        return np.stack([np.where(y < upper, self.mass, 0.0), y**self.power], axis=1)

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return ``-a eta - (y exp(-eta))^k``, without what does not depend on eta."""
        (eta,), (mass, power) = arguments, y
        value: Any = -mass * eta - power * pt.exp(-self.power * eta)
        return value


class WeibullFree(Durations):
    r"""Weibull variables y, maybe censored from the right, of a shape k that is sampled.

    With the scale :math:`e^{\eta_n}` the predictor is :math:`\psi = k (\eta - \log y)`, which is
    linear in k times the coefficients of eta and in k itself: the design has a column of log y.
    Rows are those of an exponential variable of the value one, :math:`-\psi - e^{-\psi}`, without
    the first term where y is censored. Beside them each value that is not censored has
    :math:`\log k`.
    """

    name = "weibull-free"

    def matches(self, rv: TensorVariable) -> bool:
        """Return whether a random variable is a Weibull one, or such a one censored."""
        return super().matches(rv) and isinstance(_kind(rv).owner.op, _WEIBULL)

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return psi, limits of censoring, and what rows have beside their likelihoods."""
        kind, upper = _without_limit(rv)
        alpha, scale = kind.owner.op.dist_params(kind.owner)
        shape = scalar_parameter(alpha, "alpha", rv)
        psi = shape * (_log_of(scale, rv) - pt.log(rv))
        return RowParameters(self, psi, row_data=[upper], rest=pt.lt(rv, upper) * pt.log(shape))

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Check durations as `Durations` does; of the result the second column is one."""
        columns = super().read_observed(values, name)
        columns[:, 1] = 1.0
        return columns


class GammaFree(Family):
    r"""Gamma variables y with the mean :math:`e^{\eta_n}` and a shape a that is sampled.

    Up to a constant the log-likelihood is :math:`a\,(\log y - \eta - y e^{-\eta})`, that of an
    exponential variable times a, and :math:`a \log a - \log\Gamma(a)`.
    """

    name = "gamma-free"
    usage = "pm.Gamma(alpha, beta=alpha / pm.math.exp(eta))"
    distributions: Any = GammaRV
    nuisances: tuple[str, ...] = ("log alpha",)

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return the logarithms of the mean and of the shape."""
        alpha, scale = rv.owner.op.dist_params(rv.owner)
        shape = simplified(alpha)
        if not all(shape.type.broadcastable):
            raise UnsupportedModelError(
                f"alpha of the observed variable {rv.name!r} has a value for each row, as it has "
                "where mu= and sigma= are given, unless mu is an exponential function and sigma in "
                f"proportion to it; Firefly needs one for all rows: {self.usage}"
            )
        shape = scalar_parameter(shape, "alpha", rv)
        # Where the shape is positive its signs are one.
        mean = simplified(scale * alpha, signs=False)
        return RowParameters(self, _log_of(mean, rv), [pt.log(shape)])

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Check values."""
        y = np.asarray(values, dtype=np.float64)
        check_values(is_positive(y), y, name, "positive and finite")
        return y

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return the log-likelihood, without what depends on y alone."""
        eta, log_shape = arguments
        value: Any = pt.exp(log_shape) * (pt.log(y) - eta - y * pt.exp(-eta))
        return value + self.log_normaliser(log_shape)

    def log_normaliser(self, log_scale: TensorVariable) -> TensorVariable:
        """Return ``a log a - log Gamma(a)``."""
        shape = pt.exp(log_scale)
        value: Any = shape * log_scale - log_gamma(shape)
        return value

    def unit(self, y: np.ndarray) -> tuple[Durations, np.ndarray]:
        """Return exponential variables, and their observed values: those for a shape of one."""
        return Durations(), np.column_stack([np.ones(len(y)), y])


def _kind(rv: TensorVariable) -> TensorVariable:
    """Return the variable that is censored, or the variable itself."""
    censored = isinstance(rv.owner.op, _CENSORED)
    return rv.owner.op.dist_params(rv.owner)[0] if censored else rv


def _without_limit(rv: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
    """Return a variable that is not censored, and the upper limit beyond which it was."""
    kind = _kind(rv)
    if kind is rv:
        return rv, pt.constant(np.inf)
    _, lower, upper = rv.owner.op.dist_params(rv.owner)
    if free_inputs([lower, upper]):
        raise UnsupportedModelError(f"a limit of the observed variable {rv.name!r} is free")
    if np.any(evaluate(lower) > 0.0):
        raise UnsupportedModelError(
            f"the observed variable {rv.name!r} is censored from the left; Firefly samples "
            "durations that are censored from the right: lower=None"
        )
    return kind, upper


def _log_of(scale: TensorVariable, rv: TensorVariable) -> TensorVariable:
    """Return the logarithm of a scale or mean, a predictor."""
    eta = find_log_mean(scale, rv)
    if eta is None:
        raise unreadable(rv, "scale", "exponential", f"{Durations.usage}, or {GammaFree.usage}")
    return eta
