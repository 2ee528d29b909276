r"""Zero-inflated counts: zeros are added to those of a Poisson or another variable.

With the predictor a, the log odds of psi, and :math:`e^{-s}` the chance that the variable itself is
zero, a function of its own predictor :math:`\eta`, the log-likelihood of a zero is
:math:`\log(1 + e^{a - s}) - \log(1 + e^a)`, and that of any other count the variable's and
:math:`-\log(1 + e^{-a})`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.random.basic import BinomialRV, NegBinomialRV, PoissonRV
from pytensor.tensor.variable import TensorVariable
from scipy.special import expit

from pymc_flymc.likelihoods.base import Family, Likelihood, RowParameters, outcome
from pymc_flymc.likelihoods.bernoulli import BernoulliLogit
from pymc_flymc.likelihoods.binomial import BinomialLogit
from pymc_flymc.likelihoods.links import as_columns, find_predictor, unreadable
from pymc_flymc.likelihoods.negative_binomial import NegativeBinomialLog
from pymc_flymc.likelihoods.poisson import PoissonLog
from pymc_flymc.likelihoods.zero_limits import (
    LARGE,
    SECOND,
    THIRD,
    third_of_zero,
    third_of_zero_anywhere,
)
from pymc_flymc.likelihoods.zeros import parts_of_inflated

__all__ = ["ZeroInflated", "ZeroInflatedPoisson", "ZeroInflatedTrials"]

_LOGISTIC, _NEGATIVE_BINOMIAL = BernoulliLogit(), NegativeBinomialLog()


class ZeroInflated(Family):
    """What the families have in common; a is the last of the predictors, after the counts' own."""

    usage: str
    growth: float
    #: Zeros that are well above what the variable has are not concave in its predictor.
    log_concave = False

    def matches(self, rv: TensorVariable) -> bool:
        """Return whether a variable is a mixture of zeros and one of these distributions."""
        parts = parts_of_inflated(rv)
        return (
            parts is not None
            and parts[1].owner is not None
            and isinstance(parts[1].owner.op, self.distributions)
        )

    def log_odds(self, psi: Any, rv: TensorVariable) -> Any:
        """Return the predictor a.

        Raises
        ------
        UnsupportedModelError
            If psi is neither the same for all rows nor the logistic function of a part of its
            graph.
        """
        a: Any = pt.log(psi) - pt.log1p(-psi) if psi.ndim == 0 else find_predictor(psi, expit)
        if a is None:
            usage = f"{self.usage}, psi=pm.math.sigmoid(a), or one psi for all rows"
            raise unreadable(rv, "psi", "logistic", usage)
        return a


class _OfOnePredictor(ZeroInflated):
    """Families of counts that have one predictor, eta."""

    base: Any
    n_predictors = 2

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return the predictors, and row data as the family of the counts has them.

        Raises
        ------
        UnsupportedModelError
            If psi is neither the same for all rows nor the logistic function of a part of its
            graph; and as the family of the counts does.
        ValueError
            If constants are not possible.
        """
        parts = parts_of_inflated(rv)
        assert parts is not None
        psi, counts = parts
        base = _base_of(counts)
        own = base.read(counts)
        predictors = as_columns(own.predictors, self.log_odds(psi, rv))
        return replace(own, likelihood=self.of(base), predictors=predictors)

    def of(self, base: Likelihood) -> Likelihood:
        """Return the family for counts of one kind."""
        return self

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Check counts as their own family does."""
        return np.asarray(self.base.read_observed(values, name))

    def log_likelihood(self, arguments: Sequence[TensorVariable], y: Any) -> TensorVariable:
        """Return the log-likelihood; branches that are not taken get arguments near zero."""
        eta, a = arguments
        columns = list(y) if self.row_data else [y]
        zero = columns[0] < 0.5
        own = self.base.log_likelihood(
            [pt.switch(zero, 0.0, eta)], outcome(self.base, columns)
        ) - pt.softplus(-a)
        s = self.exponent(pt.switch(zero, eta, 0.0), columns)
        return pt.switch(zero, pt.softplus(a - s) - pt.softplus(a), own)

    def exponent(self, eta: TensorVariable, columns: Sequence[TensorVariable]) -> TensorVariable:
        """Return the graph of s."""
        raise NotImplementedError

    def exponents(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return s, shape (n,)."""
        raise NotImplementedError

    def slopes(self, low: np.ndarray, high: np.ndarray, y: np.ndarray) -> Sequence[np.ndarray]:
        """Return limits of the first three derivatives of s for eta between low and high."""
        raise NotImplementedError

    def third_bound(
        self, eta: np.ndarray, reach: np.ndarray, spread: np.ndarray, y: np.ndarray
    ) -> np.ndarray:
        r"""Return a limit on third derivatives near eta, along directions within the spread.

        That of a zero is of two functions :math:`f(v) = \log(1 + e^v)`, of :math:`a - s` and of a.
        """
        (low, a_low), (high, a_high) = eta - reach, eta + reach
        c, c_a = spread
        count = y[:, 0] if y.ndim > 1 else y
        v = a_low - self.exponents(high, y), a_high - self.exponents(low, y)
        zero = third_of_zero(*v, self.slopes(low, high, y), c, c_a)
        other = self.base.derivative_bound(3, low, high, y) * c**3
        own = _LOGISTIC.derivative_bound(3, a_low, a_high, count) * c_a**3
        return np.asarray(np.where(count == 0, zero, other) + own)


class ZeroInflatedPoisson(_OfOnePredictor):
    """Observed counts of a Poisson variable with mean ``exp(eta_n)``, and further zeros."""

    name = "zero-inflated-poisson"
    usage = "pm.ZeroInflatedPoisson(psi=psi, mu=pm.math.exp(eta))"
    base = PoissonLog()
    distributions: Any = PoissonRV
    growth = 3.0

    def exponent(self, eta: TensorVariable, columns: Sequence[TensorVariable]) -> TensorVariable:
        """Return the graph of the mean."""
        return pt.exp(pt.minimum(eta, LARGE))

    def exponents(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the mean."""
        return np.exp(np.minimum(eta, LARGE))

    def slopes(self, low: np.ndarray, high: np.ndarray, y: np.ndarray) -> Sequence[np.ndarray]:
        """Return the mean, which is its own derivative."""
        return (np.exp(np.minimum(high, LARGE)),) * 3

    def third_scale(self, eta: np.ndarray, spread: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return a limit on third derivatives which grows with the distance d like ``exp(3 d)``."""
        (eta, a), (c, c_a) = eta, spread
        zero = third_of_zero_anywhere(np.exp(np.minimum(eta, LARGE)), a, c, c_a)
        return np.asarray(np.where(y == 0, zero, np.exp(eta) * c**3) + THIRD * c_a**3)


@dataclass(frozen=True)
class ZeroInflatedTrials(_OfOnePredictor):
    r"""Observed counts of a binomial or a negative binomial variable, and further zeros.

    Both are successes in m trials with the log odds :math:`\eta_n`, m being n or y + alpha; zero
    has the probability :math:`(1 + e^\eta)^{-m}`.

    Attributes
    ----------
    base : BinomialLogit or NegativeBinomialLog
        The family of the counts; it is read from the model.
    """

    base: Any = _NEGATIVE_BINOMIAL
    distributions = NegBinomialRV | BinomialRV
    usage = "pm.ZeroInflatedNegativeBinomial(psi=psi, mu=pm.math.exp(eta), alpha=alpha)"
    growth = 0.0

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the family."""
        return f"zero-inflated-{self.base.name}"

    @property
    def row_data(self) -> tuple[str, ...]:  # type: ignore[override]
        """As without further zeros."""
        return tuple(self.base.row_data)

    def of(self, base: Likelihood) -> Likelihood:
        """Return the family for counts of one kind."""
        return replace(self, base=base)

    def exponent(self, eta: TensorVariable, columns: Sequence[TensorVariable]) -> TensorVariable:
        """Return the graph of ``m log(1 + exp(eta))``."""
        return columns[1] * pt.softplus(eta)

    def exponents(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return ``m log(1 + exp(eta))``."""
        return np.asarray(y[:, 1] * np.logaddexp(0.0, eta))

    def slopes(self, low: np.ndarray, high: np.ndarray, y: np.ndarray) -> Sequence[np.ndarray]:
        """Return m times the logistic function, and limits of its derivatives."""
        nearest = np.maximum(np.maximum(low, -high), 0.0)
        third = _LOGISTIC.derivative_bound(3, low, high, y[:, 0])
        return [y[:, 1] * v for v in (expit(high), expit(nearest) * expit(-nearest), third)]

    def third_scale(self, eta: np.ndarray, spread: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return a limit on third derivatives anywhere."""
        (c, c_a), m = spread, y[:, 1]
        speed = c_a + m * c
        zero = THIRD * speed**3 + 3.0 * SECOND**2 * speed * m * c**2 + THIRD * m * c**3
        return np.asarray(np.where(y[:, 0] == 0, zero, THIRD * m * c**3) + THIRD * c_a**3)


def _base_of(counts: TensorVariable) -> Any:
    """Return the family that counts without further zeros are of."""
    op = counts.owner.op
    if isinstance(op, PoissonRV):
        return PoissonLog()
    if isinstance(op, BinomialRV):
        return BinomialLogit()
    return _NEGATIVE_BINOMIAL
