"""Vector-Jacobian products of a linear predictor's operations, one rule for each."""

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
from pytensor.tensor.subtensor import IncSubtensor, Subtensor
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.graphs.tools import evaluate, free_inputs, index_of, numbers_of
from pymc_flymc.reading.cotangent import (
    CHANGE_POINT,
    PRODUCT,
    QUOTIENT,
    TAKES_ROWS,
    TWO_MATRICES,
    Context,
    Cotangent,
    NotReadableError,
    Rule,
    inputs_of,
    not_linear,
    only_rows,
    operand,
    scaled,
    times,
    varies,
)
from pymc_flymc.reading.lookups import split_lookup
from pymc_flymc.reading.taken_rows import one_below_the_other, rows_of_slice

#: Why vertically concatenated rows of several terms are refused, and what to write.
_JOINS_ROWS = (
    "it joins rows of several terms",
    "observe the rows of each term as a likelihood of their own, in one model",
)
_UNKNOWN_WIDTH = "it contains {} of a term of unknown width"


def _selected(ct: Cotangent, node: Apply, context: Context) -> list[Cotangent]:
    """Read columns of a matrix that holds data and variables: ``(X @ B)[:, 0]``."""
    source = inputs_of(node)[0]
    index = index_of(node, 1)
    kept = [i for i in range(source.ndim) if isinstance(index[i], slice)]
    axis = kept[ct.axis]
    shape = [1 if i == axis else n for i, n in enumerate(source.type.shape)]
    if index[axis] != slice(None):
        rows = None if context.any_rows else rows_of_slice(node, axis)
        if rows is None:
            raise NotReadableError(*TAKES_ROWS)
        return [replace(ct, var=rows)]
    if None in shape or not only_rows(ct):
        raise NotReadableError(_UNKNOWN_WIDTH.format(node.op))
    weight = pt.set_subtensor(
        pt.zeros(shape, "float64")[tuple(index)], 1.0 if ct.weight is None else ct.weight
    )
    scale = ct.scale
    if scale is not None:
        scale = scale.reshape([-1 if i == axis else 1 for i in range(source.ndim)])
    return [Cotangent(source, axis, weight, scale)]


def _joined(ct: Cotangent, node: Apply, context: Context) -> list[Cotangent]:
    """Read concatenated columns, which a later sum or product contracts."""
    along, parts = node.op.axis % ct.var.ndim, inputs_of(node)
    lengths = [v.type.shape[along] for v in parts]
    if along == ct.axis:
        n_rows = sum(n or 0 for n in lengths)
        rows = None if context.any_rows else one_below_the_other(node, np.arange(n_rows))
        if rows is None:
            raise NotReadableError(*_JOINS_ROWS)
        return [replace(ct, var=pt.moveaxis(rows, 0, along))]
    if None in lengths:
        raise NotReadableError("it joins terms of unknown width")
    found = []
    for part, stop in zip(parts, np.cumsum(lengths), strict=True):
        cut: list[Any] = [slice(None)] * ct.var.ndim
        cut[along] = slice(int(stop) - part.type.shape[along], int(stop))
        weight, scale = ct.weight, ct.scale
        if weight is not None and varies(weight, along):
            weight = weight[tuple(cut)]
        if scale is not None and scale.shape[along] != 1:
            scale = scale[tuple(cut)]
        found.append(Cotangent(part, ct.axis, weight, scale))
    return found


def _set(ct: Cotangent, node: Apply, context: Context) -> list[Cotangent]:
    """Read columns that are set or incremented: ``set_subtensor(zeros[:, 1:], X @ B)``."""
    base, value, *places = inputs_of(node)
    if index_of(node, 2)[ct.axis] != slice(None) or not all(map(context.is_constant, places)):
        raise not_linear(node)  # some rows are set
    if None in [n for i, n in enumerate(ct.var.type.shape) if i != ct.axis]:
        raise NotReadableError(_UNKNOWN_WIDTH.format(node.op))
    index = [numbers_of(each) for each in index_of(node, 2)]
    weight, scale = ct.weight, ct.scale
    # The columns that are set, as a separate term, with their weights.
    columns = ct.var[tuple(index)]
    axis = sum(isinstance(each, slice) for each in index[: ct.axis])
    part = Cotangent(
        columns,
        axis,
        None if weight is None else weight[_where_it_varies(index, weight.type.shape)],
        None if scale is None else scale[_where_it_varies(index, scale.shape)],
    )
    missing = columns.ndim - value.ndim
    value = value.dimshuffle(*"x" * missing, *range(value.ndim)) if missing else value
    if node.op.set_instead_of_inc:
        # Set columns hold nothing of the base.
        shape = [1 if i == ct.axis else n for i, n in enumerate(ct.var.type.shape)]
        kept = np.ones(shape)
        kept[tuple(index)] = 0.0
        weight = pt.constant(kept) if weight is None else weight * pt.constant(kept)
    return [Cotangent(base, ct.axis, weight, scale), operand(value, part)]


def _where_it_varies(index: list[Any], shape: tuple[int | None, ...]) -> tuple[Any, ...]:
    """Return an index of an array that is broadcast: it selects all of axes of length 1."""
    return tuple(
        (each if n != 1 else slice(None) if isinstance(each, slice) else 0)
        for each, n in zip(index, shape, strict=True)
    )


#: Rules by type of operation.
COLUMN_RULES: dict[type, Rule] = {Subtensor: _selected, Join: _joined, IncSubtensor: _set}


def _negative(ct: Cotangent) -> Cotangent:
    weight = ct.weight
    if weight is None:
        weight = pt.constant(np.full((1,) * ct.var.ndim, -1.0))
    else:
        weight = -weight
    return replace(ct, weight=weight)


def _same(ct: Cotangent, node: Apply, context: Context) -> list[Cotangent]:
    """Pass casts, copies, and views: the result is the first argument."""
    source = inputs_of(node)[0]
    if not context.is_constant(source) and "float" in source.type.dtype != ct.var.type.dtype:
        if "float" not in ct.var.type.dtype:
            raise NotReadableError(f"it contains {node.op}, which rounds")
    return [replace(ct, var=source)]


def _add(ct: Cotangent, node: Apply, context: Context) -> list[Cotangent]:
    return [operand(v, ct) for v in inputs_of(node)]


def _sub(ct: Cotangent, node: Apply, context: Context) -> list[Cotangent]:
    return [operand(inputs_of(node)[0], ct), operand(inputs_of(node)[1], _negative(ct))]


def _neg(ct: Cotangent, node: Apply, context: Context) -> list[Cotangent]:
    return [replace(_negative(ct), var=inputs_of(node)[0])]


def _second(ct: Cotangent, node: Apply, context: Context) -> list[Cotangent]:
    return [operand(inputs_of(node)[1], ct)]


def _mul(ct: Cotangent, node: Apply, context: Context) -> list[Cotangent]:
    rows = [v for v in inputs_of(node) if varies(v, ct.axis)]
    free = [v for v in rows if not context.is_constant(v)]
    if len(free) > 1:
        raise NotReadableError(*PRODUCT)
    main = free[0] if free else max(rows, key=lambda v: v.type.broadcastable.count(False))
    weight, scale = ct.weight, ct.scale
    for v in inputs_of(node):
        if not varies(v, ct.axis):
            weight = times(weight, v)
        elif v is not main:
            # Whatever the types of the data: one by one they are multiplied by a float.
            factor = evaluate(v).astype(np.float64, copy=False)
            same = factor.take([0], axis=ct.axis)
            if not context.any_rows and np.all(factor == same):
                # A factor that is the same in all rows, such as ones that only lend their shape,
                # goes into the weight. The data are not copied.
                weight = times(weight, pt.constant(same))
            else:
                scale = scaled(np.multiply, scale, factor, context)
    return [operand(main, replace(ct, weight=weight, scale=scale))]


def _switch(ct: Cotangent, node: Apply, context: Context) -> list[Cotangent]:
    condition, yes, no = inputs_of(node)
    if not context.is_constant(condition):
        raise NotReadableError(*CHANGE_POINT)
    return [operand(v, ct) for v in (pt.neq(condition, 0) * yes, pt.eq(condition, 0) * no)]


def _true_div(ct: Cotangent, node: Apply, context: Context) -> list[Cotangent]:
    over, under = inputs_of(node)
    if not varies(under, ct.axis):
        # As float64: PyTensor computes the reciprocal of a short integer in single precision.
        weight = times(ct.weight, pt.reciprocal(under.astype("float64")))
        return [operand(over, replace(ct, weight=weight))]
    if not context.is_constant(under):
        raise NotReadableError(*QUOTIENT)
    value = evaluate(under).astype(np.float64, copy=False)
    return [operand(over, replace(ct, scale=scaled(np.divide, ct.scale, value, context)))]


def _alloc(ct: Cotangent, node: Apply, context: Context) -> list[Cotangent]:
    value = inputs_of(node)[0]
    missing = ct.var.ndim - value.ndim
    if missing:
        value = value.dimshuffle(*"x" * missing, *range(value.ndim))
    return [operand(value, ct)]


def _shuffled(ct: Cotangent, source: TensorVariable, order: Sequence[int | str]) -> list[Cotangent]:
    """Pass through ``ct.var = source.dimshuffle(order)``."""
    back: list[Any] = [order.index(i) if i in order else "x" for i in range(source.ndim)]
    weight, scale = ct.weight, ct.scale
    if weight is not None:
        weight = weight.dimshuffle(back)
    if scale is not None:
        kept = [i for i in back if i != "x"]
        extra = [i for i in range(ct.var.ndim) if i not in kept]
        shape = [1 if i == "x" else scale.shape[i] for i in back]
        scale = np.transpose(scale, kept + extra).reshape(shape)
    return [Cotangent(source, int(order[ct.axis]), weight, scale)]


def _dimshuffle(ct: Cotangent, node: Apply, context: Context) -> list[Cotangent]:
    return _shuffled(ct, inputs_of(node)[0], node.op.new_order)


def _reshape(ct: Cotangent, node: Apply, context: Context) -> list[Cotangent]:
    """Pass reshapes that only add or drop axes of length 1, or flatten a table."""
    source = inputs_of(node)[0]
    long_in = [i for i in range(source.ndim) if varies(source, i)]
    long_out = [i for i in range(ct.var.ndim) if varies(ct.var, i)]
    lengths = [
        {source.type.shape[i], ct.var.type.shape[j]} - {None}
        for i, j in zip(long_in, long_out, strict=False)
    ]
    if ct.var.ndim == 1 < len(long_in) and None not in source.type.shape:
        index = np.indices(source.type.shape, np.int32).reshape(source.ndim, -1)
        split = split_lookup(source[tuple(index)].owner)
        if split is not None:
            return [replace(ct, var=split)]
    if len(long_in) != len(long_out) or any(len(known) > 1 for known in lengths):
        raise NotReadableError("it contains a reshape other than adding or dropping axes")
    partner = dict(zip(long_out, long_in, strict=True))
    order: list[int | str] = [partner.get(i, "x") for i in range(ct.var.ndim)]
    return _shuffled(ct, source, order)


def _sum(ct: Cotangent, node: Apply, context: Context) -> list[Cotangent]:
    source = inputs_of(node)[0]
    gone = tuple(a % source.ndim for a in node.op.axis)
    axis = [i for i in range(source.ndim) if i not in gone][ct.axis]
    weight = None if ct.weight is None else pt.expand_dims(ct.weight, gone)
    scale = None if ct.scale is None else np.expand_dims(ct.scale, gone)
    return [Cotangent(source, axis, weight, scale)]


def _dot(ct: Cotangent, node: Apply, context: Context) -> list[Cotangent]:
    """Pass ``left (..., I, K) @ right (..., K, J)`` with the rows along I, J or a batch axis."""
    left, right = inputs_of(node)
    ndim, axis = ct.var.ndim, ct.axis
    if not only_rows(ct):
        raise NotReadableError(TWO_MATRICES)
    if axis < ndim - 2 and not varies(ct.var, ndim - 1) and not varies(ct.var, ndim - 2):
        # One inner product for each row, ``vecdot(X, B[group])``: a sum of products.
        product = left.swapaxes(-1, -2) * right
        return _mul(Cotangent(product, axis, ct.weight, ct.scale), product.owner, context)
    by_left = axis != ndim - 1 and varies(left, axis)
    by_right = axis != ndim - 2 and varies(right, axis)
    if by_left and by_right:
        raise NotReadableError("it contains a dot product of two terms that both have rows")
    # Weights (..., I, J) and the other operand are multiplied as (..., I, K, J).
    if by_left:
        carrier, along = left, ndim
        other = right.dimshuffle(*range(ndim - 2), "x", ndim - 2, ndim - 1)
    else:
        carrier, along = right, ndim - 2
        other = left.dimshuffle(*range(ndim), "x")
    weight = other = other.astype("float64")
    if ct.weight is not None:
        weight = _product(ct.weight.dimshuffle(*range(ndim - 1), "x", ndim - 1), other, along)
    weight = weight.sum(axis=along) if varies(weight, along) else weight.squeeze(axis=along)
    for k in range(ndim - 2):
        if k != axis and not varies(carrier, k) and varies(weight, k):
            weight = weight.sum(axis=k, keepdims=True)
    return [Cotangent(carrier, axis, weight, ct.scale)]


def _product(weight: TensorVariable, other: TensorVariable, along: int) -> TensorVariable:
    """Return a weight times another operand; along an axis it often selects a single column."""
    if varies(weight, along) and not free_inputs([weight]):
        values = evaluate(weight)
        places = np.unique(np.nonzero(values)[along])
        if len(places) == 1:
            column = (slice(None),) * along + (slice(int(places[0]), int(places[0]) + 1),)
            return pt.constant(values[column]) * other[column]
    return weight * other


RULES: dict[type, Rule] = {
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
    ps.Switch: _switch,
    Alloc: _alloc,
    DimShuffle: _dimshuffle,
    Reshape: _reshape,
    Sum: _sum,
    Dot: _dot,
    **COLUMN_RULES,
}
# The traversal goes through constant graphs of these, as they compute no data.
VIEWS = frozenset({ViewOp, SpecifyShape, ps.Identity, ps.Cast, ps.Second, DimShuffle, Alloc})
