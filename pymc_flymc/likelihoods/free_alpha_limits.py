r"""Limits of derivatives of negative binomial counts in the log mean and in log alpha.

The notation is that of `free_alpha`: :math:`\psi = \eta - \tau`, :math:`p = \sigma(\psi)`,
:math:`h = \log(1 + e^\psi)` and :math:`s = \alpha h`. Elements of directions are at most c and t.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from pymc_flymc.likelihoods.bernoulli import BernoulliLogit
from pymc_flymc.likelihoods.zero_limits import (
    THIRD,
    limits_of_log_of_log,
    limits_of_log_positive,
)

__all__ = ["Box", "parts", "third_of_count", "third_of_count_anywhere", "third_of_truncation"]

_LOGISTIC = BernoulliLogit()
#: Below it h / p - 1 is a series.
_SMALL = -12.0


@dataclass(frozen=True)
class Box:
    """Limits of s and what it consists of within reach, at the low end and the high one.

    Attributes
    ----------
    psi, s : ndarray, shape (2, n)
    slopes : tuple of ndarray, shape (n,)
        Of the first three derivatives of s along directions within the spread.
    speed : ndarray, shape (n,)
        Of the first of log s.
    """

    psi: np.ndarray
    s: np.ndarray
    slopes: tuple[np.ndarray, np.ndarray, np.ndarray]
    speed: np.ndarray

    @classmethod
    def around(cls, eta: np.ndarray, reach: np.ndarray, spread: np.ndarray) -> Box:
        r"""Return limits for eta and tau plus or minus at most the reach.

        Both s and :math:`\alpha p` increase with eta and tau. In units of the latter, with
        :math:`k = h / p - 1`, the first derivatives of s are 1 and k; the second ones q, p and
        :math:`k - p`; the third ones :math:`q (1 - 2 p)`, :math:`2 p q`, :math:`p (2 p - 1)` and
        :math:`k - 2 p^2`: differences of functions that increase with psi.
        """
        c, t = spread
        (low, tau_low), (high, tau_high) = eta - reach, eta + reach
        alpha_p, _, k = parts(np.stack([low, high]), np.stack([tau_low, tau_high]))
        s, most = alpha_p * (1.0 + k), alpha_p[1]
        psi = np.stack([low - tau_high, high - tau_low])
        _, p, k = parts(psi, np.zeros_like(psi))
        first = most * (c + k[1] * t)
        second = most * ((1.0 - p[0]) * c**2 + 2.0 * p[1] * c * t + _size(k, p) * t**2)
        speed = c / (1.0 + k[0]) + t * k[1] / (1.0 + k[1])
        third = most * (
            _size(1.0 + 2.0 * p**2, 3.0 * p) * c**3
            + 3.0 * _size(2.0 * p, 2.0 * p**2) * c**2 * t
            + 3.0 * _size(2.0 * p**2, p) * c * t**2
            + _size(k, 2.0 * p**2) * t**3
        )
        return cls(psi, s, (first, second, third), speed)


def parts(eta: np.ndarray, tau: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return alpha p, p and k = h / p - 1."""
    psi = eta - tau
    p, near = expit(psi), np.maximum(psi, _SMALL)
    alpha_p = np.exp(np.minimum(eta, tau)) * expit(np.abs(psi))
    series = p * (1.0 / 2.0 + p * (1.0 / 3.0 + p / 4.0))
    k = np.where(psi < _SMALL, series, np.logaddexp(0.0, near) / expit(near) - 1.0)
    return alpha_p, p, k


def _size(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Limit of the absolute difference of two increasing functions, (2, n), from their ends."""
    return np.maximum(one[1] - other[0], other[1] - one[0])


def third_of_count(
    box: Box, eta: np.ndarray, reach: np.ndarray, spread: np.ndarray, y: np.ndarray
) -> np.ndarray:
    r"""Limit of the third derivative of a count's log-likelihood near eta.

    In tau the terms of R are softplus functions of :math:`\tau - \log j`, whose third derivatives
    are below the second ones, which change by no more than a factor of :math:`e^d`. The second ones
    :math:`\alpha j / (\alpha + j)^2` are at most 1/4 and :math:`j / \alpha`, and rise and fall with
    j: their sum is below their integral plus 1/4.
    """
    (c, t), more = spread[:2], np.maximum(y - 1.0, 0.0)
    alpha = np.exp(eta[1])
    ratio = y / alpha
    integral = alpha * (np.log1p(ratio) - ratio / (1.0 + ratio)) + 0.25
    second = np.fmin(np.minimum(0.25 * more, 0.5 * y * more / alpha), integral)
    rising = np.minimum(second * np.exp(reach[1]), THIRD * more)
    log_p = y * _LOGISTIC.derivative_bound(3, box.psi[0], box.psi[1], y)
    return np.asarray(log_p * (c + t) ** 3 + box.slopes[2] + rising * t**3)


def third_of_count_anywhere(eta: np.ndarray, spread: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Limit of the same which grows with the distance d like ``exp(d)``, as s does, and alpha p."""
    c, t = spread[:2]
    alpha_p, _, k = parts(eta[0], eta[1])
    third = c**3 + 1.5 * c**2 * t + 3.0 * c * t**2 + np.maximum(1.0 + k, 2.0) * t**3
    fixed = y * (c + t) ** 3 + np.maximum(y - 1.0, 0.0) * t**3
    return np.asarray(alpha_p * third + THIRD * fixed)


def third_of_truncation(
    s: np.ndarray, psi: np.ndarray, speed: np.ndarray, width: np.ndarray
) -> np.ndarray:
    r"""Limit of the third derivative of :math:`g(x) = \log(1 - \exp(-e^x))` at x = log s.

    As :math:`x = \tau + \log h`, its further derivatives are those of log h in psi.
    """
    g1, g2, g3, _ = limits_of_log_positive(s[0], s[1])
    _, x2, x3, _ = limits_of_log_of_log(psi[0], psi[1])
    chain = g3 * speed**3 + 3.0 * g2 * speed * x2 * width**2 + g1 * x3 * width**3
    return np.asarray(chain)
