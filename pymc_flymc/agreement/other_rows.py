"""Rows of a result that are other rows of its arguments, taken out or concatenated."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.tensor.basic import Join
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.graphs.tools import free_inputs, index_of, numbers_of


class OtherRows(NamedTuple):
    """Rows of an operation's arguments that its result consists of."""

    #: Arguments, their axes of rows, and the indices of the rows.
    sources: list[tuple[TensorVariable, int, np.ndarray]]
    again: Callable[[list[Any]], Any]  #: Makes the result of graphs of these rows.


def other_rows(node: Apply, axis: int, rows: np.ndarray) -> OtherRows | None:
    """Return the rows of the arguments that `rows` along an axis of a node's result consist of."""
    # None unless the operation takes rows out, by a constant slice or vector along one axis, or
    # joins rows. Nothing here is shared with the reading of rows.
    if isinstance(node.op, Join):
        along = node.op.axis % node.outputs[0].type.ndim
        return _joined(node, axis, rows) if along == axis else None
    if not isinstance(node.op, Subtensor | AdvancedSubtensor):
        return None
    source: Any = node.inputs[0]
    index = index_of(node, 1)
    arrays = [i for i, each in enumerate(index) if not isinstance(each, slice)]
    if isinstance(node.op, Subtensor):
        place = [i for i in range(source.ndim) if i not in arrays][axis]
    else:
        vectors = [i for i in arrays if index[i].type.ndim]
        together = arrays == list(range(arrays[0], arrays[-1] + 1))
        if len(vectors) != 1 or not together or axis != arrays[0]:
            return None
        (place,) = vectors
        if index[place].type.ndim > 1:
            return None
    length: Any = source.type.shape[place]
    if length is None or free_inputs(node.inputs[1:]) or index[place] == slice(None):
        return None
    is_lookup = not isinstance(index[place], slice) and index[place].type.dtype != "bool"
    if is_lookup and length <= len(rows):
        return None  # fewer elements than rows are computed as they are
    numbers = np.arange(length)[numbers_of(index[place])][rows]
    whole = [slice(None) if i == place else each for i, each in enumerate(index)]
    return OtherRows([(source, place, numbers)], lambda new: new[0][tuple(whole)])


def _joined(node: Apply, axis: int, rows: np.ndarray) -> OtherRows | None:
    parts: Any = node.inputs
    lengths = [v.type.shape[axis] for v in parts]
    if None in lengths:
        return None
    starts = np.cumsum([0, *lengths])
    own = [np.flatnonzero((rows >= start) & (rows < stop)) for start, stop in pairwise(starts)]
    sources = [
        (v, axis, rows[which] - start)
        for v, which, start in zip(parts, own, starts[:-1], strict=True)
        if len(which)
    ]
    order = np.argsort(np.concatenate(own))
    return OtherRows(sources, lambda new: pt.concatenate(new, axis=axis).take(order, axis))
