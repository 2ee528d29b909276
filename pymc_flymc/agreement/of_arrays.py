"""Array versions of functions that PyTensor evaluates in Python number by number.

Checks evaluate the likelihood of all rows. A Python call for each row takes a minute per million.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply
from pytensor.scalar.math import log1mexp as scalar_log1mexp
from pytensor.scalar.math import softplus as scalar_softplus
from pytensor.tensor.elemwise import Elemwise
from scipy.special import gammaln

from pymc_flymc.graphs.gammas import FIRST, FIRST_ORDER, LogGamma, LogRisingOfExp, series_in_python


def softplus(x: np.ndarray) -> np.ndarray:
    """Return log(1 + exp(x)), element by element."""
    return np.logaddexp(0.0, x)


def log1mexp(x: np.ndarray) -> np.ndarray:
    """Return log(1 - exp(x)), element by element."""
    return np.where(x < -np.log(2.0), np.log1p(-np.exp(x)), np.log(-np.expm1(x)))


def log_gamma(x: np.ndarray) -> np.ndarray:
    """Return log Gamma(x), element by element; infinity for a shape that has underflowed."""
    return np.where(x > 0.0, gammaln(x), np.inf)


def log_rising_of_exp(a: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Return the log of x (x + 1) ... (x + k - 1) for x = e^a, as `LogRisingOfExp` does."""
    x, n = np.exp(a), np.minimum(k, FIRST)
    product = np.ones(np.broadcast_shapes(np.shape(a), np.shape(k)))
    for j in range(1, FIRST):
        product *= np.where(j < n, x + j, 1.0)
    start, end, more = x + n, x + k, k - n
    log_ratio = np.log1p(more / start)
    rest = more * np.log(start) + (end - 0.5) * log_ratio - more
    rest = rest + series_in_python(1.0 / end, 0) - series_in_python(1.0 / start, 0)
    total = a + np.log(product) + np.where(more > 0.0, rest, 0.0)
    to_first_order = k * a + 0.5 * k * (k - 1.0) * np.exp(-a)
    far = a > np.log(k) + FIRST_ORDER
    return np.where(k < 1.0, 0.0, np.where(far, to_first_order, total))


#: Names of functions of arrays, by the scalar operations that they replace.
_NAMES: dict[Any, str] = {
    scalar_softplus: "softplus",
    scalar_log1mexp: "log1mexp",
    LogGamma(0): "log_gamma",
    LogRisingOfExp(0): "log_rising_of_exp",
}


def of_arrays(node: Apply, inputs: Sequence[Any]) -> Sequence[Any] | None:
    """Return what evaluates whole arrays in the place of a node, if there is a function for it."""
    operation = getattr(node.op, "scalar_op", None)
    name = _NAMES.get(operation)
    if name is None:
        return None
    return (
        Elemwise(operation, nfunc_spec=(f"{__name__}.{name}", len(inputs), 1))
        .make_node(*inputs)
        .outputs
    )
