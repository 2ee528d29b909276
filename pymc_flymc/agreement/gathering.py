"""Graphs of a few rows, made from graphs of all rows: nothing is computed for the others."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.raise_op import CheckAndRaise
from pytensor.sparse.basic import DenseFromSparse
from pytensor.sparse.math import Dot as SparseDot
from pytensor.sparse.math import StructuredDot
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.basic import Alloc, Join
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.special import LogSoftmax, Softmax
from pytensor.tensor.subtensor import AdvancedSubtensor, IncSubtensor, Subtensor
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.agreement.other_rows import other_rows
from pymc_flymc.graphs.tools import evaluate, evaluate_sparse, free_inputs, index_of

#: An argument of an operation, and its axis of rows; None for an argument without such an axis.
Need = tuple[Variable, int] | None
#: The needs of an operation's arguments, and a function that applies it again to new arguments.
Rule = tuple[list[Need], Callable[[list[Any]], Any]]


class NotGatheredError(Exception):
    """Some rows cannot be taken from the result of an operation."""


class RowsOfGraph:
    """Take rows of graphs: `inputs` of the new graphs stand for rows of data, `values`."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows, self.m = rows, len(rows)
        self.inputs: list[Any] = []
        self.values: list[Any] = []
        self._memo: dict[tuple[Variable, int], Any] = {}

    def __call__(self, graph: TensorVariable) -> TensorVariable:
        """Return the graph of these values, a vector; of length 1 if all rows are the same."""
        if graph.ndim > 1:  # the rows of a table's first axis, and one value of each row
            self.rows, *others = np.unravel_index(self.rows, graph.type.shape)
            first = np.zeros(self.m, int) if graph.type.broadcastable[0] else np.arange(self.m)
            return self._take(graph)[(first, *others)]
        return self._take(graph)

    def _take(self, graph: TensorVariable, axis: int = 0) -> Any:
        memo, wanted = self._memo, (graph, axis)
        stack: list[tuple[Any, int]] = [wanted]
        while stack:
            need = v, axis = stack[-1]
            if need in memo:
                stack.pop()
            elif v.type.broadcastable[axis]:
                memo[need] = v
            elif isinstance(v, Constant):
                memo[need] = self._leaf(v, axis, v.data)
            elif v.owner is None:  # effects along an axis of a table
                memo[need] = v.take(self.rows, axis)
            else:
                others = self._of_others(v.owner, axis)
                if others is not None:
                    memo[need] = others
                    continue
                found = self._rule(v.owner, axis)
                if found is None:
                    if free_inputs([v]):
                        raise NotGatheredError(str(v.owner.op))
                    memo[need] = self._leaf(v, axis, _value(v))
                    continue
                needs, again = found
                missing = [each for each in needs if each is not None and each not in memo]
                stack += missing
                if not missing:
                    pairs = zip(v.owner.inputs, needs, strict=True)
                    memo[need] = again([a if of is None else memo[of] for a, of in pairs])
        return memo[wanted]

    def _of_others(self, node: Apply, axis: int) -> Any:
        """Return the result of other rows of a node's arguments, or None if it takes none."""
        others = other_rows(node, axis, self.rows)
        if others is None:
            return None
        try:
            return others.again([self._of(*each) for each in others.sources])
        except NotGatheredError:  # of a sum along rows, say: an argument is computed as a whole
            return None

    def _of(self, v: TensorVariable, axis: int, rows: np.ndarray) -> Any:
        """Return `rows` of an argument along an axis, repeated if all rows are the same."""
        found = RowsOfGraph(rows)
        found.inputs, found.values = self.inputs, self.values
        result = found._take(v, axis)
        return pt.repeat(result, len(rows), axis) if v.type.broadcastable[axis] else result

    def _leaf(self, v: Any, axis: int, data: Any) -> Any:
        if isinstance(v.type, SparseTensorType):
            if axis:
                raise NotGatheredError("columns of a sparse matrix")
            values = data.tocsr()[self.rows].asformat(v.type.format)
        else:
            # np.take copies all of an array whose rows are not contiguous, as of a data frame.
            values = data[(slice(None),) * axis + (self.rows,)]
        self.inputs.append(v.type.clone(shape=values.shape)())
        self.values.append(values)
        return self.inputs[-1]

    def _rule(self, node: Apply, axis: int) -> Rule | None:
        """Return the rule for rows along an axis of a node's result; None if there is none."""
        op: Any = node.op
        inputs: list[Any] = list(node.inputs)

        def again(new: list[Any]) -> Any:
            return op.make_node(*new).outputs[0]

        def first(new: list[Any]) -> Any:
            return new[0]

        def only(axis: int) -> list[Need]:
            return [(inputs[0], axis), *[None] * (len(inputs) - 1)]

        out: Any = node.outputs[0]
        n_rows, m = out.type.shape[axis], self.m
        if len(node.outputs) > 1:
            return None
        if isinstance(op, Elemwise):
            return [(v, axis) for v in inputs], again
        if isinstance(op, ViewOp | SpecifyShape | CheckAndRaise):
            return only(axis), first
        if isinstance(op, DimShuffle):
            return only(int(op.new_order[axis])), again
        if isinstance(op, CAReduce):
            gone = range(inputs[0].ndim) if op.axis is None else op.axis
            return only([i for i in range(inputs[0].ndim) if i not in gone][axis]), again
        if isinstance(op, Softmax | LogSoftmax):
            return None if op.axis in (None, axis) else (only(axis), again)
        if isinstance(op, Alloc):
            own = axis - len(inputs[1:]) + inputs[0].ndim
            needs: list[Need] = only(own) if own >= 0 else [None] * len(inputs)
            return needs, lambda new: op(
                new[0], *(m if i == axis else n for i, n in enumerate(new[1:]))
            )
        if isinstance(op, Reshape):
            place, shape = _kept_axis(inputs[0].type.shape, out.type.shape, axis)
            if place is None or n_rows is None:
                return None
            return only(place), lambda new: new[0].reshape(
                tuple(m if i == axis else n for i, n in enumerate(shape))
            )
        if isinstance(op, Join):
            along = op.axis % out.ndim
            return None if along == axis else ([(v, axis) for v in inputs], again)
        if isinstance(op, SparseDot | StructuredDot | DenseFromSparse):
            return None if axis else (only(0), again)
        core = op.core_op if isinstance(op, Blockwise) else op
        if isinstance(core, Dot):
            return _of_dot(inputs, axis, out.ndim), again
        if isinstance(op, Blockwise):
            batch = op.batch_ndim(node)
            return None if axis >= batch else ([(v, axis) for v in inputs], again)
        if isinstance(op, Subtensor | IncSubtensor):
            return self._of_slices(node, axis, again)
        if isinstance(op, AdvancedSubtensor):
            return self._of_lookup(node, axis, again)
        return None

    def _of_slices(self, node: Apply, axis: int, again: Any) -> Rule | None:
        """Return the rule for whole axes, and places of other axes: ``eta[:, 0]``."""
        writes = isinstance(node.op, IncSubtensor)
        source: Any = node.inputs[0]
        index = index_of(node, 1 + writes)
        kept = [i for i in range(source.ndim) if isinstance(index[i], slice)]
        place = axis if writes else kept[axis]
        if index[place] != slice(None):
            return None
        needs: list[Need] = [(source, place), *[None] * (len(node.inputs) - 1)]
        if writes:
            other: Any = node.inputs[1]
            own = kept.index(place) - len(kept) + other.ndim
            needs[1] = (other, own) if own >= 0 else None
        return needs, again

    def _of_lookup(self, node: Apply, axis: int, again: Any) -> Rule | None:
        """Return the rule for lookups: ``a[group]``, or one element of each row: ``p[rows, y]``."""
        source: Any = node.inputs[0]
        index = index_of(node, 1)
        arrays = [i for i, each in enumerate(index) if not isinstance(each, slice)]
        if any(index[i].type.dtype == "bool" for i in arrays):
            return None
        n_axes = max(index[i].type.ndim for i in arrays)
        # If the arrays are not adjacent, NumPy puts their axes first.
        first = arrays[0] if arrays == list(range(arrays[0], arrays[-1] + 1)) else 0
        needs: list[Need] = [None] * len(node.inputs)
        if not first <= axis < first + n_axes:
            slices = [i for i in range(source.ndim) if i not in arrays]
            place = slices[axis if axis < first else axis - n_axes]
            if index[place] != slice(None):
                return None
            return [(source, place), *needs[1:]], again
        replaced = {}
        for i in arrays:
            own = axis - first - n_axes + index[i].type.ndim
            position = 1 + node.inputs[1:].index(index[i])
            if own < 0 or _is_single(index[i], own):
                continue
            if self._is_range(index[i], own, source.type.shape[i]):
                needs[0] = (source, i)
                shape = [1] * index[i].type.ndim
                shape[own] = -1
                replaced[position] = pt.constant(np.arange(self.m).reshape(shape))
            else:
                needs[position] = (index[i], own)
        return needs, lambda new: again([replaced.get(i, v) for i, v in enumerate(new)])

    def _is_range(self, index: Any, axis: int, length: int | None) -> bool:
        """Return whether positions are 0, 1, ..., one for each row."""
        if length is None or free_inputs([index]) or index.type.shape[axis] not in (None, length):
            return False
        values = evaluate(index)
        return values.size == length and np.array_equal(values.ravel(), np.arange(length))


def _is_single(index: Any, axis: int) -> bool:
    """Return whether an index is the same for all rows, even if its type does not show it."""
    if index.type.shape[axis] is None and not free_inputs([index]):
        return bool(evaluate(index).shape[axis] == 1)
    return bool(index.type.broadcastable[axis])


def _of_dot(inputs: list[Any], axis: int, ndim: int) -> list[Need]:
    """Return the needs of ``left (..., I, K) @ right (..., K, J)``."""
    left, right = inputs
    if axis == ndim - 2:
        return [(left, axis), None]
    if axis == ndim - 1:
        return [None, (right, axis)]
    return [(left, axis), (right, axis)]


def _kept_axis(
    before: Sequence[int | None], after: Sequence[int | None], axis: int
) -> tuple[int | None, list[int]]:
    """Return the axis of a reshaped array that is kept as an axis of the result."""
    if None in before or None in after:
        return None, []
    sizes: Any = list(before)
    shape: Any = list(after)
    ahead = math.prod(shape[:axis])
    for i, n in enumerate(sizes):
        if n == shape[axis] and math.prod(sizes[:i]) == ahead:
            return i, shape
    return None, []


def _value(v: Variable) -> Any:
    return evaluate_sparse(v) if isinstance(v.type, SparseTensorType) else evaluate(v)
