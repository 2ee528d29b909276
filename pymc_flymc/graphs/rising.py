"""Logarithms of rising factorials with their derivatives, as an op of scalars.

In elementary functions, as graphs, the second derivatives would take a minute to compile.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from pytensor.gradient import grad_not_implemented, grad_undefined
from pytensor.graph.basic import Apply
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.link.numba.dispatch.scalar import register_scalar_funcify, scalar_op_cache_key
from pytensor.scalar.basic import BinaryScalarOp, upgrade_to_float_no_complex
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.kernels.caching import version_of

__all__ = ["SERIES", "log_rising_of_exp"]

#: So many factors are taken one by one.
FIRST = 12
#: Stirling's series: log Gamma(b) = (b - 1/2) log b - b + const + sum_i SERIES[0][i] / b^(2i + 1);
#: then its derivatives, but for the sign. At `FIRST` the first term left out is 1e-15 of them.
SERIES = (
    (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360),
    (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760),
    (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730),
    (1 / 2, -1 / 6, 1 / 6, -3 / 10, 5 / 6, -691 / 210),
)


class LogRisingOfExp(BinaryScalarOp):
    """Derivative of some order, at most three, of ``sum_{j < k} log(e^a + j)`` in a."""

    def __init__(self, order: int) -> None:
        super().__init__(upgrade_to_float_no_complex, name=f"log_rising_of_exp_{order}")
        self.order = order

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.order == getattr(other, "order", None)

    def __hash__(self) -> int:
        return hash((type(self), self.order))

    def impl(self, a: float, k: float) -> float:  # type: ignore[override]
        """Evaluate in Python."""
        return float(_evaluator(self.order, _in_python)(a, k))

    def c_code(self, *_: Any) -> str:
        """Say that there is none: without numba, `impl` is called."""
        raise NotImplementedError

    def pullback(self, inputs: Any, outputs: Any, output_gradients: Any) -> list[Any]:
        """Graphs of gradients: a number of factors has none."""
        a, k = inputs
        if self.order == 3:
            return [grad_not_implemented(self, 0, a), grad_undefined(self, 1, k)]
        slope = LogRisingOfExp(self.order + 1)(a, k)
        return [output_gradients[0] * slope, grad_undefined(self, 1, k)]


def log_rising_of_exp(a: TensorVariable, k: TensorVariable) -> Any:
    """Graph of ``log(x (x + 1) ... (x + k - 1))`` for ``x = e^a``, and whole k from zero on."""
    return Elemwise(LogRisingOfExp(0))(a, k)


@functools.cache
def _evaluator(order: int, compiled: Callable[..., Any]) -> Callable[[float, float], float]:
    """Return the function of a and k, for Python, or as `compiled` makes it."""

    @compiled
    def series(t: Any, i: Any) -> Any:
        total = 0.0
        for j in range(6):
            total = total * t * t + SERIES[i][5 - j]
        return total * t ** (i + 1)

    @compiled
    def evaluate(a: Any, k: Any) -> Any:
        if k < 1.0:
            return 0.0
        if a > np.log(k) + 18.5:  # to first order in k / x, which is below 1e-8
            rest = 0.5 * k * (k - 1.0) * np.exp(-a)
            if order == 0:
                return k * a + rest
            return k - rest if order == 1 else (rest if order == 2 else -rest)
        x = np.exp(a)
        n = min(k, FIRST)
        product, total = 1.0, 1.0 if order == 1 else 0.0
        for j in range(1, int(n)):
            product *= x + j
            p, q = x / (x + j), j / (x + j)
            total += p if order == 1 else (p * q if order == 2 else p * q * (q - p))
        if order == 0:
            total = a + np.log(product)
        if k <= n:
            return total
        # What is left is log Gamma(end) - log Gamma(start): as differences that lose no digits.
        more, start, end = k - n, x + n, x + k
        u, v = 1.0 / start, 1.0 / end
        log_ratio = np.log1p(more * u)
        if order == 0:
            main = more * np.log(start) + (end - 0.5) * log_ratio - more
            return total + main + series(v, 0) - series(u, 0)
        difference = -more * u * v
        slope = log_ratio - 0.5 * difference - series(v, 1) + series(u, 1)
        if order == 1:
            return total + x * slope
        second = difference * (1.0 + 0.5 * (u + v)) + series(v, 2) - series(u, 2)
        if order == 2:
            return total + x * slope + x**2 * second
        third = -difference * (u + v + u * u + u * v + v * v) - series(v, 3) + series(u, 3)
        return total + x * slope + 3.0 * x**2 * second + x**3 * third

    return evaluate  # type: ignore[no-any-return]


def _in_python(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def _native(function: Callable[..., Any]) -> Callable[..., Any]:
    # What cancels must not be reassociated.
    return numba_njit(function, fastmath=False)


@register_scalar_funcify(LogRisingOfExp)
def _funcify(op: LogRisingOfExp, node: Apply, **_: Any) -> tuple[Any, str]:
    key = scalar_op_cache_key(op, order=op.order, version=version_of(__file__))
    return _evaluator(op.order, _native), key
