"""Durations and other positive outcomes: Weibull, exponential and gamma variables, log link."""

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
from pymc_flymc.graphs.tools import evaluate, free_inputs
from pymc_flymc.likelihoods.base import RowParameters
from pymc_flymc.likelihoods.checks import check_values, is_positive, scalar_parameter
from pymc_flymc.likelihoods.links import find_log_mean, unreadable

__all__ = ["Durations"]

_WEIBULL: Any = pm.Weibull.rv_type
_CENSORED: Any = pm.Censored.rv_type
#: Beyond a limit its likelihood is an incomplete gamma function, which is of another form.
_UNCENSORED = GammaRV


@dataclass(frozen=True)
class Durations:
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
    n_predictors = 1
    nuisances: tuple[str, ...] = ()
    row_data: tuple[str, ...] = ("upper",)

    @property
    def growth(self) -> float:
        """Rate at which derivatives grow: all from the second on are multiples of exp(-k eta)."""
        return self.power

    def matches(self, rv: TensorVariable) -> bool:
        """Return whether a random variable is of one of the three kinds, or censored."""
        if rv.owner is None:
            return False
        if isinstance(rv.owner.op, _CENSORED):
            inner = rv.owner.op.dist_params(rv.owner)[0]
            return self.matches(inner) and not isinstance(inner.owner.op, _UNCENSORED | _CENSORED)
        return isinstance(rv.owner.op, ExponentialRV | GammaRV | _WEIBULL)

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return the log scale, found inside the graph of the scale, and limits of censoring.

        Raises
        ------
        UnsupportedModelError
            If the scale is not the exponential function of a part of its graph, times constants;
            if a shape is not one number; if values are censored from the left, or by a variable.
        ValueError
            If a constant is not positive and finite.
        """
        kind, upper = rv, pt.constant(np.inf)
        if isinstance(rv.owner.op, _CENSORED):
            kind, lower, upper = rv.owner.op.dist_params(rv.owner)
            if free_inputs([lower, upper]):
                raise UnsupportedModelError(f"a limit of the observed variable {rv.name!r} is free")
            if np.any(evaluate(lower) > 0.0):
                raise UnsupportedModelError(
                    f"the observed variable {rv.name!r} is censored from the left; Firefly samples "
                    "durations that are censored from the right: lower=None"
                )
        *shapes, scale = kind.owner.op.dist_params(kind.owner)
        shape = _shape(shapes[0], rv) if shapes else 1.0
        likelihood = replace(self, power=shape, mass=shape)
        if isinstance(kind.owner.op, GammaRV):
            likelihood = replace(self, power=1.0, mass=shape)
        eta = find_log_mean(scale, rv)
        if eta is None:
            usage = f"{self.usage}, or pm.Gamma(alpha, beta=alpha / pm.math.exp(eta))"
            raise unreadable(rv, "scale", "exponential", usage)
        return RowParameters(likelihood, eta, row_data=[upper])

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Return columns a and y^k of durations and limits, both columns of (N, 2).

        Raises
        ------
        ValueError
            If a duration is not positive and finite, or is beyond its limit.
        """
        y, upper = np.asarray(values, dtype=np.float64).T
        expected = "positive and finite, or beyond the limit of censoring"
        check_values(is_positive(y) & (y <= upper), y, name, expected)
        return np.stack([np.where(y < upper, self.mass, 0.0), y**self.power], axis=1)

    def log_likelihood(self, arguments: Sequence[TensorVariable], y: Any) -> TensorVariable:
        """Return ``-a eta - (y exp(-eta))^k``, without what does not depend on eta."""
        (eta,), (mass, power) = arguments, y
        value: Any = -mass * eta - power * pt.exp(-self.power * eta)
        return value

    def derivative_bound(
        self, order: int, low: np.ndarray | float, high: np.ndarray | float, y: np.ndarray
    ) -> np.ndarray:
        """Return ``k^order (y exp(-low))^k``: the derivatives fall from the low end on."""
        fall = np.exp(-self.power * np.asarray(low, dtype=np.float64))
        return np.asarray(self.power**order * y[:, 1] * fall)


def _shape(shape: Any, rv: TensorVariable) -> float:
    if free_inputs([shape]):
        raise UnsupportedModelError(
            f"alpha of the observed variable {rv.name!r} is free; Firefly samples durations of a "
            "known shape: give a number"
        )
    return float(evaluate(scalar_parameter(shape, "alpha", rv)))
