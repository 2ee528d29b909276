r"""The exponent s of the probability :math:`e^{-s}` of a zero among negative binomial counts.

With :math:`\psi = \eta - \tau`, :math:`p = \sigma(\psi)`, :math:`q = 1 - p` and
:math:`h = \log(1 + e^\psi)` it is :math:`s = \alpha h`, :math:`\alpha = e^\tau`. Both
:math:`\eta`, the log mean, and :math:`\tau` are predictors. As :math:`p' = p q` and
:math:`h' = p`, the derivatives of s over :math:`\alpha p` are, with :math:`k = h / p - 1`,

.. math:: 1, k; \quad q, p, k - p; \quad q (1 - 2 p), 2 p q, p (2 p - 1), k - 2 p^2,

those in :math:`\eta` first. Since :math:`p \le h \le p / q`, none of p, k and
:math:`k' = 1 - h q / p` is negative: p and k increase with :math:`\psi`. Every derivative is a
difference of two increasing functions, so that its bounds in an interval follow from the ends.
The same holds for :math:`\log s`, whose first derivatives are :math:`p / h = 1 / (1 + k)` and
:math:`1 - p / h`, and whose further derivatives are those of :math:`\log h` in :math:`\psi`.
"""

from typing import Any

import numpy as np
import pytensor.tensor as pt
from scipy.special import expit

from pymc_flymc.likelihoods.functions import LOG_SOFTPLUS, known
from pymc_flymc.likelihoods.jets import Jet, outward

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
