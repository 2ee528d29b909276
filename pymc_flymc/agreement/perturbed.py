"""Graphs evaluated as they are, and with rounding errors drawn at random.

Monte Carlo arithmetic (Parker 1997) estimates how many digits of a value are right. The result of
each operation is multiplied by ``1 + u``, where u is drawn from one to two units of rounding, up or
down. If a graph cancels digits, as ``log(1 - p)`` for p near one, its value changes by about its
error.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import optdb
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.replace import graph_replace
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.graph.traversal import graph_inputs
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor
from scipy.sparse import issparse

from pymc_flymc.agreement.of_arrays import of_arrays
from pymc_flymc.agreement.values import Rounded
from pymc_flymc.compat.pymc import CHECKS
from pymc_flymc.compat.pytensor import rewrites
from pymc_flymc.graphs.compilation import FLATTENING
from pymc_flymc.graphs.memoise import memoised
from pymc_flymc.graphs.simplifying import SPLIT
from pymc_flymc.graphs.tools import PLAIN_PYTHON, fold_constants

#: Rounding error that a value is allowed, in units of the largest change in the draws.
ALLOWED = 32.0
#: A single-precision number with more significant bits than these counts as rounded.
SHORT_BITS = 12
#: The rewrites of PyMC's own functions: where PyTensor has such a rewrite, logarithms of
#: probabilities are written without cancellation.
_REWRITES = RewriteDatabaseQuery(
    include=rewrites("canonicalize", "stabilize", "inline_ofg_expansion", CHECKS),
    exclude=FLATTENING,
)
_EXACT = (DimShuffle, Alloc, Reshape, SpecifyShape, Subtensor, AdvancedSubtensor)


def rounded(
    x: np.ndarray, rng: np.random.Generator, dtype: str = "float64", is_data: bool = True
) -> np.ndarray:
    """Return numbers with random errors, in units of rounding of a type."""
    # In data whole numbers are exact: counts are, and a computed probability of one is not.
    # Between one and two units, up or down: a smaller error would be rounded away.
    errors = rng.uniform(-1.0, 1.0, x.shape)
    errors += np.copysign(1.0, errors)
    limits = np.finfo(dtype)
    # Subnormal numbers are whole multiples of the smallest, whatever their size.
    sizes = np.maximum(limits.eps * np.abs(x), limits.smallest_subnormal * (x != 0.0))
    # Infinity is exact, as log(0) of an impossible component: rounding never makes it finite.
    exact = np.trunc(x) == x if is_data else np.isinf(x)
    return np.asarray(x + np.where(exact, 0.0, sizes) * errors, x.dtype)


class Rounding(Op):
    """Multiply by one plus a rounding error, which depends on the seed; seed 0 means no error."""

    __props__ = ("number", "dtype", "is_data")

    def __init__(self, number: int, dtype: str, is_data: bool) -> None:
        self.number, self.dtype, self.is_data = number, dtype, is_data

    def make_node(self, *inputs: Any) -> Apply:
        """Return a node with a result like its first argument; the second argument is a seed."""
        x, seed = inputs
        return Apply(self, [x, seed], [x.type()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        """Write the product; in a sparse matrix only stored elements change, as zeros are exact."""
        x, seed = inputs
        if seed:
            rng = np.random.default_rng([int(seed), self.number])
            data = rounded(x.data if issparse(x) else x, rng, self.dtype, self.is_data)
            if issparse(x):
                x = x.copy()
                x.data = data
            else:
                x = data
        output_storage[0][0] = x


class RoundedFunction:
    """A function of arrays, with the rounding errors of its results."""

    def __init__(self, inputs: Sequence[Variable], outputs: Sequence[Any]) -> None:
        # Constants of single precision become arguments, so that they are not folded into others.
        outputs = [fold_constants(v) for v in outputs]
        short = [v for v in graph_inputs(list(outputs)) if _was_cut(v)]
        replaced: dict[Any, Any] = {v: v.type() for v in dict.fromkeys(short)}
        if replaced:
            outputs = graph_replace(list(outputs), replaced, strict=False)
        graph = FunctionGraph([*inputs, *replaced.values()], list(outputs), clone=True)
        optdb.query(_REWRITES).rewrite(graph)
        SPLIT.rewrite(graph)
        self._cut = [np.asarray(v.data) for v in replaced]
        seed = pt.lscalar("seed")
        memo: dict[Variable, Any] = {}

        def with_errors(v: Any, is_data: bool, dtype: str = "") -> Any:
            return Rounding(len(memo), dtype or v.type.dtype, is_data)(v, seed)

        for i, v in enumerate(graph.inputs):
            cut = "float32" if i >= len(inputs) else ""
            memo[v] = with_errors(v, True, cut) if _is_float(v) else v
        for node in graph.toposort():
            # Comparisons of given numbers are exact, so that a censored value equals its limit.
            as_given = _is_comparison(node) and all(map(_is_given, node.inputs))
            known = list(node.inputs) if as_given else [memo.get(v, v) for v in node.inputs]
            new = of_arrays(node).clone_with_new_inputs(known, strict=False)
            for old, v in zip(node.outputs, new.outputs, strict=True):
                memo[old] = with_errors(v, False) if _is_float(v) and not _is_exact(node) else v
        self._function = pytensor.function(
            [*graph.inputs, seed],
            [memo.get(v, v) for v in graph.outputs],
            mode=PLAIN_PYTHON,
            on_unused_input="ignore",
        )

    def __call__(self, *arguments: Any, draws: int) -> list[Rounded] | None:
        """Return results and their rounding errors, or None if the graph raises an error."""
        # An error is infinite if a result with other rounding errors is not finite, unless the
        # result is the same.
        with np.errstate(all="ignore"):
            try:
                exact, *others = (
                    self._function(*arguments, *self._cut, seed) for seed in range(draws + 1)
                )
            except Exception:  # a model that raises any exception has no density there
                return None
            return [
                (np.asarray(value), _errors(value, [other[i] for other in others]))
                for i, value in enumerate(exact)
            ]


def _errors(value: np.ndarray, others: Sequence[np.ndarray]) -> np.ndarray:
    error = np.zeros(np.shape(value))
    for other in others:
        moved = np.where(other == value, 0.0, np.abs(np.subtract(other, value, dtype=np.float64)))
        error = np.maximum(error, ALLOWED * moved)
    return np.where(np.isnan(error), np.inf, error)


def rounded_function(inputs: Sequence[Variable], outputs: Sequence[Variable]) -> RoundedFunction:
    """Return a function of a graph, memoised for equal graphs."""
    return memoised(RoundedFunction, inputs, outputs, inputs=inputs, outputs=outputs)


def _is_float(v: Any) -> bool:
    return getattr(v.type, "dtype", "")[:5] == "float" and hasattr(v.type, "broadcastable")


def _is_exact(node: Apply) -> bool:
    if isinstance(node.op, Elemwise):
        operation = node.op.scalar_op
        if isinstance(operation, ps.Cast):
            return not _is_float(node.inputs[0])
        return isinstance(operation, ps.Switch | ps.Neg | ps.Abs | ps.Second)
    return isinstance(node.op, _EXACT)


def _is_comparison(node: Apply) -> bool:
    return isinstance(node.op, Elemwise) and node.outputs[0].type.dtype == "bool"


def _is_given(v: Any) -> bool:
    """Return whether numbers are constants or arguments, not results of computations."""
    while v.owner is not None and isinstance(v.owner.op, _EXACT):
        v = v.owner.inputs[0]
    return v.owner is None


def _was_cut(v: Any) -> bool:
    """Return whether a constant, or its reciprocal, was rounded to single precision."""
    # pm.math.invprobit divides by such a square root of two, and PyTensor multiplies instead.
    if not isinstance(v, Constant) or not _is_float(v) or np.size(v.data) != 1:
        return False
    number = float(np.ravel(v.data)[0])
    if number == 0.0 or not np.isfinite(number):
        return False
    return _is_long(number) or _is_long(1.0 / number)


def _is_long(number: float) -> bool:
    with np.errstate(over="ignore"):  # then it is infinite, unlike the number
        single = float(np.float32(number))
    if abs(single - number) > np.finfo(np.float64).eps * abs(number):
        return False
    return bool((np.frexp(single)[0] * 2.0**SHORT_BITS) % 1.0)
