"""Truncated power series in extended precision: exact derivatives to compare with."""

import math

import numpy as np

__all__ = ["Series"]

#: Terms: derivatives up to the fourth.
TERMS = 5


class Series:
    """Coefficients of a power series in t, shape (TERMS, n), for n points."""

    def __init__(self, coefficients):
        self.c = np.asarray(coefficients, np.longdouble)

    @classmethod
    def line(cls, start, slope=1.0):
        """Return ``start + slope * t``."""
        start, slope = np.broadcast_arrays(np.asarray(start, np.longdouble), slope)
        return cls([start, slope, *[np.zeros(start.shape)] * (TERMS - 2)])

    def derivative(self, order):
        """Return a derivative at t = 0, shape (n,)."""
        return self.c[order] * math.factorial(order)

    def __add__(self, other):
        if isinstance(other, Series):
            return Series(self.c + other.c)
        return Series([self.c[0] + other, *self.c[1:]])

    def __mul__(self, other):
        if not isinstance(other, Series):
            return Series(self.c * other)
        return Series([sum(self.c[i] * other.c[k - i] for i in range(k + 1)) for k in range(TERMS)])

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self):
        return self * -1.0

    def __sub__(self, other):
        return self + -other

    def exp(self):
        out = [np.exp(self.c[0])]
        for k in range(1, TERMS):
            out.append(sum(i * self.c[i] * out[k - i] for i in range(1, k + 1)) / k)
        return Series(out)

    def log(self):
        out = [np.log(self.c[0])]
        for k in range(1, TERMS):
            known = sum(i * out[i] * self.c[k - i] for i in range(1, k))
            out.append((self.c[k] - known / k) / self.c[0])
        return Series(out)

    def power(self, p):
        out = [self.c[0] ** np.longdouble(p)]
        for k in range(1, TERMS):
            terms = ((p * i - (k - i)) * self.c[i] * out[k - i] for i in range(1, k + 1))
            out.append(sum(terms) / (k * self.c[0]))
        return Series(out)

    def cos(self):
        return self._turned(0.0)

    def sin(self):
        return self._turned(0.5 * np.pi)

    def _turned(self, angle):
        one, other = [np.cos(self.c[0] - angle)], [np.sin(self.c[0] - angle)]
        for k in range(1, TERMS):
            one.append(-sum(i * self.c[i] * other[k - i] for i in range(1, k + 1)) / k)
            other.append(sum(i * self.c[i] * one[k - i] for i in range(1, k + 1)) / k)
        return Series(one)
