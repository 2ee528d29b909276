"""The log gamma function in elementary functions, with derivatives that stay short.

Numba does not know polygamma functions. PyTensor's own derivatives of the product that leads to
Stirling's series would have a term for each pair of factors, and take a minute to compile: the
first derivative is written out, as a sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from scipy.special import gammaln

from pymc_flymc.graphs.rising import SERIES

__all__ = ["log_gamma_of_more"]

#: Stirling's series is taken so far on.
SHIFT = 8


def log_gamma_of_more(x: Any) -> Any:
    """Graph of ``log Gamma(1 + x)``, x >= 0."""

    def pullback(inputs: Any, outputs: Any, gradients: Any) -> list[Any]:
        return [gradients[0] * _digamma(inputs[0])]

    inner = x.type()
    return OpFromGraph([inner], [_log_gamma(inner)], pullback=pullback, inline=True)(x)


def _log_gamma(x: Any) -> Any:
    b, product = x + SHIFT, 1.0
    for j in range(1, SHIFT):
        product = product * (1.0 + x / j)
    start = 0.5 * np.log(2.0 * np.pi) - gammaln(float(SHIFT))
    series: Any = 0.0
    for c in reversed(SERIES[0]):
        series = series / pt.sqr(b) + c
    return (b - 0.5) * pt.log(b) - b + series / b + start - pt.log(product)


def _digamma(x: Any) -> Any:
    b = x + SHIFT
    series: Any = 0.0
    for c in reversed(SERIES[1]):
        series = series / pt.sqr(b) - c
    steps = sum(1.0 / (x + j) for j in range(1, SHIFT))
    return pt.log(b) - 0.5 / b + series / pt.sqr(b) - steps
