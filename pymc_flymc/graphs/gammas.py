"""Log gamma functions in elementary functions, with derivatives that stay short.

Stirling's series at x + 8 needs no polygamma functions, which numba does not know. PyTensor's own
derivatives of the products that lead there would have a term for each pair of factors, and take
minutes to compile: the first derivative is written out, as a sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from scipy.special import gammaln

__all__ = ["log_gamma_of_more", "log_rising"]

# Stirling's series: log Gamma(a) = (a - 1/2) log a - a + const + sum_k STIRLING[k] / a^(2k + 1).
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
SHIFT = 8


def log_rising(alpha: Any, y: Any) -> Any:
    """Graph of ``log Gamma(alpha + y) - log Gamma(alpha)``, of arguments of one shape.

    A difference of series at alpha + 8, so that nothing is lost for large alpha.
    """

    def value(alpha: Any, y: Any) -> Any:
        a = alpha + SHIFT
        b = a + y
        ratio: Any = 1.0
        for j in range(SHIFT):
            ratio = ratio * ((alpha + y + j) / (alpha + j))
        main = y * pt.log(a) + (b - 0.5) * pt.log1p(y / a) - y
        return main + _series(b) - _series(a) - pt.log(ratio)

    def slopes(alpha: Any, y: Any) -> list[Any]:
        a, whole = alpha + SHIFT, alpha + y
        b = a + y
        steps = sum(1.0 / (alpha + j) - 1.0 / (whole + j) for j in range(SHIFT))
        return [pt.log1p(y / a) + _slope(b) - _slope(a) + steps, _digamma(whole)]

    return _with_slopes(value, slopes, alpha, y)


def log_gamma_of_more(x: Any) -> Any:
    """Graph of ``log Gamma(1 + x)``, x >= 0."""

    def value(x: Any) -> Any:
        b = x + SHIFT
        product: Any = 1.0
        for j in range(1, SHIFT):
            product = product * (1.0 + x / j)
        start = 0.5 * np.log(2.0 * np.pi) - gammaln(float(SHIFT))
        return (b - 0.5) * pt.log(b) - b + _series(b) + start - pt.log(product)

    return _with_slopes(value, lambda x: [_digamma(x, 1)], x)


def _digamma(x: Any, first: int = 0) -> Any:
    """Graph of the derivative of ``log Gamma(x + first)``."""
    steps = sum(1.0 / (x + j) for j in range(first, SHIFT))
    return pt.log(x + SHIFT) + _slope(x + SHIFT) - steps


def _series(b: Any) -> Any:
    """Graph of the series at b."""
    total: Any = 0.0
    for c in reversed(STIRLING):
        total = total / pt.sqr(b) + c
    return total / b


def _slope(b: Any) -> Any:
    """Graph of the derivative of ``-log(b) / 2`` and of the series."""
    total: Any = 0.0
    for k, c in reversed(list(enumerate(STIRLING))):
        total = total / pt.sqr(b) - (2 * k + 1) * c
    return total / pt.sqr(b) - 0.5 / b


def _with_slopes(value: Callable[..., Any], slopes: Callable[..., list[Any]], *inputs: Any) -> Any:
    """Graph of a function of these inputs, element by element, whose derivatives are known."""
    variables = [pt.as_tensor(each) for each in inputs]
    inner = [each.type() for each in variables]

    def pullback(inputs: Any, outputs: Any, gradients: Any) -> list[Any]:
        parts = [gradients[0] * slope for slope in slopes(*inputs)]
        return [_summed(part, each) for part, each in zip(parts, inputs, strict=True)]

    return OpFromGraph(inner, [value(*inner)], pullback=pullback, inline=True)(*variables)


def _summed(gradient: Any, each: Any) -> Any:
    """Graph of a gradient's sum over the axes along which a variable was repeated."""
    if each.ndim == 0:
        return pt.sum(gradient)
    pairs = zip(each.type.broadcastable, gradient.type.broadcastable, strict=True)
    axes = [i for i, (one, repeated) in enumerate(pairs) if one and not repeated]
    return pt.sum(gradient, axis=axes, keepdims=True) if axes else gradient
