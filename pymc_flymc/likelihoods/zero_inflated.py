r"""Zero-inflated counts: a Poisson or another variable with additional zeros.

With the predictor a, the log odds of psi, and :math:`e^{-s}` the chance that the variable itself is
zero, a function of its predictor :math:`\eta`, the log-likelihood of a zero is
:math:`\log(1 + e^{a - s}) - \log(1 + e^a)`. Any other count has the variable's log-likelihood plus
:math:`-\log(1 + e^{-a})`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.random.basic import BinomialRV, NegBinomialRV, PoissonRV
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.likelihoods.binomial import BinomialLogit
from pymc_flymc.likelihoods.exponent import LARGE
from pymc_flymc.likelihoods.family import JointlySmoothFamily
from pymc_flymc.likelihoods.functions import EXP, SECOND, THIRD, Function, known
from pymc_flymc.likelihoods.likelihood import Likelihood, RowParameters, outcome
from pymc_flymc.likelihoods.limits import least_far_out
from pymc_flymc.likelihoods.links import as_columns, unreadable
from pymc_flymc.likelihoods.log_links import find_log_odds
from pymc_flymc.likelihoods.negative_binomial import NegativeBinomialLog
from pymc_flymc.likelihoods.poisson import PoissonLog
from pymc_flymc.likelihoods.value_checks import check_parameter
from pymc_flymc.likelihoods.zeros import parts_of_inflated

_NEGATIVE_BINOMIAL = NegativeBinomialLog()
_EXP = Function(EXP.ends, lambda order, low, high: np.exp(np.minimum(high, LARGE)))


class ZeroInflated(JointlySmoothFamily):
    """Base of the families; a is the last of the predictors, after those of the counts."""

    usage: str
    zero_at_no_mean = True
    #: The log-likelihood of a zero is not concave in a predictor for which counts are rarely zero.

    def matches(self, rv: TensorVariable) -> bool:
        """Return whether a variable is a mixture of zeros and one of these distributions."""
        parts = parts_of_inflated(rv)
        return (
            parts is not None
            and parts[1].owner is not None
            and isinstance(parts[1].owner.op, self.distributions)
        )

    def log_odds(self, psi: Any, rv: TensorVariable) -> Any:
        """Return the predictor a."""
        expected = "above 0 and below 1. For psi=1 write the counts alone, such as pm.Poisson"
        check_parameter(psi, "psi", rv, expected, lambda p: (p > 0) & (p < 1))
        a = find_log_odds(psi, rv)
        if a is None:
            usage = f"{self.usage}, psi=pm.math.sigmoid(a), or one psi for all rows"
            raise unreadable(rv, "psi", "logistic", usage)
        return a


class _OfOnePredictor(ZeroInflated):
    """Families of counts that have one predictor, eta."""

    base: Any
    n_predictors = 2

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return the predictors, and row data as the family of the counts has them."""
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
        """Check counts as the family of the counts does."""
        return np.asarray(self.base.read_observed(values, name))

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
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


class ZeroInflatedPoisson(_OfOnePredictor):
    """Observed counts of a Poisson variable with mean ``exp(eta_n)``, and further zeros."""

    name = "zero-inflated-poisson"
    usage = "pm.ZeroInflatedPoisson(psi=psi, mu=pm.math.exp(eta))"
    base = PoissonLog()
    distributions: Any = PoissonRV

    def exponent(self, eta: TensorVariable, columns: Sequence[TensorVariable]) -> TensorVariable:
        """Return the graph of the mean."""
        value: TensorVariable = known(pt.exp(pt.minimum(eta, LARGE)), _EXP, eta)
        return value

    def third_beyond(
        self, eta: np.ndarray, spread: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return a limit that grows with the mean, or with a where the mean is large."""
        (eta, a), (c, c_a) = eta, spread
        zero, rate = third_of_zero((np.exp(np.minimum(eta, LARGE)), c), a, c, c_a)
        scale = np.where(y == 0, zero, np.exp(eta) * c**3) + THIRD * c_a**3
        return np.asarray(scale), np.where(y == 0, rate, c)


@dataclass(frozen=True)
class ZeroInflatedTrials(_OfOnePredictor):
    r"""Observed counts of a binomial or a negative binomial variable, and further zeros.

    Both are successes in m trials with the log odds :math:`\eta_n`, m being n or y + alpha; zero
    has the probability :math:`(1 + e^\eta)^{-m}`. `read` fills in `base`, the family of the counts.
    """

    base: Any = _NEGATIVE_BINOMIAL
    distributions = NegBinomialRV | BinomialRV
    usage = "pm.ZeroInflatedNegativeBinomial(psi=psi, mu=pm.math.exp(eta), alpha=alpha)"

    @property
    def name(self) -> str:  # type: ignore[override]
        """Return the name of the family."""
        return f"zero-inflated-{self.base.name}"

    @property
    def row_data(self) -> tuple[str, ...]:  # type: ignore[override]
        """Return the row data of the family without further zeros."""
        return tuple(self.base.row_data)

    def of(self, base: Likelihood) -> Likelihood:
        """Return the family for counts of one kind."""
        return replace(self, base=base)

    def exponent(self, eta: TensorVariable, columns: Sequence[TensorVariable]) -> TensorVariable:
        """Return the graph of ``m log(1 + exp(eta))``."""
        return columns[1] * pt.softplus(eta)


def _base_of(counts: TensorVariable) -> Any:
    """Return the family of the counts without further zeros."""
    op = counts.owner.op
    if isinstance(op, PoissonRV):
        return PoissonLog()
    if isinstance(op, BinomialRV):
        return BinomialLogit()
    return _NEGATIVE_BINOMIAL


def third_of_zero(
    s: tuple[np.ndarray, np.ndarray], a: np.ndarray, c: np.ndarray, c_a: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    r"""Return a bound on the third derivatives of ``log(1 + exp(a - s))``: a scale and a rate.

    It is for an s whose k-th derivative along the direction is at most :math:`c^k s`, as for a
    Poisson variable; `s` holds its values and the rate at which it may grow.

    Factors of the derivatives are :math:`p (1 - p) s^k \le e^{-|a - s|} s^k` and :math:`p\, s`,
    with p the logistic function of a - s. Either they grow with powers of s: p is at most one, and
    p (1 - p) a quarter. Or, let m be the larger of a and one. Whatever s is, in :math:`s = m + x`
    the former are at most :math:`m^k (1 + x)^k e^{-x} \le m^k k^k e^{1 - k}`, and the latter m. So
    they grow with a, which is :math:`m (1 + d / m)` at a distance d.
    """
    (size, rate), m = s, np.maximum(a, 1.0)
    with_s = [SECOND * size**k for k in (1, 2, 3)]
    with_a = [most * m**k for k, most in ((1, 1.0), (2, 1.48), (3, 3.7))]

    def third(at: list[np.ndarray], of_p: np.ndarray) -> np.ndarray:
        mixed = 3.0 * c_a**2 * c * at[0] + 3.0 * c_a * c**2 * (at[0] + at[1])
        return THIRD * c_a**3 + mixed + c**3 * (of_p + 3.0 * at[1] + at[2])

    return least_far_out((third(with_s, size), 3.0 * rate), (third(with_a, m), 3.0 * c_a / m))
