"""Graphs evaluated as they are, and with rounding errors drawn at random.

Monte Carlo arithmetic (Parker 1997) tells how many digits of a value are right: the result of each
operation is changed by one to two units of rounding, up or down. Where a graph cancels digits, as
``log(1 - p)`` does for p near one, its value changes by as much as it is wrong.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.link.basic import PerformLinker, WrapLinker
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor
from pytensor.tensor.type import TensorType

from pymc_flymc.agreement.of_arrays import of_arrays
from pymc_flymc.compat.pymc import REPLACE_CHECKS
from pymc_flymc.graphs.memoise import memoised
from pymc_flymc.graphs.simplifying import SPLIT
from pymc_flymc.graphs.tools import copy_graphs, freeze, plain_function

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
        SPLIT.rewrite(graph)
        self._graph, self._rng = (graph.inputs, graph.outputs), np.random.default_rng()

    @cached_property
    def _plain(self) -> Any:
        return plain_function(*self._graph)

    @cached_property
    def _rounded(self) -> Any:
        linker = WrapLinker([PerformLinker()], self._run)
        mode = Mode(linker, None)  # type: ignore[arg-type]
        return pytensor.function(*self._graph, mode=mode, on_unused_input="ignore")

    def _run(self, graph: FunctionGraph, i: int, node: Apply, thunk: Any) -> None:
        thunk()
        for (value,), cell in zip(thunk.outputs, thunk.outputs, strict=True):
            if _is_float(value) and not _is_exact(node):
                cell[0] = rounded(value, self._rng, is_data=False)

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
