r"""Negative binomial counts with a free alpha: plain, zero-truncated, or zero-inflated.

The predictors are the log mean :math:`\eta` and :math:`\tau = \log\alpha`, for which the data have
nearly separate information. In :math:`\psi = \eta - \tau`, with :math:`p = \sigma(\psi)`,
:math:`q = 1 - p` and
:math:`h = \log(1 + e^\psi)`, zero has the probability :math:`e^{-s}`, where :math:`s = \alpha h`,
and the log-likelihood of a count is

.. math:: y \log p - s + R, \quad R = \sum_{j < y} \log(\alpha + j).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.random.basic import NegBinomialRV
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.likelihoods.checks import check_counts
from pymc_flymc.likelihoods.counts import (
    NegativeBinomialFree,
    ZeroTruncated,
    ZeroTruncatedNegativeBinomial,
    read_negative_binomial,
    untruncated,
)
from pymc_flymc.likelihoods.family import JointlySmoothFamily, least_far_out
from pymc_flymc.likelihoods.jets import LOG_POSITIVE, THIRD, Jet, log_positive, log_rising_of_exp
from pymc_flymc.likelihoods.likelihood import RowParameters
from pymc_flymc.likelihoods.links import as_columns, find_log_mean, unreadable
from pymc_flymc.likelihoods.zero_inflated import (
    LARGE,
    ZeroInflated,
    ZeroInflatedTrials,
    exponent,
    log_exponent,
    log_exponent_jet,
    parts,
    parts_of_inflated,
    third_of_zero,
)


class NegativeBinomialSmooth(JointlySmoothFamily):
    """Observed negative binomial counts whose alphas differ, or whose rows are out of core."""

    name = "negative-binomial-smooth"
    usage = NegativeBinomialFree.usage
    distributions: Any = NegBinomialRV
    n_predictors = 2

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return eta and tau."""
        return RowParameters(self, as_columns(*_read(rv)))

    read_observed = staticmethod(check_counts)

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return the log-likelihood without ``log y!``."""
        eta, tau = arguments
        value: Any = _apart_from_s(eta, tau, y) - exponent(eta, tau)
        return value

    def third_beyond(
        self, eta: np.ndarray, spread: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return a bound on the third derivatives which grows with s."""
        return _third_of_count(eta, spread, y)


class ZeroTruncatedNegativeBinomialFree(ZeroTruncated, NegativeBinomialSmooth):
    r"""Observed counts from 1 on: the log-likelihood is less :math:`\log(1 - e^{-s})`."""

    name = "zero-truncated-negative-binomial-free"
    usage = ZeroTruncatedNegativeBinomial.usage

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return eta and tau."""
        return super().read(untruncated(rv))

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return the log-likelihood without ``log y!``."""
        value: Any = super().log_likelihood(arguments, y)
        return value - log_positive(log_exponent(*arguments))

    def third_beyond(
        self, eta: np.ndarray, spread: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return a bound on the third derivatives which grows with s."""
        far = np.full(len(y), np.inf)
        anywhere = (Jet.predictor(-far, far, each) for each in spread)
        with np.errstate(all="ignore"):
            truncation = log_exponent_jet(*anywhere).through(LOG_POSITIVE).derivative(3)
        scale, rate = super().third_beyond(eta, spread, y)
        return np.asarray(scale + truncation), rate


class ZeroInflatedNegativeBinomialFree(ZeroInflated):
    """Observed counts of a negative binomial variable, and further zeros."""

    name = "zero-inflated-negative-binomial-free"
    usage = ZeroInflatedTrials.usage
    distributions: Any = NegBinomialRV
    n_predictors = 3

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return eta, tau and a."""
        mixture = parts_of_inflated(rv)
        assert mixture is not None
        psi, counts = mixture
        return RowParameters(self, as_columns(*_read(counts), self.log_odds(psi, rv)))

    read_observed = staticmethod(check_counts)

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return the log-likelihood without ``log y!``; both branches are finite everywhere."""
        eta, tau, a = arguments
        s = exponent(eta, tau)
        count = _apart_from_s(eta, tau, y) - s - pt.softplus(-a)
        return pt.switch(y < 0.5, pt.softplus(a - s) - pt.softplus(a), count)

    def third_beyond(
        self, eta: np.ndarray, spread: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        r"""Return a bound on the third derivatives which grows with s, or with a if s is large.

        The k-th derivative of s is at most s times the k-th power of the sum of the spreads: all
        of its derivatives, in the order of `exponent`, are below h in units of :math:`\alpha`. For
        :math:`h \ge p + p^2 / 2`, and p times a number below one is below h. So they are at most as
        many times the mean, which is larger than s.
        """
        (alpha_p, _, k), (c, t, c_a), both = parts(*eta[:2]), spread, spread[:2].sum(axis=0)
        most = np.exp(LARGE)
        sizes = np.minimum(alpha_p * (1.0 + k), most), np.minimum(np.exp(eta[0]), most)
        limits = zip(sizes, (np.maximum(c, t), c), strict=True)
        zero = least_far_out(*(third_of_zero(s, eta[2], both, c_a) for s in limits))
        pairs = zip(zero, _third_of_count(eta, spread, y), strict=True)
        scale, rate = (np.where(y == 0, *pair) for pair in pairs)
        return scale + THIRD * c_a**3, rate


def _read(rv: TensorVariable) -> tuple[Any, Any]:
    """Return the log mean and log alpha of a negative binomial variable."""
    eta, _, alpha = read_negative_binomial(rv)
    tau = pt.log(alpha) if alpha.ndim == 0 else find_log_mean(alpha, rv)
    if tau is None:
        usage = "one alpha for all rows, numbers, or alpha=pm.math.exp(tau)"
        raise unreadable(rv, "alpha", "exponential", usage)
    return eta, tau


def _apart_from_s(eta: Any, tau: Any, y: Any) -> Any:
    """Return the graph of ``y log p + R``."""
    return log_rising_of_exp(tau, y) - y * pt.softplus(tau - eta)


def _third_of_count(
    eta: np.ndarray, spread: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return a bound on a count's third derivative anywhere: a scale and a rate.

    The derivatives of s are in the order of `exponent`; the derivatives of log p and of the terms
    of R, softplus functions of tau less log j, are at most `THIRD`. The former grow with alpha p
    and s, neither of which grows faster than eta and tau. Or they grow with the mean, which exceeds
    both, though only slightly if alpha is large: then they do not grow with tau.
    """
    c, t = spread[:2]
    alpha_p, _, k = parts(eta[0], eta[1])
    fixed = THIRD * (y * (c + t) ** 3 + np.maximum(y - 1.0, 0.0) * t**3)

    def limit(size: np.ndarray, in_tau: Any, rate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        third = c**3 + 1.5 * c**2 * t + 3.0 * c * t**2 + in_tau * t**3
        return size * third + fixed, rate

    with_both = limit(alpha_p, np.maximum(1.0 + k, 2.0), np.maximum(c, t))
    return least_far_out(with_both, limit(np.exp(eta[0]), 2.0, c))
