"""Counts with a log link: Poisson and negative binomial ones, from zero or from one on."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import equal_computations
from pytensor.scalar import basic as ps
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.random.basic import NegBinomialRV, PoissonRV
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import evaluate, free_inputs, has_rows_of_data
from pymc_flymc.likelihoods.bernoulli import BinomialLogit
from pymc_flymc.likelihoods.checks import (
    check_counts,
    check_parameter,
    check_values,
    is_positive,
    scalar_parameter,
)
from pymc_flymc.likelihoods.family import Family, SmoothFamily
from pymc_flymc.likelihoods.jets import log_positive, log_rising_of_exp, log_softplus
from pymc_flymc.likelihoods.likelihood import NEGATIVE_BINOMIAL, RowParameters
from pymc_flymc.likelihoods.links import find_log_mean, find_log_odds, unreadable
from pymc_flymc.likelihoods.products import is_from, without


class PoissonLog(SmoothFamily):
    """Observed counts with ``mean = exp(eta_n)``."""

    name = "poisson-log"
    usage = "pm.Poisson(mu=exposure * pm.math.exp(eta))"
    distributions = PoissonRV
    zero_at_no_mean = True

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return the log mean from the graph of mu; constant factors are offsets."""
        (mu,) = rv.owner.op.dist_params(rv.owner)
        eta = find_log_mean(mu, rv, of_counts=True)
        if eta is None:
            usage = "pm.Poisson(mu=pm.math.exp(eta)), or mu=exposure * pm.math.exp(eta)"
            raise unreadable(rv, "mu", "exponential", usage)
        return RowParameters(self, eta)

    read_observed = staticmethod(check_counts)

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return ``y eta - exp(eta)``, without terms in y alone."""
        (eta,) = arguments
        return y * eta - pt.exp(eta)


class _NegativeBinomial(Family):
    """Base of the families with a fixed and with a free alpha."""

    usage = "pm.NegativeBinomial(mu=pm.math.exp(eta), alpha=alpha)"
    distributions: Any = NegBinomialRV
    zero_at_no_mean = True


class NegativeBinomialLog(_NegativeBinomial, BinomialLogit):
    r"""Observed counts with ``mean = exp(eta_n)`` and a known alpha.

    In :math:`\psi = \eta - \log\alpha` the log-likelihood is, up to terms in y alone,
    :math:`y \psi - (y + \alpha) \log(1 + e^\psi)`: that of y successes in :math:`y + \alpha` trials
    with log odds :math:`\psi`.
    """

    name = "negative-binomial-log"
    row_data: tuple[str, ...] = ("alpha",)

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return psi, and alpha, which may have a value for each row."""
        _, psi, alpha = read_negative_binomial(rv)
        if free_inputs([alpha]):
            raise UnsupportedModelError(f"alpha of the observed variable {rv.name!r} is free")
        check_parameter(alpha, "alpha", rv)
        return RowParameters(self, psi, row_data=[alpha])

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Check counts, the first column of (N, 2), and return columns y and y + alpha."""
        y, alpha = check_counts(values[:, 0], name), check_alpha(values[:, 1], name)
        return np.stack([y, y + alpha], axis=1)


class NegativeBinomialFree(_NegativeBinomial):
    r"""Observed counts with ``mean = exp(eta_n)`` and an alpha that is sampled.

    The predictor is :math:`\psi = \eta - \log\alpha`, whose intercept may depend on alpha.
    """

    name = "negative-binomial-free"
    form = NEGATIVE_BINOMIAL
    nuisances: tuple[str, ...] = ("log alpha",)

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return psi and log alpha."""
        _, psi, alpha = read_negative_binomial(rv)
        return RowParameters(self, psi, [pt.log(scalar_parameter(alpha, "alpha", rv))])

    read_observed = staticmethod(check_counts)

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return the log-likelihood without ``log y!``."""
        psi, log_alpha = arguments
        alpha = pt.exp(log_alpha)
        return y * psi - (y + alpha) * pt.softplus(psi) + log_rising_of_exp(log_alpha, y)


def check_alpha(alpha: np.ndarray, name: str) -> np.ndarray:
    """Return the alpha of each row, which must be positive and finite."""
    check_values(is_positive(alpha), alpha, f"alpha of {name}", "positive and finite")
    return alpha


def read_negative_binomial(rv: TensorVariable) -> tuple[Any, Any, Any]:
    """Return the log mean, psi = log(mean / alpha), which are the log odds of 1 - p, and alpha."""
    alpha, p = rv.owner.op.dist_params(rv.owner)
    minus_psi = find_log_odds(p, rv)
    if minus_psi is not None:
        logs = _logs_of_a_ratio(minus_psi)
        if logs is None:
            return pt.log(alpha) - minus_psi, -minus_psi, alpha
        eta = find_log_mean(logs[1], rv, of_counts=True)
        if eta is not None:
            psi = eta - pt.log(logs[0])
            # In a p that the model itself writes as such odds, the first number may be another one.
            is_alpha = equal_computations([logs[0]], [without(alpha, DimShuffle)])
            return eta if is_alpha else psi + pt.log(alpha), psi, alpha
    usage = f"{_NegativeBinomial.usage}, or mu=exposure * pm.math.exp(eta)"
    raise unreadable(rv, "mu", "exponential", usage)


def _logs_of_a_ratio(v: TensorVariable) -> tuple[TensorVariable, TensorVariable] | None:
    """Return (a, b) if v is log(a) - log(b), as PyMC writes the log odds; else None."""
    if not is_from(v, ps.Sub):
        return None
    parts = [without(part, DimShuffle) for part in v.owner.inputs]
    if not all(is_from(part, ps.Log) for part in parts):
        return None
    return parts[0].owner.inputs[0], parts[1].owner.inputs[0]


_TRUNCATED: Any = pm.Truncated.rv_type


def check_positive_counts(values: np.ndarray, name: str) -> np.ndarray:
    """Return observed counts from 1 on as float64; refuse other values."""
    values = check_counts(values, name)
    check_values(values > 0, values, name, "counts from 1 on")
    return values


class ZeroTruncated(Family):
    """Base of families of counts that are never zero."""

    read_observed = staticmethod(check_positive_counts)

    def matches(self, rv: TensorVariable) -> bool:
        """Return whether a variable is one of the family's distributions, from 1 on."""
        if rv.owner is None or not isinstance(rv.owner.op, _TRUNCATED):
            return False
        lower, upper = rv.owner.inputs[-2:]
        return (
            isinstance(rv.owner.op.base_rv_op, self.distributions)
            and not (has_rows_of_data(lower) or has_rows_of_data(upper))
            and not free_inputs([lower, upper])
            and bool(np.all(evaluate(lower) == 1) and np.all(evaluate(upper) == np.inf))
        )


class ZeroTruncatedPoisson(ZeroTruncated):
    r"""Observed counts from 1 on, of a Poisson variable with mean ``t = exp(eta_n)``.

    Up to a constant the log-likelihood is :math:`y \eta - \log(e^t - 1)`. The derivatives of its
    second term are the cumulants of the variable, up to sign.
    """

    name = "zero-truncated-poisson"
    usage = "pm.HurdlePoisson(psi=psi, mu=pm.math.exp(eta))"
    distributions: Any = PoissonRV
    #: The fourth cumulant is at most 1.3457 times the third, the fifth 1.4121 times the fourth.
    growth = 1.4121
    log_concave = True

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return the log mean of the variable that is not truncated, as `PoissonLog.read` does."""
        return replace(PoissonLog().read(untruncated(rv)), likelihood=self)

    def derivative_bound(
        self, order: int, low: np.ndarray | float, high: np.ndarray | float, y: np.ndarray
    ) -> np.ndarray:
        """Return a bound on the third or fourth cumulant at the high end: both increase."""
        # It is tighter than a bound from the graph, whose terms cancel. In t they begin with t/2 +
        # t^2/3 and t/2 + 2 t^2/3, which are bounds, exceed t by no more than 11.2 and 30.7 percent,
        # and approach it again exponentially fast.
        t = np.exp(np.asarray(high, dtype=np.float64))
        slope, most = {3: (1.0 / 3.0, 1.112), 4: (2.0 / 3.0, 1.307)}[order]
        far = np.minimum(t, 700.0)
        tail = 1.0 + far ** (order - 1) * np.exp(-far)
        return np.asarray(t * np.minimum(np.minimum(0.5 + slope * t, most), tail))

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return ``y eta - t - log(1 - exp(-t))``."""
        (eta,) = arguments
        return y * eta - pt.exp(eta) - log_positive(eta)


class ZeroTruncatedNegativeBinomial(ZeroTruncated, SmoothFamily):
    r"""Observed counts from 1 on, of a negative binomial variable with a known alpha.

    In :math:`\psi = \eta - \log\alpha` zero has the probability :math:`e^{-s}`, where
    :math:`s = \alpha \log(1 + e^\psi)`, and the log-likelihood is the one of `NegativeBinomialLog`
    less :math:`\log(1 - e^{-s})`.
    """

    name = "zero-truncated-negative-binomial"
    usage = "pm.HurdleNegativeBinomial(psi=psi, mu=pm.math.exp(eta), alpha=alpha)"
    distributions: Any = NegBinomialRV
    row_data: tuple[str, ...] = ("alpha",)
    #: It is not log-concave for an alpha below one and large means.
    log_concave = False

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return psi, and alpha, which may have a value for each row."""
        return replace(NegativeBinomialLog().read(untruncated(rv)), likelihood=self)

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Check counts, the first column of (N, 2), and return them with alpha."""
        alpha = check_alpha(values[:, 1], name)
        return np.column_stack([check_positive_counts(values[:, 0], name), alpha])

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return ``y psi - (y + alpha) log(1 + exp(psi)) - log(1 - exp(-s))``."""
        (psi,), (count, alpha) = arguments, y
        log_s = pt.log(alpha) + log_softplus(psi)
        value: Any = count * psi - (count + alpha) * pt.softplus(psi) - log_positive(log_s)
        return value


def untruncated(rv: TensorVariable) -> TensorVariable:
    """Return the variable inside the truncation."""
    whole = rv.owner.op.base_rv_op.make_node(*rv.owner.inputs[:-2]).default_output()
    whole.name = rv.name
    return whole
