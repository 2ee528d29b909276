"""Values of parts of a log-likelihood in an interval, with bounds on their derivatives."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.scalar import basic as ps
from pytensor.scalar.math import Sigmoid, Softplus
from pytensor.tensor.variable import TensorVariable
from scipy.special import erfcx, expit, log_ndtr

from pymc_flymc.graphs.gammas import log_rising_of_exp as _rising

#: The first terms of Faà di Bruno's formula, for each order: the derivative of the outer function,
#: how often the term occurs, and the derivatives of the inner function that are its factors.
TERMS: dict[int, list[tuple[int, int, tuple[int, ...]]]] = {
    1: [(1, 1, (1,))],
    2: [(2, 1, (1, 1)), (1, 1, (2,))],
    3: [(3, 1, (1, 1, 1)), (2, 3, (1, 2)), (1, 1, (3,))],
    4: [(4, 1, (1, 1, 1, 1)), (3, 6, (1, 1, 2)), (2, 3, (2, 2)), (2, 4, (1, 3)), (1, 1, (4,))],
}


class Growing:
    """A bound that grows with the distance d from a point: ``size * exp(rate * d)``."""

    __array_ufunc__ = None  # an array times this is this times the array

    def __init__(self, size: Any, rate: float = 0.0) -> None:
        self.size, self.rate = size, rate

    @classmethod
    def of(cls, limit: Any) -> Growing:
        """Return a bound as one that may grow."""
        return limit if isinstance(limit, Growing) else cls(limit)

    def __add__(self, other: Any) -> Growing:
        other = Growing.of(other)
        return Growing(self.size + other.size, max(self.rate, other.rate))

    def __mul__(self, other: Any) -> Growing:
        other = Growing.of(other)
        return Growing(self.size * other.size, self.rate + other.rate)

    __radd__, __rmul__ = __add__, __mul__


@dataclass(frozen=True)
class Function:
    """A function of one number, and bounds on its derivatives."""

    #: From the ends of an interval to the smallest and the largest value in it.
    ends: Callable[..., tuple[Any, Any]]
    #: From an order, one to four, and the ends of an interval to a bound on the absolute value of
    #: that derivative: an array, or 0.0 if the derivative is zero.
    limit: Callable[..., Any]
    #: Whether it grows like the exponential function. Others are bounded, or have no bound.
    exponential: bool = False


class Jet:
    """A part of a graph: its values in an interval, and bounds on its derivatives.

    Both are computed when they are needed: a sum needs no values, and the second and higher
    derivatives of a linear part are zero. `ends` returns the smallest and the largest value,
    numbers or of shape (n,); `derivative` returns the bound of an order from one to four, or 0.0 if
    the derivative is zero. A `fixed` part depends on no predictor. The bounds are `Growing` if they
    hold `anywhere`, at any distance from the values.
    """

    def __init__(
        self,
        ends: Callable[[], tuple[Any, Any]],
        derivative: Callable[[int], Any],
        fixed: bool = False,
        anywhere: bool = False,
    ) -> None:
        self.ends, self.derivative = functools.cache(ends), functools.cache(derivative)
        self.fixed, self.anywhere = fixed, anywhere

    @classmethod
    def data(cls, values: Any) -> Jet:
        """Return a part that depends on no predictor."""
        return cls(lambda: (values, values), lambda order: 0.0, fixed=True)

    @classmethod
    def predictor(cls, low: Any, high: Any, spread: Any, anywhere: bool = False) -> Jet:
        """Return a predictor in an interval, along directions of elements up to `spread`."""
        return cls(lambda: (low, high), lambda i: spread if i == 1 else 0.0, anywhere=anywhere)

    def __neg__(self) -> Jet:
        return self._like(lambda: (-self.ends()[1], -self.ends()[0]), self.derivative)

    def __add__(self, other: Jet) -> Jet:
        def ends() -> tuple[Any, Any]:
            (low, high), (other_low, other_high) = self.ends(), other.ends()
            return outward(low + other_low, high + other_high)

        def derivative(order: int) -> Any:
            found = [limit for each in (self, other) if some(limit := each.derivative(order))]
            return sum(found[1:], found[0]) if found else 0.0

        return self._like(ends, derivative, other)

    def __sub__(self, other: Jet) -> Jet:
        return self + -other

    def __mul__(self, other: Jet) -> Jet:
        def ends() -> tuple[Any, Any]:
            ones, others = (each.ends()[: 1 if each.fixed else 2] for each in (self, other))
            products = [a * b for a in ones for b in others]
            least, most = (
                functools.reduce(np.minimum, products),
                functools.reduce(np.maximum, products),
            )
            return outward(least, most)

        def derivative(order: int) -> Any:
            total: Any = 0.0
            for i in range(order + 1):
                # Zero derivatives are skipped: bounds on values are computed only if needed.
                if i and not some(self.derivative(i)):
                    continue
                if i < order and not some(other.derivative(order - i)):
                    continue
                term = self._size(i) * other._size(order - i) * float(math.comb(order, i))
                total = total + term
            return total

        return self._like(ends, derivative, other)

    def through(self, function: Function) -> Jet:
        """Return a function of this part."""

        def derivative(order: int) -> Any:
            total: Any = 0.0
            for outer, times, orders in TERMS[order]:
                inner = [self.derivative(each) for each in orders]
                if all(map(some, inner)) and some(factor := self._outer(function, outer)):
                    total = total + factor * (math.prod(inner) * float(times))
            return total

        return self._like(lambda: outward(*function.ends(*self.ends())), derivative)

    def where(self, condition: np.ndarray, other: Jet) -> Jet:
        """Return this part where a condition holds, and `other` elsewhere."""

        def ends() -> tuple[Any, Any]:
            low, high = zip(self.ends(), other.ends(), strict=True)
            return np.where(condition, *low), np.where(condition, *high)

        def derivative(order: int) -> Any:
            limits = self.derivative(order), other.derivative(order)
            if all(isinstance(limit, float) for limit in limits):
                return max(limits)  # one number for all rows, as the rate of `Growing` is
            if not any(isinstance(limit, Growing) for limit in limits):
                return np.where(condition, *limits)
            one, two = map(Growing.of, limits)
            return Growing(np.where(condition, one.size, two.size), max(one.rate, two.rate))

        return self._like(ends, derivative, other)

    def _outer(self, function: Function, order: int) -> Any:
        """Return the bound on a derivative of a function at the values of this part."""
        if not self.anywhere:
            return function.limit(order, *self.ends())
        if not function.exponential:
            return function.limit(order, -np.inf, np.inf)
        # At a distance d the part has changed by at most d times its largest slope.
        slope, at = self.derivative(1), self.ends()[1]
        same = not isinstance(slope, Growing) and np.size(slope) == 1
        rate = np.asarray(slope).item() if same else np.inf
        return Growing(function.limit(order, at, at), rate)

    def _size(self, order: int) -> Any:
        """Return the bound on a derivative, or on the values for order zero."""
        if order:
            return self.derivative(order)
        if self.anywhere and not self.fixed:
            return np.inf
        low, high = self.ends()
        return np.maximum(np.abs(low), np.abs(high))

    def _like(
        self,
        ends: Callable[[], tuple[Any, Any]],
        derivative: Callable[[int], Any],
        other: Jet | None = None,
    ) -> Jet:
        anywhere = self.anywhere or (other is not None and other.anywhere)
        return Jet(ends, derivative, anywhere=anywhere)


def some(limit: Any) -> bool:
    """Return whether a derivative may differ from zero anywhere."""
    return not (isinstance(limit, float) and limit == 0.0)


def outward(low: Any, high: Any) -> tuple[Any, Any]:
    """Return an interval widened to the next floating-point numbers, because of rounding."""
    return np.nextafter(low, -np.inf), np.nextafter(high, np.inf)


#: The largest derivatives of log(1 + e^v): the second, and the third.
SECOND, THIRD = 0.25, 1.0 / (6.0 * np.sqrt(3.0))


class Known(NamedTuple):
    """Bounds attached to a part of a graph: a function from the jets of its inputs to its own."""

    limits: Callable[..., Jet]
    inputs: tuple[TensorVariable, ...]


def known(value: Any, limits: Function | Callable[..., Jet], *inputs: TensorVariable) -> Any:
    """Return a part of a graph with its bounds attached: a function of one input, or of jets."""
    if isinstance(limits, Function):
        function = limits
        value.tag.limits = Known(lambda jet: jet.through(function), inputs)
    else:
        value.tag.limits = Known(limits, inputs)
    return value


def known_of(value: TensorVariable) -> Known | None:
    """Return the bounds that are attached to a part of a graph, or None."""
    return getattr(value.tag, "limits", None)


def _increasing(function: Callable[[Any], Any]) -> Callable[..., tuple[Any, Any]]:
    return lambda low, high: (function(low), function(high))


def _nearest(low: Any, high: Any) -> Any:
    """Return the distance of an interval from zero."""
    return np.maximum(np.maximum(low, -high), 0.0)


# --- functions that PyTensor has -----------------------------------------------------------------


def _limit_of_softplus(order: int, low: Any, high: Any) -> Any:
    """Return the largest derivative of ``log(1 + exp(v))`` for v between low and high."""
    # From the second on they depend on abs(v) only, up to sign, and are monotone between their
    # stationary points: the supremum is at an end or at a stationary point inside. With s = p (1 -
    # p) the third is s sqrt(1 - 4 s), with a maximum of 1 / (6 sqrt 3) at s = 1/6; the fourth is s
    # (1 - 6 s), with extrema of -1/8 at s = 1/4 (v = 0) and 1/24 at s = 1/12.
    if order == 1:
        return expit(high)
    near = _nearest(low, high)
    if order == 2:
        return _logistic(2, near)
    far = np.maximum(np.abs(low), np.abs(high))
    largest = np.maximum(_logistic(order, near), _logistic(order, far))
    s = {3: 1 / 6, 4: 1 / 12}[order]
    turn = 2.0 * np.arctanh(np.sqrt(1.0 - 4.0 * s))  # |v| where p (1 - p) = s
    inside = (near <= turn) & (turn <= far)
    return np.where(inside, np.maximum(largest, _logistic(order, turn)), largest)


def _logistic(order: int, v: Any) -> Any:
    """Return the absolute second, third or fourth derivative of ``log(1 + exp(v))``."""
    q = np.exp(-np.abs(v))
    s = q / (1.0 + q) ** 2
    if order == 2:
        return s
    return s * (1.0 - q) / (1.0 + q) if order == 3 else s * np.abs(1.0 - 6.0 * s)


def _limit_of_sigmoid(order: int, low: Any, high: Any) -> Any:
    """Return the bound of softplus, one order further; the fifth, s' (1 - 12 s), is at most 2 s."""
    if order < 4:
        return _limit_of_softplus(order + 1, low, high)
    return 2.0 * _logistic(2, _nearest(low, high))


def _limit_of_log(order: int, low: Any, high: Any) -> Any:
    return math.factorial(order - 1) / np.maximum(low, 0.0) ** order


def _limit_of_cosine(order: int, low: Any, high: Any) -> Any:
    """Return one if a stationary point of the derivative is inside, else the larger end value."""
    shift = 0.5 * np.pi * (order % 2)
    low, high = low - shift, high - shift
    inside = ~(np.ceil(low / np.pi) > np.floor(high / np.pi))
    return np.where(inside, 1.0, np.maximum(np.abs(np.cos(low)), np.abs(np.cos(high))))


def power(p: float) -> Function:
    """Return the function ``v**p``: bounded across zero only if p is whole and positive."""
    whole = p >= 0.0 and p == round(p)

    def ends(low: Any, high: Any) -> tuple[Any, Any]:
        at_ends = low**p, high**p
        across = (low < 0.0) & (high > 0.0)
        least, most = np.minimum(*at_ends), np.maximum(*at_ends)
        if whole:
            return np.where(across, np.minimum(least, 0.0), least), most
        return np.where(across, -np.inf, least), np.where(across, np.inf, most)

    def limit(order: int, low: Any, high: Any) -> Any:
        factor = abs(math.prod(p - i for i in range(order)))
        if factor == 0.0:
            return 0.0
        if p >= order:
            return factor * np.maximum(np.abs(low), np.abs(high)) ** (p - order)
        return factor * _nearest(low, high) ** (p - order)

    return Function(ends, limit)


EXP = Function(_increasing(np.exp), lambda order, low, high: np.exp(high), exponential=True)
SOFTPLUS = Function(_increasing(lambda v: np.logaddexp(0.0, v)), _limit_of_softplus)
RECIPROCAL = power(-1.0)
ELEMENTARY: dict[Any, Function] = {
    ps.Exp: EXP,
    ps.Expm1: Function(_increasing(np.expm1), EXP.limit, exponential=True),
    ps.Log: Function(_increasing(np.log), _limit_of_log),
    ps.Log1p: Function(
        _increasing(np.log1p), lambda order, low, high: _limit_of_log(order, 1.0 + low, 1.0 + high)
    ),
    Softplus: SOFTPLUS,
    Sigmoid: Function(_increasing(expit), _limit_of_sigmoid),
    ps.Cos: Function(lambda low, high: (-1.0, 1.0), _limit_of_cosine),
    ps.Sin: Function(
        lambda low, high: (-1.0, 1.0), lambda k, low, high: _limit_of_cosine(k + 1, low, high)
    ),
    ps.Sqr: power(2.0),
    ps.Sqrt: power(0.5),
    ps.Reciprocal: RECIPROCAL,
}


# --- functions of likelihoods --------------------------------------------------------------------


def log_positive(x: Any) -> Any:
    r"""Return the graph of :math:`\log(1 - \exp(-e^x))`, of a Poisson variable that is not zero."""
    t = pt.exp(pt.clip(x, -10.0, 20.0))
    small = pt.exp(pt.minimum(x, -10.0))
    series = x - 0.5 * small + pt.sqr(small) / 24.0
    return known(pt.switch(x < -10.0, series, pt.log(-pt.expm1(-t))), LOG_POSITIVE, x)


def _limit_of_log_positive(order: int, low: Any, high: Any) -> Any:
    """Return derivative bounds, with ``s = exp(x)``."""
    # The first is at most exp(-s/2); the others are at most s/2 and a multiple of exp(-s/2), and
    # have largest values, here rounded up.
    fall = np.exp(-0.5 * np.exp(low))
    if order == 1:
        return fall
    most, multiple = {2: (0.4126, 1.706), 3: (0.4261, 6.171), 4: (0.6982, 31.62)}[order]
    return np.minimum(np.minimum(0.5 * np.exp(high), most), multiple * fall)


def _log_positive(x: Any) -> Any:
    return np.where(x < -40.0, x, np.log(-np.expm1(-np.exp(np.maximum(x, -40.0)))))


LOG_POSITIVE = Function(_increasing(_log_positive), _limit_of_log_positive)


def log_softplus(psi: Any) -> Any:
    r"""Return the graph of :math:`\log \log(1 + e^\psi)`."""
    near = pt.log(pt.softplus(pt.maximum(psi, -40.0)))
    return known(pt.switch(psi < -40.0, psi, near), LOG_SOFTPLUS, psi)


def _limit_of_log_softplus(order: int, low: Any, high: Any) -> Any:
    """Return derivative bounds: the first derivative decreases from one."""
    # The others are at most exp(psi)/2, with largest values, here rounded up.
    if order == 1:
        slope = np.minimum(1.0, expit(low) / np.maximum(np.logaddexp(0.0, low), 1e-300))
        return np.where(low < -600.0, 1.0, slope)
    return np.minimum({2: 0.1671, 3: 0.0610, 4: 0.0615}[order], 0.5 * np.exp(np.minimum(high, 0.0)))


def _log_softplus(psi: Any) -> Any:
    return np.where(psi < -40.0, psi, np.log(np.logaddexp(0.0, np.maximum(psi, -40.0))))


LOG_SOFTPLUS = Function(_increasing(_log_softplus), _limit_of_log_softplus)


def log_normal_cdf(s: Any) -> Any:
    """Return the graph of the logarithm of the normal distribution function, without underflow."""
    # Both branches stay finite, with their derivatives, where the other one holds.
    left, right = pt.minimum(s, 0.0), pt.maximum(s, -2.0)
    below = pt.log(0.5 * pt.erfcx(-left / np.sqrt(2.0))) - 0.5 * pt.sqr(left)
    value = pt.switch(s < -1.0, below, pt.log1p(-0.5 * pt.erfc(right / np.sqrt(2.0))))
    return known(value, LOG_NORMAL_CDF, s)


def _limit_of_log_normal_cdf(order: int, low: Any, high: Any) -> Any:
    """Return the largest derivatives, rounded up, or for s >= 2 bounds that fall with s."""
    # With r = phi(s)/Phi(s), which decreases, r' = -r (s + r) is between -1 and 0. The third
    # derivative is r ((s + r)(s + 2r) - 1), and the fourth is r' ((s + r)(s + 2r) - 1) + r ((1 +
    # r')(s + 2r) + (s + r)(1 + 2r')). For s >= 2 one has r <= 2 phi(s) < 0.11 and -1/2 < r'.
    if order == 1:
        return np.sqrt(2.0 / np.pi) / erfcx(-low / np.sqrt(2.0))
    s = np.maximum(low, 2.0)
    product = (s + 0.11) * (s + 0.22)
    factor = {2: s + 0.11, 3: product, 4: (s + 0.11) * product + 2.0 * s + 0.33}[order]
    tail = 2.0 * np.exp(-0.5 * s**2) / np.sqrt(2.0 * np.pi) * factor
    most = {2: 1.0, 3: 0.2958, 4: 0.1890}[order]
    return np.where(low < 2.0, most, np.minimum(most, tail))


LOG_NORMAL_CDF = Function(_increasing(log_ndtr), _limit_of_log_normal_cdf)


def log_rising_of_exp(a: Any, k: Any) -> Any:
    """Return the graph of ``log(x (x + 1) ... (x + k - 1))`` for ``x = e^a`` and whole k >= 0."""

    def limits(jet: Jet, number: Jet) -> Jet:
        count = number.ends()[0]

        def limit(order: int, low: Any, high: Any) -> Any:
            return _limit_of_rising(order, low, high, count)

        # Only bounds on its derivatives are ever used, never bounds on its values.
        return jet.through(Function(lambda low, high: (-np.inf, np.inf), limit))

    return known(_rising(a, k), limits, a, k)


def _limit_of_rising(order: int, low: Any, high: Any, k: Any) -> Any:
    r"""Return bounds on the derivatives of :math:`\log(x (x + 1) \dots (x + k - 1))` in log x.

    Its terms have the derivatives :math:`p_j = x / (x + j)` and :math:`p_j (1 - p_j) \le
    \min(p_j, j / x)`; derivatives of higher order are no larger than the latter. Sums are at most
    integrals over j, plus the largest term where terms rise and fall. The first sum increases with
    x, and the second grows no faster than x or 1/x from the middle of the interval.
    """
    more = np.maximum(k - 1.0, 0.0)

    def of_more(x: Any) -> Any:
        """Return a bound on the sum of p_j from j = 1 on."""
        harmonic = (more > 0.0) * (1.0 + np.log(np.maximum(more, 1.0)))
        return np.minimum(x * harmonic, x * np.log1p(more / x))

    if order == 1:
        return np.minimum(k, (k >= 1.0) + of_more(np.exp(np.clip(high, -300.0, 300.0))))
    half = 0.5 * (high - low)
    middle = np.where(half < np.inf, low + half, 0.0)
    x = np.exp(np.clip(middle, -300.0, 300.0))
    t = k / x
    area = x * (np.log1p(t) - t / (1.0 + t))
    second = np.minimum(of_more(x), 0.5 * t * more)
    second = np.minimum(second, SECOND * (more > 0.0) + area)
    most = {2: SECOND, 3: THIRD, 4: 0.125}[order]
    return np.minimum(second * np.exp(np.minimum(half, 700.0)), most * more)
