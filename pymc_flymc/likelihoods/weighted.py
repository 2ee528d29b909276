"""Likelihoods with a weight for each row: ``L_n^w_n``, that of w_n equal rows.

The weight is the last column of the observed values, beside whatever a family has there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.likelihoods.base import (
    ExplicitLikelihood,
    JointlySmoothLikelihood,
    Likelihood,
    RowParameters,
    SmoothedLikelihood,
    SmoothLikelihood,
    outcome,
)
from pymc_flymc.likelihoods.binomial import BinomialLogit
from pymc_flymc.likelihoods.forms import LOGISTIC, form_of

__all__ = ["Weighted", "unweighted", "weighted", "weights_of"]


@dataclass(frozen=True)
class Weighted:
    """Some family, with weights.

    Attributes
    ----------
    base : Likelihood
        The family of a row of weight one.
    """

    base: Any

    @property
    def name(self) -> str:
        """Name of the family."""
        return f"weighted {self.base.name}"

    @property
    def n_predictors(self) -> int:
        """As without weights."""
        return int(self.base.n_predictors)

    @property
    def nuisances(self) -> tuple[str, ...]:
        """As without weights."""
        return tuple(self.base.nuisances)

    @property
    def row_data(self) -> tuple[str, ...]:
        """What the family has there, and the weight."""
        return (*self.base.row_data, "weight")

    def matches(self, rv: TensorVariable) -> bool:
        """Return False: weights are told from the graph around a family's variable."""
        return False

    def read(self, rv: TensorVariable) -> RowParameters:
        """Never called, as nothing matches."""
        raise NotImplementedError

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Check observed values as the family does, shape (N, 2 + R); return them with weights.

        Weights were checked when they were read.
        """
        own = self.base.read_observed(_own(values, self.base), name)
        return np.column_stack([own, values[:, -1]]).astype(np.float64)

    def log_likelihood(self, arguments: Sequence[TensorVariable], y: Any) -> TensorVariable:
        """Return the weight times the log-likelihood."""
        *columns, weight = y
        value: Any = self.base.log_likelihood(arguments, outcome(self.base, columns))
        return weight * value


@dataclass(frozen=True)
class _Bounded(Weighted):
    """What smooth families have in common: the derivatives' limits are multiplied, too."""

    @property
    def growth(self) -> float:
        return float(self.base.growth)

    @property
    def log_concave(self) -> bool:
        return bool(getattr(self.base, "log_concave", True))


@dataclass(frozen=True)
class _Smooth(_Bounded):
    """A smooth family."""

    def derivative_bound(
        self, order: int, low: np.ndarray | float, high: np.ndarray | float, y: np.ndarray
    ) -> np.ndarray:
        own = self.base.derivative_bound(order, low, high, _own(y, self.base))
        return np.asarray(y[:, -1] * own)


@dataclass(frozen=True)
class _JointlySmooth(_Bounded):
    """A family that is smooth in several predictors."""

    def third_bound(
        self, eta: np.ndarray, reach: np.ndarray, spread: np.ndarray, y: np.ndarray
    ) -> np.ndarray:
        return np.asarray(y[:, -1] * self.base.third_bound(eta, reach, spread, _own(y, self.base)))

    def third_scale(self, eta: np.ndarray, spread: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(y[:, -1] * self.base.third_scale(eta, spread, _own(y, self.base)))


@dataclass(frozen=True)
class _Explicit(_Smooth):
    """A smooth family that brings its derivatives along."""

    def derivatives(
        self, arguments: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        value, first, second = self.base.derivatives(arguments, _own(y, self.base))
        return y[:, -1] * value, y[:, -1] * first, y[:, -1] * second


@dataclass(frozen=True)
class _Smoothed(Weighted):
    """A family with kinks."""

    def smoothed(
        self, arguments: Sequence[TensorVariable], y: Any, rounding: TensorVariable
    ) -> TensorVariable:
        *columns, weight = y
        value: Any = self.base.smoothed(arguments, outcome(self.base, columns), rounding)
        return weight * value

    def rounding(self, spread: np.ndarray, nuisances: np.ndarray) -> np.ndarray:
        return np.asarray(self.base.rounding(spread, nuisances))


def weighted(
    likelihood: Likelihood, y: np.ndarray, weights: np.ndarray
) -> tuple[Likelihood, np.ndarray]:
    """Return a family with weights, and observed values with them.

    Parameters
    ----------
    likelihood : Likelihood
    y : ndarray, shape (n,) or (n, 1 + R)
        Values that the family has read.
    weights : ndarray, shape (n,)
        Positive.
    """
    if form_of(likelihood) == LOGISTIC:
        # A weight is a number of trials, which need not be whole.
        counts = y if y.ndim > 1 else np.column_stack([y, np.ones(len(y))])
        return BinomialLogit(), weights[:, None] * counts
    kind = Weighted
    if isinstance(likelihood, ExplicitLikelihood):
        kind = _Explicit
    elif isinstance(likelihood, SmoothLikelihood):
        kind = _Smooth
    elif isinstance(likelihood, JointlySmoothLikelihood):
        kind = _JointlySmooth
    elif isinstance(likelihood, SmoothedLikelihood):
        kind = _Smoothed
    return kind(likelihood), np.column_stack([y, weights]).astype(np.float64)


def unweighted(likelihood: Likelihood) -> Likelihood:
    """Return the family of a row of weight one."""
    return likelihood.base if isinstance(likelihood, Weighted) else likelihood


def weights_of(likelihood: Likelihood, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the family's own observed values, and weights, shape (n,), ones if it has none."""
    if isinstance(likelihood, Weighted):
        return _own(y, likelihood.base), y[:, -1]
    return y, np.ones(len(y))


def _own(y: np.ndarray, base: Likelihood) -> np.ndarray:
    """Columns of the family itself."""
    return y[:, :-1] if base.row_data else y[:, 0]
