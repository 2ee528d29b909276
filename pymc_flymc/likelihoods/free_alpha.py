r"""Negative binomial counts of a free alpha: without zeros, as behind a hurdle, or with more.

The predictors are the log mean :math:`\eta` and :math:`\tau = \log\alpha`, of which the data speak
nearly apart. In :math:`\psi = \eta - \tau`, with :math:`p = \sigma(\psi)`, :math:`q = 1 - p` and
:math:`h = \log(1 + e^\psi)`, zero has the probability :math:`e^{-s}`, where :math:`s = \alpha h`,
and the log-likelihood of a count is

.. math:: y \log p - s + R, \quad R = \sum_{j < y} \log(\alpha + j).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.random.basic import NegBinomialRV
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.graphs.rising import log_rising_of_exp
from pymc_flymc.likelihoods.base import RowParameters
from pymc_flymc.likelihoods.bernoulli import BernoulliLogit
from pymc_flymc.likelihoods.binary_links import log_positive
from pymc_flymc.likelihoods.checks import check_counts
from pymc_flymc.likelihoods.free_alpha_limits import (
    Box,
    parts,
    third_of_count,
    third_of_count_anywhere,
    third_of_truncation,
)
from pymc_flymc.likelihoods.links import as_columns, find_log_mean, unreadable
from pymc_flymc.likelihoods.negative_binomial import read_negative_binomial
from pymc_flymc.likelihoods.zero_inflated import ZeroInflated, ZeroInflatedTrials
from pymc_flymc.likelihoods.zero_limits import (
    LARGE,
    THIRD,
    third_of_zero,
    third_of_zero_anywhere,
)
from pymc_flymc.likelihoods.zero_truncated import (
    ZeroTruncated,
    ZeroTruncatedNegativeBinomial,
    check_positive_counts,
    untruncated,
)
from pymc_flymc.likelihoods.zeros import parts_of_inflated

__all__ = ["ZeroInflatedNegativeBinomialFree", "ZeroTruncatedNegativeBinomialFree"]

_LOGISTIC = BernoulliLogit()
#: Beyond it alpha is so large that counts are Poisson variables, in double precision.
_POISSON = 40.0


class ZeroTruncatedNegativeBinomialFree(ZeroTruncated):
    r"""Observed counts from 1 on, of such a variable: less :math:`\log(1 - e^{-s})`."""

    name = "zero-truncated-negative-binomial-free"
    usage = ZeroTruncatedNegativeBinomial.usage
    distributions: Any = NegBinomialRV
    n_predictors = 2
    growth = 1.0
    log_concave = False

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return eta and tau.

        Raises
        ------
        UnsupportedModelError
            If the mean is of another form, or alpha is neither the same for all rows nor the
            exponential function of a predictor.
        ValueError
            If an exposure is not positive and finite.
        """
        return RowParameters(self, as_columns(*_read(untruncated(rv))))

    read_observed = staticmethod(check_positive_counts)

    def log_likelihood(
        self, arguments: Sequence[TensorVariable], y: TensorVariable
    ) -> TensorVariable:
        """Return the log-likelihood but for ``log y!``."""
        eta, tau = arguments
        log_s = _log_exponent(eta, tau)
        value: Any = _apart_from_s(eta, tau, y) - pt.exp(log_s) - log_positive(log_s)
        return value

    def third_bound(
        self, eta: np.ndarray, reach: np.ndarray, spread: np.ndarray, y: np.ndarray
    ) -> np.ndarray:
        """Return a limit on third derivatives near eta, along directions within the spread."""
        with np.errstate(all="ignore"):
            box = Box.around(eta, reach, spread)
            near = third_of_count(box, eta, reach, spread, y) + third_of_truncation(
                box.s, box.psi, box.speed, spread.sum(axis=0)
            )
            far = self.third_scale(eta, spread, y) * np.exp(self.growth * reach.max(axis=0))
        return np.asarray(np.fmin(near, far))

    def third_scale(self, eta: np.ndarray, spread: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return a limit on third derivatives which grows with the distance d like ``exp(d)``."""
        anywhere = np.array([[0.0], [np.inf]]), np.array([[-np.inf], [np.inf]])
        truncation = third_of_truncation(*anywhere, spread.max(axis=0), spread.sum(axis=0))
        return third_of_count_anywhere(eta, spread, y) + truncation


class ZeroInflatedNegativeBinomialFree(ZeroInflated):
    """Observed counts of a negative binomial variable, and further zeros."""

    name = "zero-inflated-negative-binomial-free"
    usage = ZeroInflatedTrials.usage
    distributions: Any = NegBinomialRV
    n_predictors = 3
    growth = 3.0

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return eta, tau and a.

        Raises
        ------
        UnsupportedModelError
            If the mean is of another form, alpha is neither the same for all rows nor the
            exponential function of a predictor, or psi neither the same nor the logistic function.
        ValueError
            If an exposure is not positive and finite.
        """
        mixture = parts_of_inflated(rv)
        assert mixture is not None
        psi, counts = mixture
        return RowParameters(self, as_columns(*_read(counts), self.log_odds(psi, rv)))

    read_observed = staticmethod(check_counts)

    def log_likelihood(
        self, arguments: Sequence[TensorVariable], y: TensorVariable
    ) -> TensorVariable:
        """Return the log-likelihood but for ``log y!``; both branches are finite everywhere."""
        eta, tau, a = arguments
        log_s = _log_exponent(eta, tau)
        s = pt.exp(pt.switch(log_s > LARGE, LARGE, log_s))
        count = _apart_from_s(eta, tau, y) - s - pt.softplus(-a)
        return pt.switch(y < 0.5, pt.softplus(a - s) - pt.softplus(a), count)

    def third_bound(
        self, eta: np.ndarray, reach: np.ndarray, spread: np.ndarray, y: np.ndarray
    ) -> np.ndarray:
        """Return a limit on third derivatives near eta, along directions within the spread."""
        (*_, a_low), (*_, a_high) = eta - reach, eta + reach
        c_a = spread[2]
        with np.errstate(all="ignore"):
            box = Box.around(eta[:2], reach[:2], spread[:2])
            zero = third_of_zero(a_low - box.s[1], a_high - box.s[0], box.slopes, 1.0, c_a)
            count = third_of_count(box, eta, reach, spread, y)
            own = _LOGISTIC.derivative_bound(3, a_low, a_high, y) * c_a**3
            far = self.third_scale(eta, spread, y) * np.exp(self.growth * reach.max(axis=0))
        return np.asarray(np.fmin(np.where(y == 0, zero, count) + own, far))

    def third_scale(self, eta: np.ndarray, spread: np.ndarray, y: np.ndarray) -> np.ndarray:
        r"""Return a limit on third derivatives which grows with the distance d like ``exp(3 d)``.

        The k-th derivative of s is at most s times the k-th power of the sum of the spreads: in
        the order of `Box`, :math:`h - p`, q p, :math:`p^2`, :math:`|h - p - p^2|` and so on are
        all below h.
        """
        alpha_p, _, k = parts(eta[0], eta[1])
        s = np.minimum(alpha_p * (1.0 + k), np.exp(LARGE))
        zero = third_of_zero_anywhere(s, eta[2], spread[:2].sum(axis=0), spread[2])
        count = third_of_count_anywhere(eta, spread, y)
        return np.asarray(np.where(y == 0, zero, count) + THIRD * spread[2] ** 3)


def _read(rv: TensorVariable) -> tuple[Any, Any]:
    """Return the log mean and log alpha of a negative binomial variable."""
    eta, _, alpha = read_negative_binomial(rv)
    tau = pt.log(alpha) if alpha.ndim == 0 else find_log_mean(alpha, rv)
    if tau is None:
        usage = "one alpha for all rows, numbers, or alpha=pm.math.exp(tau)"
        raise unreadable(rv, "alpha", "exponential", usage)
    return eta, tau


def _apart_from_s(eta: Any, tau: Any, y: Any) -> Any:
    """Graph of ``y log p + R``."""
    return log_rising_of_exp(tau, y) - y * pt.softplus(tau - eta)


def _log_exponent(eta: Any, tau: Any) -> Any:
    """Graph of log s, which is eta where psi is small."""
    psi = eta - tau
    small = psi < -_POISSON
    return pt.switch(small, eta, tau + pt.log(pt.softplus(pt.switch(small, 0.0, psi))))
