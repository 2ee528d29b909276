"""Rows that are taken out of a term, or concatenated vertically: the index moves to the data.

``(X @ b)[keep]`` is read as ``X[keep] @ b``, by one operation at a time; the traversal goes on from
there. If rows take an element along each of several axes, ``(X @ B)[rows, column]``, these axes
become one. Rows of vertically concatenated terms are a sum: of each term with its own rows, and
with zeros in place of all others.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Apply
from pytensor.tensor.basic import Join
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.graphs.tools import free_inputs, index_of, numbers_of
from pymc_flymc.reading.cotangent import (
    TAKES_ELEMENTS,
    TAKES_ROWS,
    Context,
    NotReadableError,
    Places,
    axis_of_rows,
    indexed,
    inputs_of,
    is_of_data,
    is_of_rows,
    op_type,
    places_of,
    varies,
)


def taken_below(node: Apply, context: Context) -> TensorVariable | None:
    """Return rows that are taken out of a term as the term's operation on rows of its arguments.

    The result is None if the node takes no rows by an index that is a constant vector along each of
    some axes. Without such an operation `NotReadableError` is raised.
    """
    if context.any_rows or op_type(node) is not AdvancedSubtensor or node.inputs[0].owner is None:
        return None
    source, places = places_of(node)
    if not places or not is_of_rows(node, source, places):
        return None
    above: Apply = source.owner
    rule = _RULES.get(Elemwise if isinstance(above.op, Elemwise) else op_type(above))
    below = None if rule is None else rule(above, places)
    if below is None:
        raise NotReadableError(*(TAKES_ROWS if len(places) == 1 else TAKES_ELEMENTS))
    return pt.moveaxis(below, 0, axis_of_rows(places))


def rows_of_slice(node: Apply, axis: int) -> TensorVariable | None:
    """Return ``term[start:stop]`` along an axis of rows of data as a lookup of these, or None."""
    source, index = inputs_of(node)[0], index_of(node, 1)
    length = source.type.shape[axis]
    if length is None or free_inputs(node.inputs[1:]) or not is_of_data(source, length):
        return None
    numbers = np.arange(length)[numbers_of(index[axis])]
    index[axis] = slice(None)
    return pt.moveaxis(indexed(source, {axis: numbers}), 0, axis)[tuple(index)]


def one_below_the_other(node: Apply, rows: np.ndarray) -> TensorVariable | None:
    """Return rows of joined terms as a sum, zero elsewhere, or None for an unknown number."""
    op: Any = node.op
    joined = node.outputs[0].type
    along = op.axis % joined.ndim
    if joined.shape[along] is None:
        return None
    start, found, rows = 0, [], rows % joined.shape[along]
    for part in inputs_of(node):
        length: Any = part.type.shape[along]
        own = (rows >= start) & (rows < start + length)
        if own.any():
            mask = own.astype(np.float64).reshape(-1, *[1] * (joined.ndim - 1))
            # A row of the term replaces other rows: one that is not taken may hold anything.
            numbers = np.where(own, rows, rows[own.argmax()]) - start
            found.append(pt.constant(mask) * indexed(part, {along: numbers}))
        start += length
    return pt.add(0.0, *found)


def _elemwise(node: Apply, places: Places) -> TensorVariable:
    op: Any = node.op
    result: TensorVariable = op(*(indexed(v, places) for v in inputs_of(node)))
    return result


def _view(node: Apply, places: Places) -> TensorVariable:
    return indexed(inputs_of(node)[0], places)


def _dimshuffle(node: Apply, places: Places) -> TensorVariable:
    source, op = inputs_of(node)[0], cast(Any, node.op)
    order: list[Any] = list(op.new_order)
    below = {order[k]: each for k, each in places.items() if order[k] != "x"}
    if not below:
        return indexed(cast(TensorVariable, node.outputs[0]), places)
    found = indexed(source, below)
    kept = [k for k in range(source.ndim) if k not in below]
    behind = [order[k] for k in range(len(order)) if k not in places]
    return found.dimshuffle(0, *("x" if k == "x" else 1 + kept.index(k) for k in behind))


def _sum(node: Apply, places: Places) -> TensorVariable:
    source, op = inputs_of(node)[0], cast(Any, node.op)
    gone = [k % source.ndim for k in op.axis]
    left = [k for k in range(source.ndim) if k not in gone]
    below = {left[k]: each for k, each in places.items()}
    behind = [k for k in range(source.ndim) if k not in below]
    return indexed(source, below).sum(axis=[1 + behind.index(k) for k in gone])


def _dot(node: Apply, places: Places) -> TensorVariable | None:
    """Take rows of the left matrix, columns of the right one, or both: a product for each row."""
    left, right = inputs_of(node)
    if left.ndim != 2:
        return None
    rows, columns = places.get(0), places.get(1)
    if rows is None:
        assert columns is not None
        return indexed(right, {1: columns}) @ left.T
    if columns is None:
        return indexed(left, {0: rows}) @ right
    return (indexed(left, {0: rows}) * indexed(right, {1: columns})).sum(axis=1)


def _join(node: Apply, places: Places) -> TensorVariable | None:
    op, parts = cast(Any, node.op), inputs_of(node)
    along = op.axis % node.outputs[0].type.ndim
    if list(places) == [along]:
        return one_below_the_other(node, places[along])
    if along in places or not all(varies(part, k) for part in parts for k in places):
        return None
    axis = 1 + sum(k not in places for k in range(along))
    return pt.concatenate([indexed(part, places) for part in parts], axis=axis)


def _subtensor(node: Apply, places: Places) -> TensorVariable:
    """Take rows first: ``term[start:stop, column][rows]``."""
    source = inputs_of(node)[0]
    index = list(map(numbers_of, index_of(node, 1)))
    kept = [k for k, each in enumerate(index) if isinstance(each, slice)]
    lengths: Any = source.type.shape
    below = {kept[k]: np.arange(lengths[kept[k]])[index[kept[k]]][places[k]] for k in places}
    others = [each for k, each in enumerate(index) if k not in below]
    return indexed(source, below)[(slice(None), *others)]


def _lookup(node: Apply, places: Places) -> TensorVariable | None:
    """Take ``a[group][rows]`` as ``a[group[rows]]``."""
    source, own = places_of(node)
    axis = axis_of_rows(own) if own else 0
    if not own or list(places) != [axis]:
        return None
    # Effects may be functions of data, one for each group: they remain effects.
    moves_on = is_of_rows(node, source, own)
    return indexed(source, {k: each[places[axis]] for k, each in own.items()}, moves_on)


_RULES: dict[type, Callable[[Apply, Places], TensorVariable | None]] = {
    Elemwise: _elemwise,
    SpecifyShape: _view,
    ViewOp: _view,
    DimShuffle: _dimshuffle,
    Sum: _sum,
    Dot: _dot,
    Join: _join,
    Subtensor: _subtensor,
    AdvancedSubtensor: _lookup,
}
