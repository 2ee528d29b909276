"""Limits of derivatives of the chance of a zero, and of none, that families share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from pymc_flymc.likelihoods.bernoulli import BernoulliLogit

__all__ = [
    "LARGE",
    "SECOND",
    "THIRD",
    "limits_of_log_of_log",
    "limits_of_log_positive",
    "third_of_zero",
    "third_of_zero_anywhere",
]

#: Where log s is beyond it counts themselves are never zero, and powers of s would overflow.
LARGE = 200.0
#: The largest derivatives of log(1 + e^v): the second, and the third.
SECOND, THIRD = 0.25, 1.0 / (6.0 * np.sqrt(3.0))
_LOGISTIC = BernoulliLogit()


def limits_of_log_positive(s_low: np.ndarray, s_high: np.ndarray) -> tuple[np.ndarray, ...]:
    r"""Return limits of the first four derivatives of :math:`\log(1 - \exp(-e^x))`.

    For :math:`s = e^x` between the two. They are at most s/2 and a multiple of exp(-s/2), but for
    the first, which is at most exp(-s/2), and have largest values, here rounded up.
    """
    fall = np.exp(-0.5 * s_low)
    further = (
        np.minimum(np.minimum(0.5 * s_high, most), multiple * fall)
        for most, multiple in ((0.4126, 1.706), (0.4261, 6.170), (0.6982, 31.62))
    )
    return (fall, *further)


def limits_of_log_of_log(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, ...]:
    r"""Return limits of the first four derivatives of :math:`\log \log(1 + e^\psi)`.

    The first decreases from one on, and the others are at most :math:`e^\psi/2`, with largest
    values, here rounded up.
    """
    x1 = np.minimum(1.0, expit(low) / np.maximum(np.logaddexp(0.0, low), 1e-300))
    x1 = np.where(low < -600.0, 1.0, x1)
    small = 0.5 * np.exp(np.minimum(high, 0.0))
    return (x1, *(np.minimum(most, small) for most in (0.1671, 0.0610, 0.0615)))


def third_of_zero(
    v_low: np.ndarray,
    v_high: np.ndarray,
    slopes: Sequence[np.ndarray],
    c: np.ndarray | float,
    c_a: np.ndarray,
) -> np.ndarray:
    r"""Return a limit of the third derivative of :math:`f(v) = \log(1 + e^v)` at v = a - s.

    With dots for derivatives along a direction it is
    :math:`f''' \dot v^3 + 3 f'' \dot v \ddot v + f' \dddot v`.

    Parameters
    ----------
    v_low, v_high : ndarray, shape (n,)
        Limits of v.
    slopes : sequence of ndarray, shape (n,)
        Those of the first three derivatives of s.
    c, c_a : ndarray, shape (n,)
        Those of the elements of the direction: what s depends on, and a.
    """
    first, second, third = slopes
    nearest = np.maximum(np.maximum(v_low, -v_high), 0.0)
    curvature = expit(nearest) * expit(-nearest)
    speed = c_a + first * c
    return np.asarray(
        _LOGISTIC.derivative_bound(3, v_low, v_high, v_low) * speed**3
        + 3.0 * curvature * speed * second * c**2
        + expit(v_high) * third * c**3
    )


def third_of_zero_anywhere(
    s: np.ndarray, a: np.ndarray, c: np.ndarray, c_a: np.ndarray
) -> np.ndarray:
    r"""Return a limit of the same which grows with the distance d like ``exp(3 d)``.

    It is for an s that grows no faster than ``exp(d)``, and whose k-th derivative along the
    direction is at most :math:`c^k s`, as that of a Poisson variable.

    Factors of the derivatives are :math:`p (1 - p) s^k \le e^{-|a - s|} s^k` and :math:`p\, s`,
    with p the logistic function of a - s. Let m be the larger of a and one. Whatever s is, in
    :math:`s = m + x` the former are at most :math:`m^k (1 + x)^k e^{-x} \le m^k k^k e^{1 - k}`, and
    the latter m. Powers of m grow no faster than those of s.
    """
    m = np.maximum(a, 1.0)
    at = [np.minimum(SECOND * s**k, most * m**k) for k, most in ((1, 1.0), (2, 1.48), (3, 3.7))]
    return np.asarray(
        THIRD * c_a**3
        + 3.0 * c_a**2 * c * at[0]
        + 3.0 * c_a * c**2 * (at[0] + at[1])
        + c**3 * (np.minimum(s, m) + 3.0 * at[1] + at[2])
    )
