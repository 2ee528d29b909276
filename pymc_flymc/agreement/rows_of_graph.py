"""Graphs of a few rows, made from graphs of all rows by a choice among the rows of their data."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.raise_op import CheckAndRaise
from pytensor.sparse import as_sparse_variable
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.basic import Alloc
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorConstant, TensorVariable

from pymc_flymc.agreement.rounding import RoundedFunction
from pymc_flymc.graphs.tools import copy_graphs, fold_constants, free_inputs

#: A point of a model: values of its value variables, by name.
Point = Mapping[str, np.ndarray]
FunctionOfPoints = tuple[list[Variable], RoundedFunction]


class RowsOfGraph:
    """Rows of a graph from `freeze`, along its first axis, without the checks of parameters.

    Arrays of data that have as many rows are cut down to the ones chosen. That is a guess: a graph
    may count its rows, or put them in another order. Where `whole` is true all rows are evaluated.
    """

    def __init__(self, graph: TensorVariable, rows: np.ndarray) -> None:
        self.graph, self.rows = graph, rows

    def __call__(self, points: Sequence[Point], seed: int = 0, whole: bool = False) -> np.ndarray:
        """Return values of the rows at points, shape (T, m, ...); NaN where there are none."""
        shape = len(points), len(self.rows), *self.graph.type.shape[1:]
        if not whole and self._few is not None:
            found = evaluate(self._few, points, seed)
            if found.shape[1:2] in ((1,), shape[1:2]) and not np.isnan(found).all():
                return np.broadcast_to(found, shape)
        found = evaluate(self._all, points, seed, self.rows)
        return np.broadcast_to(found.reshape(found.shape + (1,) * (len(shape) - found.ndim)), shape)

    @cached_property
    def _all(self) -> FunctionOfPoints:
        return function_of_points(copy_graphs([self.graph], _without_checks)[0])

    @cached_property
    def _few(self) -> FunctionOfPoints | None:
        n, m = self.graph.type.shape[0], len(self.rows)
        if n is None or n <= m:
            return None
        # Rows may fit no longer, as where some lie below others.
        with suppress(Exception):
            graph = copy_graphs([fold_constants(self.graph)], self._again, self._leaf)[0]
            if graph.type.shape[0] in (1, None, m):
                return function_of_points(graph)
        return None

    def _leaf(self, v: Any) -> Any:
        if getattr(v.type, "shape", ())[:1] != (self.graph.type.shape[0],):
            return v
        if not isinstance(v, Constant):
            return v[self.rows]
        if isinstance(v.type, SparseTensorType):
            return as_sparse_variable(v.data.tocsr()[self.rows].asformat(v.type.format))
        data = v.data[self.rows]
        if v.type.dtype[:3] == "int" and np.array_equal(v.data, np.arange(len(v.data))):
            data = np.arange(len(data), dtype=data.dtype)  # in an index: one for each row
        return TensorConstant(TensorType(data.dtype, data.shape), data)

    def _again(self, node: Apply, inputs: Sequence[Any]) -> Sequence[Any] | None:
        n, m = self.graph.type.shape[0], len(self.rows)
        shape: Any = getattr(node.outputs[0].type, "shape", ())
        if isinstance(node.op, Alloc | Reshape | SpecifyShape) and shape[:1] == (n,):
            source, shape = inputs[0], (m, *shape[1:])
            if isinstance(node.op, Alloc):
                return [pt.alloc(source, m, *inputs[2:])]
            if isinstance(node.op, Reshape):
                return [source.reshape(shape)]
            # Of a variable whose type leaves its length open.
            return [source[self.rows] if source.owner is None else source]
        return _without_checks(node, inputs)


def _without_checks(node: Apply, inputs: Sequence[Any]) -> Sequence[Any] | None:
    return [inputs[0]] if isinstance(node.op, CheckAndRaise) else None


def function_of_points(graph: TensorVariable) -> FunctionOfPoints:
    """Return a graph as a function of points, with its inputs."""
    inputs = free_inputs([graph])
    return inputs, RoundedFunction(inputs, [graph])


def evaluate(
    function: FunctionOfPoints,
    points: Sequence[Point],
    seed: int = 0,
    rows: np.ndarray | slice = slice(None),
) -> np.ndarray:
    """Return the values of a function at points, or some rows; NaN where there is no density."""
    inputs, of_arrays = function
    values = []
    for point in points:
        found = of_arrays(*(point[str(v.name)] for v in inputs), seed=seed)
        value = np.array(np.nan) if found is None else found[0]
        values.append(value[rows] if np.shape(value)[:1] not in ((), (1,)) else value)
    return np.stack(np.broadcast_arrays(*values)).astype(np.float64)
