"""Bernoulli variables with a probit or a complementary log-log link."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable
from scipy.special import ndtr

from pymc_flymc.likelihoods.bernoulli import Bernoulli

__all__ = ["BernoulliCloglog", "BernoulliProbit", "log_positive"]


class BernoulliProbit(Bernoulli):
    """Observed 0/1 with ``P(y_n = 1) = Phi(eta_n)``, Phi the normal distribution function."""

    name = "bernoulli-probit"
    usage = "pm.Bernoulli(p=pm.math.invprobit(eta))"
    growth = 0.0
    #: pm.math.invprobit has the square root of two in single precision only.
    rtol = 1e-8

    def inverse_link(self, eta: np.ndarray) -> np.ndarray:
        """Return the normal distribution function."""
        return ndtr(eta)

    def derivative_bound(
        self, order: int, low: np.ndarray | float, high: np.ndarray | float, y: np.ndarray
    ) -> np.ndarray:
        """Return a limit of ``|d^order log L / d eta^order|`` for eta between low and high.

        Everywhere it is the largest value, rounded up. With s = (2y - 1) eta and r = phi(s)/Phi(s),
        r' = -r (s + r), the third derivative is r ((s + r)(s + 2r) - 1), and the fourth is
        r' ((s + r)(s + 2r) - 1) + r ((1 + r')(s + 2r) + (s + r)(1 + 2r')). For s >= 2 one has
        r <= 2 phi(s) < 0.11 and -1/2 < r' < 0, whence limits that fall with s.
        """
        s = np.where(np.asarray(y) == 1, low, -np.asarray(high))
        s = np.maximum(s, 2.0)
        product = (s + 0.11) * (s + 0.22)
        factor = product if order == 3 else (s + 0.11) * product + 2.0 * s + 0.33
        tail = 2.0 * np.exp(-0.5 * s**2) / np.sqrt(2.0 * np.pi) * factor
        return np.minimum({3: 0.2958, 4: 0.1890}[order], tail)

    def log_likelihood(
        self, arguments: Sequence[TensorVariable], y: TensorVariable
    ) -> TensorVariable:
        """Return ``log Phi(s)`` in a form that neither underflows nor cancels.

        Each of its two branches stays finite, with its derivatives, where the other one holds.
        """
        (eta,) = arguments
        s = (2.0 * y - 1.0) * eta
        left, right = pt.minimum(s, 0.0), pt.maximum(s, -2.0)
        below = pt.log(0.5 * pt.erfcx(-left / np.sqrt(2.0))) - 0.5 * pt.sqr(left)
        return pt.switch(s < -1.0, below, pt.log1p(-0.5 * pt.erfc(right / np.sqrt(2.0))))


class BernoulliCloglog(Bernoulli):
    """Observed 0/1 with ``P(y_n = 1) = 1 - exp(-exp(eta_n))``."""

    name = "bernoulli-cloglog"
    usage = "pm.Bernoulli(p=1 - pm.math.exp(-pm.math.exp(eta)))"
    growth = 1.0

    def inverse_link(self, eta: np.ndarray) -> np.ndarray:
        """Return the distribution function of the logarithm of a standard exponential variable."""
        return -np.expm1(-np.exp(eta))

    def derivative_bound(
        self, order: int, low: np.ndarray | float, high: np.ndarray | float, y: np.ndarray
    ) -> np.ndarray:
        """Return a limit of ``|d^order log L / d eta^order|`` for eta between low and high.

        For y = 0 the derivatives are those of -t, t = exp(eta), with no limit. For y = 1 the third
        and fourth of log(1 - exp(-t)) never exceed t/2, their behaviour for small t, nor 0.4261 and
        0.6982, their largest values rounded up. Neither grows faster than t.
        """
        t = np.exp(np.asarray(high, dtype=np.float64))
        return np.where(np.asarray(y) == 1, np.minimum({3: 0.4261, 4: 0.6982}[order], 0.5 * t), t)

    def log_likelihood(
        self, arguments: Sequence[TensorVariable], y: TensorVariable
    ) -> TensorVariable:
        """Return ``log(1 - exp(-t))`` or ``-t``, t = exp(eta).

        Branches that are not taken get an argument at which they and their derivatives are finite.
        """
        (eta,) = arguments
        return pt.switch(y > 0.5, log_positive(eta), -pt.exp(pt.switch(y > 0.5, 0.0, eta)))


def log_positive(eta: Any) -> Any:
    """Graph of ``log(1 - exp(-exp(eta)))``, of a Poisson variable that is not zero."""
    t = pt.exp(pt.clip(eta, -10.0, 20.0))
    small = pt.exp(pt.minimum(eta, -10.0))
    series = eta - 0.5 * small + pt.sqr(small) / 24.0
    return pt.switch(eta < -10.0, series, pt.log(-pt.expm1(-t)))
