"""Likelihoods with a weight for each row: ``L_n^w_n``, the likelihood of w_n equal rows.

The weight is the last column of the observed values, after the family's own columns.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.likelihoods.bernoulli import BinomialLogit
from pymc_flymc.likelihoods.family import Family
from pymc_flymc.likelihoods.likelihood import (
    LOGISTIC,
    ExplicitLikelihood,
    JointlySmoothLikelihood,
    Likelihood,
    SmoothedLikelihood,
    SmoothLikelihood,
    form_of,
    outcome,
)


def _times_weight(name: str) -> Any:
    """Return a method that multiplies the family's result by the last column of observed values."""

    def method(self: Weighted, *arguments: Any) -> Any:
        *others, y = arguments
        own = getattr(self.base, name)(*others, _own(y, self.base))
        return tuple(y[:, -1] * each for each in own) if isinstance(own, tuple) else y[:, -1] * own

    return method


class Weighted(Family):
    """A family with weights around `base`, the family of a row of weight one."""

    distributions = ()

    def __init__(self, base: Any) -> None:
        self.base = base
        self.name = f"weighted {base.name}"
        self.n_predictors, self.nuisances = base.n_predictors, tuple(base.nuisances)
        self.row_data = (*base.row_data, "weight")

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Check observed values, (N, 2 + R), as the family does; weights are checked already."""
        own = self.base.read_observed(_own(values, self.base), name)
        return np.column_stack([own, values[:, -1]]).astype(np.float64)

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return the weight times the log-likelihood."""
        *columns, weight = y
        value: Any = self.base.log_likelihood(arguments, outcome(self.base, columns))
        return weight * value


class _Smooth(Weighted):
    """A `SmoothLikelihood`: weights do not change the growth rate."""

    def __init__(self, base: Any) -> None:
        super().__init__(base)
        self.growth, self.log_concave = base.growth, base.log_concave

    derivative_bound = _times_weight("derivative_bound")


class _Explicit(_Smooth):
    """An `ExplicitLikelihood`."""

    derivatives = _times_weight("derivatives")


class _JointlySmooth(Weighted):
    """A `JointlySmoothLikelihood`."""

    third_bound = _times_weight("third_bound")

    def third_beyond(
        self, eta: np.ndarray, spread: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        scale, rate = self.base.third_beyond(eta, spread, _own(y, self.base))
        return y[:, -1] * scale, rate


class _Smoothed(Weighted):
    """A `SmoothedLikelihood`."""

    def smoothed(self, arguments: Sequence[Any], y: Any, rounding: Any) -> TensorVariable:
        *columns, weight = y
        value: Any = self.base.smoothed(arguments, outcome(self.base, columns), rounding)
        return weight * value

    def rounding(self, spread: np.ndarray, nuisances: np.ndarray) -> np.ndarray:
        return np.asarray(self.base.rounding(spread, nuisances))


#: The classes by the protocol of a family, the most special first.
_KINDS: list[tuple[Any, type[Weighted]]] = [
    (ExplicitLikelihood, _Explicit),
    (SmoothLikelihood, _Smooth),
    (JointlySmoothLikelihood, _JointlySmooth),
    (SmoothedLikelihood, _Smoothed),
    (object, Weighted),
]


def weighted_family(
    likelihood: Likelihood, y: np.ndarray, weights: np.ndarray
) -> tuple[Likelihood, np.ndarray]:
    """Return a family with weights, and the family's values y with a column of weights, (n,)."""
    if form_of(likelihood) == LOGISTIC:
        # A weight is a number of trials, which need not be whole.
        counts = y if y.ndim > 1 else np.column_stack([y, np.ones(len(y))])
        return BinomialLogit(), weights[:, None] * counts
    kind = next(kind for protocol, kind in _KINDS if isinstance(likelihood, protocol))
    return kind(likelihood), np.column_stack([y, weights]).astype(np.float64)


def unweighted(likelihood: Likelihood) -> Likelihood:
    """Return the family of a row of weight one."""
    return likelihood.base if isinstance(likelihood, Weighted) else likelihood


def weights_of(likelihood: Likelihood, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the family's observed values, and weights, shape (n,), which are ones by default."""
    if isinstance(likelihood, Weighted):
        return _own(y, likelihood.base), y[:, -1]
    return y, np.ones(len(y))


def _own(y: np.ndarray, base: Likelihood) -> np.ndarray:
    """Return the columns of the family itself."""
    return y[:, :-1] if base.row_data else y[:, 0]
