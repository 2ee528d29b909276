"""Indices of rows that are taken out of a term, as opposed to lookups of effects of groups."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.traversal import ancestors
from pytensor.tensor.basic import Join
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorConstant, TensorVariable

from pymc_flymc.graphs.tools import evaluate, free_inputs, index_of
from pymc_flymc.reading.cotangent import inputs_of, varies

#: Why rows that are taken out of a term are refused, or an element of each row, and what to write.
TAKES_ROWS = (
    "it takes some rows out of a term, as in (X @ b)[keep]",
    "index the data, as in X[keep] @ b",
)
TAKES_ELEMENTS = (
    "it takes an element of each row of a term, as in (X @ B)[rows, column]",
    "(X * B.T[column]).sum(axis=1)",
)
#: Indices of the elements that are taken along some axes, equally many along each.
Places = Mapping[int, np.ndarray]


class RowNumbers(TensorConstant):
    """An index of rows that is on its way to the data."""


def places_of(node: Apply) -> tuple[TensorVariable, dict[int, np.ndarray]]:
    """Return the source of a lookup, and its indices along axes; none if they are not vectors."""
    source, places = inputs_of(node)[0], {}
    for k, each in enumerate(index_of(node, 1)):
        if isinstance(each, slice):
            if each != slice(None):
                return source, {}
            continue
        length = source.type.shape[k]
        if length is None or free_inputs([each]):
            return source, {}
        numbers = np.asarray(evaluate(each))
        if numbers.dtype == bool and numbers.ndim == 1:
            numbers = np.flatnonzero(numbers)
        if numbers.min(initial=0) < -length or numbers.max(initial=0) >= length:
            return source, {}
        places[k] = numbers.astype(np.int64)
    found = np.broadcast_arrays(*places.values())
    if not found or found[0].ndim != 1:
        return source, {}
    return source, dict(zip(places, found, strict=True))


def is_of_rows(node: Apply, source: TensorVariable, places: Places) -> bool:
    """Return whether a lookup at some places takes rows, or is on its way to the data."""
    if any(isinstance(v, RowNumbers) for v in node.inputs):
        return True
    lengths: Any = [source.type.shape[k] for k in places]
    if not is_of_data(source, max(lengths)):
        return False
    numbers = [each % n for each, n in zip(places.values(), lengths, strict=True)]
    return are_distinct(np.ravel_multi_index(numbers, lengths))


def are_distinct(positions: np.ndarray) -> bool:
    """Return whether no element of a term is looked up more than once."""
    # This tells rows of a term of data from effects of groups that are functions of data.
    return int(np.bincount(positions.ravel()).max(initial=0)) <= 1


def is_of_data(var: TensorVariable, length: int) -> bool:
    """Return whether data are as long as a term, or as its parts that are indexed or joined."""
    todo: list[tuple[Any, int]] = [(var, length)]
    seen, checked = set(todo), set()
    while todo:
        v, n = todo.pop()
        if n not in checked:
            shapes = (u.type.shape for u in ancestors([v]) if isinstance(u, TensorConstant))
            if any(n in shape for shape in shapes):
                return True
            checked.add(n)
        if v.owner is None:
            continue
        parts = [u for u in v.owner.inputs if isinstance(u.type, TensorType)]
        if isinstance(v.owner.op, Join | Subtensor | AdvancedSubtensor):
            below = {(u, m) for u in parts for m in u.type.shape if m is not None and m > 1}
        elif isinstance(v.owner.op, Elemwise | DimShuffle):
            below = {(u, n) for u in parts if n in u.type.shape}
        else:
            continue
        todo += below - seen
        seen |= below
    return False


def indexed(var: TensorVariable, places: Places, moves_on: bool = True) -> TensorVariable:
    """Return the elements of a tensor at some places, along its first axis.

    It has length 1 if the tensor is the same at all of them. The other axes keep their order.
    `moves_on` is whether the index moves on to the data that the tensor is computed from.
    """
    long = {k: each for k, each in places.items() if varies(var, k)}
    if not long:
        return var.dimshuffle("x", *(k for k in range(var.ndim) if k not in places))
    kind = RowNumbers if moves_on else TensorConstant
    index = tuple(
        kind(TensorType("int64", long[k].shape), long[k]) if k in long else slice(None)
        for k in range(var.ndim)
    )
    found = pt.moveaxis(var[index], axis_of_rows(long), 0)
    behind = [k for k in range(var.ndim) if k not in long]
    return found.dimshuffle(0, *(1 + i for i, k in enumerate(behind) if k not in places))


def axis_of_rows(places: Places) -> int:
    """Return where NumPy puts the axis of an index: at its first axis, or in front if apart."""
    first, last = min(places), max(places)
    return first if last - first == len(places) - 1 else 0
