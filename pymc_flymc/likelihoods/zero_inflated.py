"""Zero-inflated counts: zeros are added to those of a Poisson or another variable."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.basic import Join, MakeVector
from pytensor.tensor.random.basic import BinomialRV, NegBinomialRV, PoissonRV
from pytensor.tensor.variable import TensorVariable
from scipy.special import expit

from pymc_flymc.compat.pymc import HurdleRV, MixtureRV
from pymc_flymc.graphs.tools import evaluate, free_inputs, has_rows_of_data
from pymc_flymc.likelihoods.bernoulli import BinomialLogit
from pymc_flymc.likelihoods.checks import check_parameter
from pymc_flymc.likelihoods.counts import NegativeBinomialLog, PoissonLog
from pymc_flymc.likelihoods.family import JointlySmoothFamily, least_far_out
from pymc_flymc.likelihoods.jets import (
    EXP,
    LOG_SOFTPLUS,
    SECOND,
    THIRD,
    Function,
    Jet,
    known,
    outward,
)
from pymc_flymc.likelihoods.likelihood import Likelihood, RowParameters, outcome
from pymc_flymc.likelihoods.links import as_columns, find_log_odds, unreadable

_ZEROS: Any = pm.DiracDelta.rv_type


def without_hurdle(rv: TensorVariable) -> tuple[TensorVariable, TensorVariable | None]:
    """Return the variable that is never zero, of ``pm.HurdlePoisson`` and the like, and psi.

    psi is the probability of a value that is not zero: a scalar, or a value for each row. A
    variable of another kind is returned as it is, without psi.
    """
    psi, values = _parts(rv, HurdleRV) or (None, rv)
    return values, psi


def parts_of_inflated(rv: TensorVariable) -> tuple[TensorVariable, TensorVariable] | None:
    """Return psi and the variable to which zeros are added, or None without such a mixture.

    psi is the probability of a value of that variable, zero or not.
    """
    return _parts(rv, MixtureRV)


def _parts(rv: TensorVariable, kind: type) -> tuple[TensorVariable, TensorVariable] | None:
    if rv.owner is None or not isinstance(rv.owner.op, kind):
        return None
    _, weights, *components = rv.owner.inputs
    if len(components) != 2:
        return None
    zeros, values = components
    if zeros.owner is None or not isinstance(zeros.owner.op, _ZEROS):
        return None
    (place,) = zeros.owner.op.dist_params(zeros.owner)
    if has_rows_of_data(place) or free_inputs([place]) or np.any(evaluate(place) != 0):
        return None
    psi: Any
    op = None if weights.owner is None else weights.owner.op
    if isinstance(op, MakeVector) and len(weights.owner.inputs) == 2:
        psi = weights.owner.inputs[1]
    elif isinstance(op, Join):
        psi = weights.owner.inputs[-1]
        psi = psi.squeeze(axis=-1) if psi.type.broadcastable[-1] else psi[..., -1]
    else:
        psi = weights[..., -1]
    if psi.ndim and all(psi.type.broadcastable):
        psi = psi.squeeze()
    values = values.owner.clone().outputs[values.owner.outputs.index(values)]
    values.name = rv.name
    return psi, values


#: If log s is larger, the distribution itself gives no zeros, and powers of s would overflow.
LARGE = 200.0
#: If -psi is larger, counts are Poisson variables in double precision.
POISSON = 40.0
#: If psi is smaller, h / p - 1 is computed by a series.
SMALL = -12.0


def log_exponent(eta: Any, tau: Any) -> Any:
    """Return the graph of log s, which is eta if psi is small."""
    psi = eta - tau
    small = psi < -POISSON
    value = pt.switch(small, eta, tau + pt.log(pt.softplus(pt.switch(small, 0.0, psi))))
    return known(value, log_exponent_jet, eta, tau)


def exponent(eta: Any, tau: Any) -> Any:
    """Return the graph of s."""
    log_s = log_exponent(eta, tau)
    return known(pt.exp(pt.switch(log_s > LARGE, LARGE, log_s)), _exponent_jet, eta, tau)


def parts(eta: Any, tau: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return alpha p, p and k."""
    psi = eta - tau
    p, near = expit(psi), np.maximum(psi, SMALL)
    alpha_p = np.exp(np.minimum(eta, tau)) * expit(np.abs(psi))
    series = p * (1.0 / 2.0 + p * (1.0 / 3.0 + p / 4.0))
    k = np.where(psi < SMALL, series, np.logaddexp(0.0, near) / expit(near) - 1.0)
    return alpha_p, p, k


def _exponent_jet(eta: Jet, tau: Jet) -> Jet:
    """Return the jet of s, from those of the predictors."""
    (low, high), (tau_low, tau_high) = eta.ends(), tau.ends()
    c, t = eta.derivative(1), tau.derivative(1)

    def ends() -> tuple[Any, Any]:
        alpha_p, _, k = parts(np.stack([low, high]), np.stack([tau_low, tau_high]))
        return outward(*np.minimum(alpha_p * (1.0 + k), np.exp(LARGE)))

    def derivative(order: int) -> Any:
        # alpha p increases with both, too.
        most = parts(high, tau_high)[0]
        psi = np.stack(_psi(eta, tau))
        _, p, k = parts(psi, np.zeros_like(psi))
        if order == 1:
            return most * (c + k[1] * t)
        if order == 2:
            return most * ((1.0 - p[0]) * c**2 + 2.0 * p[1] * c * t + _size(k, p) * t**2)
        if order == 3:
            return most * (
                _size(1.0 + 2.0 * p**2, 3.0 * p) * c**3
                + 3.0 * _size(2.0 * p, 2.0 * p**2) * c**2 * t
                + 3.0 * _size(2.0 * p**2, p) * c * t**2
                + _size(k, 2.0 * p**2) * t**3
            )
        return np.inf

    return Jet(ends, derivative)


def log_exponent_jet(eta: Jet, tau: Jet) -> Jet:
    """Return the jet of log s, from those of the predictors."""
    c, t = eta.derivative(1), tau.derivative(1)

    def ends() -> tuple[Any, Any]:
        low, high = (np.stack(each) for each in zip(eta.ends(), tau.ends(), strict=True))
        alpha_p, _, k = parts(*np.stack([low, high], axis=1))
        least, most = outward(*np.log(alpha_p * (1.0 + k)))
        # If both predictors are infinite, it may be any number.
        return np.where(np.isnan(least), -np.inf, least), np.where(np.isnan(most), np.inf, most)

    def derivative(order: int) -> Any:
        low, high = _psi(eta, tau)
        if order > 1:
            return LOG_SOFTPLUS.limit(order, low, high) * (c + t) ** order
        _, _, k = parts(np.stack([low, high]), np.zeros((2, 1)))
        # The factors of c and t sum to one.
        return np.minimum(c / (1.0 + k[0]) + t * (1.0 - 1.0 / (1.0 + k[1])), np.maximum(c, t))

    return Jet(ends, derivative)


def _psi(eta: Jet, tau: Jet) -> tuple[Any, Any]:
    (low, high), (tau_low, tau_high) = eta.ends(), tau.ends()
    return outward(low - tau_high, high - tau_low)


def _size(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Bound the absolute difference of two increasing functions, (2, n), from their ends."""
    return np.maximum(one[1] - other[0], other[1] - one[0])


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

    def third_bound(
        self, eta: np.ndarray, half_width: np.ndarray, spread: np.ndarray, y: np.ndarray
    ) -> np.ndarray:
        """Return bounds from the graph; rows without trials say nothing of any predictor."""
        limit = super().third_bound(eta, half_width, spread, y)
        # Far out the graph has zero times infinity.
        return np.where(y[..., 1] == 0.0, 0.0, limit)


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
