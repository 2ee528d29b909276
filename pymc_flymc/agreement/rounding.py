"""Evaluates graphs with random rounding errors, and finds where two densities disagree."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.scalar import basic as ps
from pytensor.scalar.math import log1mexp as scalar_log1mexp
from pytensor.scalar.math import softplus as scalar_softplus
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor
from pytensor.tensor.type import TensorType
from scipy.special import gammaln

from pymc_flymc.compat.pymc import REPLACE_CHECKS
from pymc_flymc.graphs.gammas import FIRST, FIRST_ORDER, LogGamma, LogRisingOfExp, series_in_python
from pymc_flymc.graphs.memoise import memoised
from pymc_flymc.graphs.plain import Cell
from pymc_flymc.graphs.tools import copy_graphs, freeze, plain_function
from pymc_flymc.order import first_largest
from pymc_flymc.reporting import log


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


#: Rounding error that a value is allowed, in units of the largest change in so many draws.
ALLOWED, DRAWS = 32.0, 8
_EXACT = (DimShuffle, Alloc, Reshape, SpecifyShape, Subtensor, AdvancedSubtensor)


def rounded(x: np.ndarray, rng: np.random.Generator, is_data: bool = True) -> np.ndarray:
    """Return numbers with random errors; whole ones are exact in data, not as results."""
    # Between one and two units, up or down: a smaller error would be rounded away.
    errors = rng.uniform(-1.0, 1.0, x.shape)
    errors += np.copysign(1.0, errors)
    limits = np.finfo(x.dtype)
    # Subnormal numbers are whole multiples of the smallest, whatever their size.
    sizes = np.maximum(limits.eps * np.abs(x), limits.smallest_subnormal * (x != 0.0))
    # Infinity is exact, as log(0) of a component that is impossible: no rounding makes it a number.
    exact = np.trunc(x) == x if is_data else np.isinf(x)
    return np.asarray(x + np.where(exact, 0.0, sizes) * errors, x.dtype)


class RoundedFunction:
    """A function of arrays, as it is (seed 0), or with rounding errors of its operations."""

    def __init__(self, inputs: Sequence[Variable], outputs: Sequence[Any]) -> None:
        outputs = copy_graphs([freeze(v, {}) for v in outputs], of_arrays, _in_double)
        graph = FunctionGraph(list(inputs), list(outputs), clone=True)
        REPLACE_CHECKS.rewrite(graph)
        self._graph, self._rng = (graph.inputs, graph.outputs), np.random.default_rng()

    @cached_property
    def _plain(self) -> Any:
        return plain_function(*self._graph)

    @cached_property
    def _rounded(self) -> Any:
        return plain_function(*self._graph, after=self._round)

    def _round(self, node: Apply, results: list[Cell]) -> None:
        for cell in results:
            if _is_float(cell[0]) and not _is_exact(node):
                cell[0] = rounded(cell[0], self._rng, is_data=False)

    def __call__(self, *arguments: Any, seed: int = 0) -> list[np.ndarray] | None:
        """Return the results; None where the graph raises an exception: there is no density."""
        function = self._rounded if seed else self._plain
        if seed:
            self._rng = np.random.default_rng(seed)
            arguments = tuple(rounded(v, self._rng) if _is_float(v) else v for v in arguments)
        with np.errstate(all="ignore"):
            try:
                return [np.asarray(value) for value in function(*arguments)]
            except Exception:
                return None


class Values(NamedTuple):
    """Numbers at T points with their rounding errors, shape (T, m); an unknown one is NaN."""

    values: np.ndarray
    errors: np.ndarray

    @classmethod
    def of(cls, evaluate: Callable[[int], np.ndarray], draws: int) -> "Values":
        """Evaluate once without errors, and with some draws of them."""
        value = evaluate(0)
        return cls(value, largest_change(value, map(evaluate, range(1, draws + 1))))


def largest_change(value: np.ndarray, others: Any) -> np.ndarray:
    """Return the rounding errors that other evaluations show; infinite where one is not finite."""
    error = np.zeros(np.shape(value))
    for other in others:
        with np.errstate(invalid="ignore"):
            moved = np.where(other == value, 0.0, np.abs(np.subtract(other, value)))
        error = np.maximum(error, ALLOWED * moved)
    return np.where(np.isnan(error), np.inf, error)


def rounded_function(inputs: Sequence[Variable], outputs: Sequence[Variable]) -> RoundedFunction:
    """Return a function of a graph, memoised for equal graphs."""
    return memoised(RoundedFunction, inputs, outputs, inputs=inputs, outputs=outputs)


def _in_double(v: Any) -> Any:
    """Numbers such as 2.0 are of single precision to PyTensor, and their square roots rounded."""
    if getattr(v.type, "dtype", "") != "float32" or not isinstance(v.type, TensorType):
        return v
    return pt.constant(v.data.astype("float64")) if isinstance(v, Constant) else v.astype("float64")


def _is_float(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def _is_exact(node: Apply) -> bool:
    if isinstance(node.op, Elemwise):
        operation = node.op.scalar_op
        if isinstance(operation, ps.Cast):
            return node.inputs[0].type.dtype[:5] != "float"
        return isinstance(operation, ps.Switch | ps.Neg | ps.Abs | ps.Second)
    return isinstance(node.op, _EXACT)


#: A difference is looked at more closely, relative to both values, where it is larger than this.
TOLERANCE = 1e-10
#: The log-likelihood of a row below which a probability may be rounded to zero.
UNDERFLOW = -500.0


def disagreement(own: Values, expected: Values) -> tuple[int, int, int] | None:
    """Return where changes of two log densities differ: a point, another point, and a row.

    The densities may differ by a constant for each row.
    """
    known = np.isfinite(own.values) & np.isfinite(expected.values)
    errors = own.errors + expected.errors
    with np.errstate(invalid="ignore"):
        errors = errors + TOLERANCE * (1.0 + np.abs(own.values) + np.abs(expected.values))
        difference = np.where(known, own.values - expected.values, 0.0)
    errors = np.where(known, errors, np.inf)
    base, columns = np.argmin(errors, axis=0), np.arange(errors.shape[1])
    with np.errstate(invalid="ignore"):
        excess = np.abs(difference - difference[base, columns]) / (errors + errors[base, columns])
    excess = np.nan_to_num(excess)  # of infinite errors
    # Values that are impossible under one density, and not under the other.
    for a, b in ((own, expected), (expected, own)):
        impossible = np.isneginf(a.values) & (a.errors == 0.0) & (b.values > UNDERFLOW)
        excess = np.where(impossible & np.isfinite(b.errors), np.inf, excess)
    if not excess.size or excess.max() <= 1.0:
        return None
    t, i = np.unravel_index(first_largest(excess), excess.shape)
    return int(t), int(base[i]), int(i)


def confirmed_disagreement(
    evaluate: Callable[[int], tuple[Values, Values]], failure: str
) -> tuple[Values, Values, tuple[int, int, int]] | None:
    """Return both log densities and where they disagree, if rounding errors confirm it.

    `evaluate` returns both for a number of draws of rounding errors; `failure` says in the log that
    there are no two points at which both are known, of all or of some rows.
    """
    own, expected = evaluate(0)
    found = disagreement(own, expected)
    if found is not None:
        own, expected = evaluate(DRAWS)
        found = disagreement(own, expected)
    if found is not None:
        return own, expected, found
    finite = np.isfinite(own.values) & np.isfinite(expected.values)
    compared = (finite | (own.values == expected.values)) & np.isfinite(
        own.errors + expected.errors
    )
    unknown, m = int((compared.sum(axis=0) < 2).sum()), compared.shape[1]
    if unknown:
        where = "" if unknown == m else f" in {unknown:,} of {m:,} rows"
        log.warning(f"{failure}: there are no two points at which both can be evaluated{where}")
    return None
