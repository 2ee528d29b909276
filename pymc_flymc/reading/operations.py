"""Steps of the walk through a linear predictor's graph, one function for each operation.

A step takes the item of an operation's result (see ``items``) and returns those of its
arguments: what the predictor does with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Apply
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import Alloc, Join
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import Subtensor, indices_from_subtensor
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.graphs.tools import evaluate, free_inputs
from pymc_flymc.reading.items import (
    IsFixed,
    Item,
    NotReadableError,
    Step,
    carries,
    inputs_of,
    only_rows,
    times,
)
from pymc_flymc.reading.lookups import split_lookup

_TWO_MATRICES = "it multiplies term by term by a matrix of the data's size"


def _negative(item: Item) -> Item:
    weight = item.weight
    if weight is None:
        weight = pt.constant(np.full((1,) * item.var.ndim, -1.0))
    else:
        weight = -weight
    return replace(item, weight=weight)


def _operand(operand: TensorVariable, item: Item) -> Item:
    """Return the item of an argument that was broadcast to the shape of ``item.var``."""
    weight, scale = item.weight, item.scale
    for k in range(operand.ndim):
        if k == item.axis or carries(operand, k) or not carries(item.var, k):
            continue
        if scale is not None and scale.shape[k] != 1:
            if carries(operand, item.axis):
                raise NotReadableError(_TWO_MATRICES)
            # Here `scale` is the data, and as wide as it was.
            continue
        if weight is None or not carries(weight, k):
            length = item.var.type.shape[k]
            if length is None:
                raise NotReadableError("the length of a broadcast axis in it is unknown")
            weight = times(weight, pt.constant(np.full((1,) * operand.ndim, float(length))))
        else:
            weight = weight.sum(axis=k, keepdims=True)
    return Item(operand, item.axis, weight, scale)


def _same(item: Item, node: Apply, is_fixed: IsFixed) -> list[Item]:
    """Casts, copies, views: the result is the first argument."""
    source = inputs_of(node)[0]
    if not is_fixed(source) and "float" in source.type.dtype != item.var.type.dtype:
        if "float" not in item.var.type.dtype:
            raise NotReadableError(f"it contains {node.op}, which rounds")
    return [replace(item, var=source)]


def _add(item: Item, node: Apply, is_fixed: IsFixed) -> list[Item]:
    return [_operand(v, item) for v in inputs_of(node)]


def _sub(item: Item, node: Apply, is_fixed: IsFixed) -> list[Item]:
    return [_operand(inputs_of(node)[0], item), _operand(inputs_of(node)[1], _negative(item))]


def _neg(item: Item, node: Apply, is_fixed: IsFixed) -> list[Item]:
    return [replace(_negative(item), var=inputs_of(node)[0])]


def _second(item: Item, node: Apply, is_fixed: IsFixed) -> list[Item]:
    return [_operand(inputs_of(node)[1], item)]


def _mul(item: Item, node: Apply, is_fixed: IsFixed) -> list[Item]:
    rows = [v for v in inputs_of(node) if carries(v, item.axis)]
    free = [v for v in rows if not is_fixed(v)]
    if len(free) > 1:
        raise NotReadableError(
            "it multiplies two terms that both hold data and variables: effects by effects, as "
            "discriminations by abilities in item response models, factors by loadings, or the "
            "coefficients by that of earlier errors in autoregressive models. Firefly needs one of "
            "the two to be numbers"
        )
    main = free[0] if free else max(rows, key=lambda v: v.type.broadcastable.count(False))
    weight, scale = item.weight, item.scale
    for v in inputs_of(node):
        if not carries(v, item.axis):
            weight = times(weight, v)
        elif v is not main:
            # Whatever the types of the data: one by one they are multiplied by a float.
            factor = evaluate(v).astype(np.float64, copy=False)
            same = factor.take([0], axis=item.axis)
            if not is_fixed.any_rows and np.all(factor == same):
                # Ones that lend their shape, say: the data stay as they are.
                weight = times(weight, pt.constant(same))
            else:
                scale = factor if scale is None else scale * factor
    return [_operand(main, replace(item, weight=weight, scale=scale))]


def _true_div(item: Item, node: Apply, is_fixed: IsFixed) -> list[Item]:
    over, under = inputs_of(node)
    if not carries(under, item.axis):
        weight = times(item.weight, pt.reciprocal(under))
        return [_operand(over, replace(item, weight=weight))]
    if not is_fixed(under):
        raise NotReadableError("it divides by a term that holds data and variables")
    value = evaluate(under).astype(np.float64, copy=False)
    scale = (1.0 if item.scale is None else item.scale) / value
    return [_operand(over, replace(item, scale=scale))]


def _alloc(item: Item, node: Apply, is_fixed: IsFixed) -> list[Item]:
    value = inputs_of(node)[0]
    missing = item.var.ndim - value.ndim
    if missing:
        value = value.dimshuffle(*"x" * missing, *range(value.ndim))
    return [_operand(value, item)]


def _shuffled(item: Item, source: TensorVariable, order: Sequence[int | str]) -> list[Item]:
    """Step through ``item.var = source.dimshuffle(order)``."""
    back: list[Any] = [order.index(i) if i in order else "x" for i in range(source.ndim)]
    weight, scale = item.weight, item.scale
    if weight is not None:
        weight = weight.dimshuffle(back)
    if scale is not None:
        kept = [i for i in back if i != "x"]
        extra = [i for i in range(item.var.ndim) if i not in kept]
        shape = [1 if i == "x" else scale.shape[i] for i in back]
        scale = np.transpose(scale, kept + extra).reshape(shape)
    return [Item(source, int(order[item.axis]), weight, scale)]


def _dimshuffle(item: Item, node: Apply, is_fixed: IsFixed) -> list[Item]:
    return _shuffled(item, inputs_of(node)[0], node.op.new_order)


def _reshape(item: Item, node: Apply, is_fixed: IsFixed) -> list[Item]:
    """Reshapes that only add or drop axes of length 1, or make a vector of a table."""
    source = inputs_of(node)[0]
    long_in = [i for i in range(source.ndim) if carries(source, i)]
    long_out = [i for i in range(item.var.ndim) if carries(item.var, i)]
    lengths = [
        {source.type.shape[i], item.var.type.shape[j]} - {None}
        for i, j in zip(long_in, long_out, strict=False)
    ]
    if item.var.ndim == 1 < len(long_in) and None not in source.type.shape:
        index = np.indices(source.type.shape, np.int32).reshape(source.ndim, -1)
        split = split_lookup(source[tuple(index)].owner)
        if split is not None:
            return [replace(item, var=split)]
    if len(long_in) != len(long_out) or any(len(known) > 1 for known in lengths):
        raise NotReadableError("it contains a reshape other than adding or dropping axes")
    partner = dict(zip(long_out, long_in, strict=True))
    order: list[int | str] = [partner.get(i, "x") for i in range(item.var.ndim)]
    return _shuffled(item, source, order)


def _sum(item: Item, node: Apply, is_fixed: IsFixed) -> list[Item]:
    source = inputs_of(node)[0]
    gone = tuple(a % source.ndim for a in node.op.axis)
    axis = [i for i in range(source.ndim) if i not in gone][item.axis]
    weight = None if item.weight is None else pt.expand_dims(item.weight, gone)
    scale = None if item.scale is None else np.expand_dims(item.scale, gone)
    return [Item(source, axis, weight, scale)]


def _dot(item: Item, node: Apply, is_fixed: IsFixed) -> list[Item]:
    """``left (..., I, K) @ right (..., K, J)`` with the rows along I, J or a batch axis."""
    left, right = inputs_of(node)
    ndim, axis = item.var.ndim, item.axis
    if not only_rows(item):
        raise NotReadableError(_TWO_MATRICES)
    if axis < ndim - 2 and not carries(item.var, ndim - 1) and not carries(item.var, ndim - 2):
        # One inner product for each row, ``vecdot(X, B[group])``: as a sum of products.
        product = left.swapaxes(-1, -2) * right
        return _mul(Item(product, axis, item.weight, item.scale), product.owner, is_fixed)
    by_left = axis != ndim - 1 and carries(left, axis)
    by_right = axis != ndim - 2 and carries(right, axis)
    if by_left and by_right:
        raise NotReadableError("it contains a dot product of two terms that both have rows")
    # Weights (..., I, J) and the other operand meet as (..., I, K, J).
    if by_left:
        carrier, along = left, ndim
        other = right.dimshuffle(*range(ndim - 2), "x", ndim - 2, ndim - 1)
    else:
        carrier, along = right, ndim - 2
        other = left.dimshuffle(*range(ndim), "x")
    weight = other
    if item.weight is not None:
        weight = _product(item.weight.dimshuffle(*range(ndim - 1), "x", ndim - 1), other, along)
    weight = weight.sum(axis=along) if carries(weight, along) else weight.squeeze(axis=along)
    for k in range(ndim - 2):
        if k != axis and not carries(carrier, k) and carries(weight, k):
            weight = weight.sum(axis=k, keepdims=True)
    return [Item(carrier, axis, weight, item.scale)]


def _product(weight: TensorVariable, other: TensorVariable, along: int) -> TensorVariable:
    """Multiply a weight by what it meets along an axis, where it often picks a single column."""
    if carries(weight, along) and not free_inputs([weight]):
        values = evaluate(weight)
        places = np.unique(np.nonzero(values)[along])
        if len(places) == 1:
            column = (slice(None),) * along + (slice(int(places[0]), int(places[0]) + 1),)
            return pt.constant(values[column]) * other[column]
    return weight * other


def _subtensor(item: Item, node: Apply, is_fixed: IsFixed) -> list[Item]:
    """Columns of a matrix that holds data and variables: ``(X @ B)[:, 0]``."""
    source = inputs_of(node)[0]
    index: list[Any] = list(indices_from_subtensor(inputs_of(node)[1:], node.op.idx_list))
    index += [slice(None)] * (source.ndim - len(index))
    kept = [i for i in range(source.ndim) if isinstance(index[i], slice)]
    axis = kept[item.axis]
    shape = [1 if i == axis else n for i, n in enumerate(source.type.shape)]
    if index[axis] != slice(None):
        raise NotReadableError("it takes some rows out of a term; index the data instead")
    if None in shape or not only_rows(item):
        raise NotReadableError(f"it contains {node.op} of a term of unknown width")
    weight = pt.set_subtensor(
        pt.zeros(shape)[tuple(index)], 1.0 if item.weight is None else item.weight
    )
    scale = item.scale
    if scale is not None:
        scale = scale.reshape([-1 if i == axis else 1 for i in range(source.ndim)])
    return [Item(source, axis, weight, scale)]


def _join(item: Item, node: Apply, is_fixed: IsFixed) -> list[Item]:
    """Columns side by side, that a later sum or product contracts."""
    along, parts = node.op.axis % item.var.ndim, inputs_of(node)
    lengths = [v.type.shape[along] for v in parts]
    if along == item.axis:
        raise NotReadableError("it joins rows of several terms")
    if None in lengths:
        raise NotReadableError("it joins terms of unknown width")
    items = []
    for part, stop in zip(parts, np.cumsum(lengths), strict=True):
        cut: list[Any] = [slice(None)] * item.var.ndim
        cut[along] = slice(int(stop) - part.type.shape[along], int(stop))
        weight, scale = item.weight, item.scale
        if weight is not None and carries(weight, along):
            weight = weight[tuple(cut)]
        if scale is not None and scale.shape[along] != 1:
            scale = scale[tuple(cut)]
        items.append(Item(part, item.axis, weight, scale))
    return items


STEPS: dict[type, Step] = {
    ViewOp: _same,
    SpecifyShape: _same,
    ps.Identity: _same,
    ps.Cast: _same,
    ps.Add: _add,
    ps.Sub: _sub,
    ps.Neg: _neg,
    ps.Second: _second,
    ps.Mul: _mul,
    ps.TrueDiv: _true_div,
    Alloc: _alloc,
    DimShuffle: _dimshuffle,
    Reshape: _reshape,
    Sum: _sum,
    Dot: _dot,
    Subtensor: _subtensor,
    Join: _join,
}
# Constant graphs of these are looked through: no data is computed.
VIEWS = frozenset({ViewOp, SpecifyShape, ps.Identity, ps.Cast, ps.Second, DimShuffle, Alloc})
