"""Log gamma functions and log rising factorials with their derivatives, also as native code.

Numba has no polygamma functions: it would call Python for each element, and such code is compiled
in each process. As elementary graphs, second derivatives would take a minute to compile.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from pytensor.gradient import grad_not_implemented, grad_undefined
from pytensor.graph.basic import Apply
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.scalar.basic import ScalarOp, upgrade_to_float_no_complex
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.compat.pytensor import register_scalar_funcify, scalar_op_cache_key
from pymc_flymc.kernels.native import version_of

#: This many factors of a rising factorial are computed one by one.
FIRST = 12
#: If log(x / k) is larger, a rising factorial of k factors is computed to first order in k / x,
#: which is below 1e-8 then.
FIRST_ORDER = 18.5
#: The recurrence of log gamma ends here.
STIRLING_FROM = 14.0
#: Stirling's series: log Gamma(b) = (b - 1/2) log b - b + const + sum_i SERIES[0][i] / b^(2i + 1);
#: then its derivatives, up to sign (DLMF 5.11.1, 5.15.8). At `FIRST` the first term left out
#: is 1e-15 of them, at `STIRLING_FROM` 1e-16.
SERIES = (
    (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360),
    (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760),
    (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730),
    (1 / 2, -1 / 6, 1 / 6, -3 / 10, 5 / 6, -691 / 210),
)
HALF_LOG_TWO_PI = 0.5 * np.log(2.0 * np.pi)


class _Derivative(ScalarOp):
    """Derivative of some order of a function in its first argument; it has no others."""

    last: int  #: The highest order.
    #: From an order and a compiler of functions to the function.
    evaluator: Callable[[int, Callable[..., Any]], Callable[..., float]]

    def __init__(self, order: int) -> None:
        name = f"{type(self).__name__}_{order}"
        super().__init__(upgrade_to_float_no_complex, name=name)
        self.order = order

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.order == getattr(other, "order", None)

    def __hash__(self) -> int:
        return hash((type(self), self.order))

    def impl(self, *arguments: float) -> float:
        """Evaluate in Python."""
        with np.errstate(over="ignore"):
            return float(type(self).evaluator(self.order, _in_python)(*map(np.float64, arguments)))

    def c_code(self, *_: Any) -> str:
        """Raise an error, as there is no C code: without numba, `impl` is called."""
        raise NotImplementedError

    def pullback(self, inputs: Any, outputs: Any, output_gradients: Any) -> list[Any]:
        """Return the graphs of the gradients."""
        if self.order == self.last:
            first = grad_not_implemented(self, 0, inputs[0])
        else:
            first = output_gradients[0] * type(self)(self.order + 1)(*inputs)
        others = enumerate(inputs[1:], start=1)
        return [first, *(grad_undefined(self, i, v) for i, v in others)]


@functools.cache
def _log_gamma(order: int, compiled: Callable[..., Any]) -> Callable[[float], float]:
    """Return a derivative of log Gamma(x), for Python, or as `compiled` makes it."""
    series = _series(compiled)

    @compiled
    def evaluate(x: Any) -> Any:
        if x <= 0.0:  # a shape that has underflowed
            return -np.inf if order % 2 else np.inf
        product, total = 1.0, 0.0
        while x < STIRLING_FROM:
            if order == 0:
                product *= x
            elif order == 1:
                total -= 1.0 / x
            else:  # in Python a quotient would raise an error for a power that is zero
                total += x**-2.0 if order == 2 else -2.0 * x**-3.0
            x += 1.0
        t = 1.0 / x
        if order == 0:
            return (x - 0.5) * np.log(x) - x + HALF_LOG_TWO_PI + series(t, 0) - np.log(product)
        if order == 1:
            return total + np.log(x) - 0.5 * t - series(t, 1)
        if order == 2:
            return total + t + 0.5 * t * t + series(t, 2)
        return total - t * t - t * t * t - series(t, 3)

    return evaluate  # type: ignore[no-any-return]


@functools.cache
def _log_rising(order: int, compiled: Callable[..., Any]) -> Callable[[float, float], float]:
    """Return a derivative of the log rising factorial, for Python, or as `compiled` makes it."""
    series = _series(compiled)

    @compiled
    def evaluate(a: Any, k: Any) -> Any:
        if k < 1.0:
            return 0.0
        if a > np.log(k) + FIRST_ORDER:
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
        # What is left is log Gamma(end) - log Gamma(start), as differences that lose no digits.
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


@functools.cache
def _series(compiled: Callable[..., Any]) -> Callable[[float, int], float]:
    """Return Stirling's series of 1 / t, or one of its derivatives."""

    @compiled
    def series(t: Any, i: Any) -> Any:
        total = 0.0
        for j in range(6):
            total = total * t * t + SERIES[i][5 - j]
        return total * t ** (i + 1)

    return series  # type: ignore[no-any-return]


def _in_python(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


#: Stirling's series of 1 / t, of numbers or of arrays.
series_in_python = _series(_in_python)


def _native(function: Callable[..., Any]) -> Callable[..., Any]:
    # Terms that cancel must not be reassociated.
    return numba_njit(function, fastmath=False)


class LogGamma(_Derivative):
    """Derivative of some order, at most three, of ``log Gamma(x)``, x > 0."""

    nin, last, evaluator = 1, 3, staticmethod(_log_gamma)


class LogRisingOfExp(_Derivative):
    """Derivative of some order, at most three, of ``sum_{j < k} log(e^a + j)`` in a."""

    nin, last, evaluator = 2, 3, staticmethod(_log_rising)


def log_gamma(x: TensorVariable) -> Any:
    """Return the graph of ``log Gamma(x)``, x > 0."""
    return Elemwise(LogGamma(0))(x)


def log_rising_of_exp(a: TensorVariable, k: TensorVariable) -> Any:
    """Return the graph of ``log(x (x + 1) ... (x + k - 1))`` for ``x = e^a`` and whole k >= 0."""
    return Elemwise(LogRisingOfExp(0))(a, k)


@register_scalar_funcify(LogGamma)
@register_scalar_funcify(LogRisingOfExp)
def _funcify(op: _Derivative, node: Apply, **_: Any) -> tuple[Any, str]:
    key = scalar_op_cache_key(op, order=op.order, version=version_of(__file__))
    return type(op).evaluator(op.order, _native), key
