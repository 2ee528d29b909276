"""Values of parts of a log-likelihood in an interval, with bounds on their derivatives.

The derivatives are along any direction whose elements are at most given spreads. The bound of a sum
is the sum of its terms' bounds; products follow Leibniz's rule, and functions of a part Faà di
Bruno's formula (the method of majorants). The bounds are on absolute values, so if terms cancel
they are too large, though still valid. Functions with such terms have their own bounds.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

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
