"""The axis of rows of an operation's result, if rows stay independent of each other.

Rules take a node and the kinds of its inputs, and return the kind of its outputs. Most of them map
axes of inputs to axes of the output, and `meet` does the rest.
"""

import math
from collections.abc import Sequence
from typing import Any

from pytensor.compile.ops import DeepCopyOp, ViewOp
from pytensor.graph.basic import Apply
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import Alloc, Join, ScalarFromTensor, Split, TensorFromScalar
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp, Repeat
from pytensor.tensor.math import Argmax, Dot
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pytensor.tensor.sort import ArgSortOp, SortOp
from pytensor.tensor.subtensor import AdvancedSubtensor, IncSubtensor, Subtensor

from pymc_flymc.graphs.tools import index_of
from pymc_flymc.reading.row_kinds import (
    COUNT,
    NUMBER,
    DependentError,
    Kind,
    RowAxis,
    RowCount,
    Rules,
    StatisticError,
    meet,
)

_REORDERED = "some rows taken out of all, or in another order"


def same(node: Apply, own: Sequence[Any]) -> Kind:
    """Return the kind of the first argument, of which the result is a copy or a view."""
    return own[0]


def _elemwise(node: Apply, own: Sequence[Any]) -> Kind:
    return RowAxis(meet(node, node.inputs, own, [0] * len(own)))


def random(node: Apply, own: Sequence[Any]) -> Kind:
    """Follow rows of parameters to rows of draws: their batch axes come first."""
    op: Any = node.op
    n_batch, params = node.outputs[1].type.ndim - op.ndim_supp, list(op.dist_params(node))
    kinds = [own[node.inputs.index(param)] for param in params]
    found = set()
    for param, kind, n_core in zip(params, kinds, op.ndims_params, strict=True):
        if isinstance(kind, RowCount):
            raise StatisticError("the number of rows, as a parameter of a distribution")
        if kind is not None:
            behind = param.type.ndim - n_core - kind.axis
            if behind <= 0:
                raise DependentError(f"{op} of all rows together")
            found.add(n_batch - behind)
    if len(found) > 1:
        raise DependentError(f"{op} of rows along different axes")
    return RowAxis(found.pop()) if found else None


def _dimshuffle(node: Apply, own: Sequence[Any]) -> Kind:
    order = list(node.op.new_order)
    if own[0].axis not in order:
        raise DependentError(f"{node.op} of rows")
    return RowAxis(order.index(own[0].axis))


#: Names of reductions for messages, by the scalar operation that they repeat.
REDUCTIONS: dict[type, str] = {
    ps.Add: "a sum, mean or variance",
    ps.Mul: "a product",
    ps.Maximum: "a maximum or minimum",
    ps.AND: "all()",
    ps.OR: "any()",
}


def _reduce(node: Apply, own: Sequence[Any]) -> Kind:
    op, ndim, axis = node.op, node.inputs[0].type.ndim, own[0].axis
    gone = range(ndim) if op.axis is None else [each % ndim for each in op.axis]
    if axis in gone:
        name = REDUCTIONS.get(type(getattr(op, "scalar_op", None)), "a reduction")
        raise StatisticError(f"{name} over rows ({op})")
    return RowAxis(axis - sum(each < axis for each in gone))


def _along_axis(node: Apply, own: Sequence[Any]) -> Kind:
    """Follow an operation that depends on order, or changes the length, along one axis."""
    kind, axis = own[0], getattr(node.op, "axis", None)
    ndim = node.inputs[0].type.ndim
    if kind is None or axis is None or axis % ndim == kind.axis or any(own[1:]):
        raise StatisticError(f"{node.op} along rows")
    return kind


def _dot(node: Apply, own: Sequence[Any]) -> Kind:
    left, right = own
    ndim = node.outputs[0].type.ndim
    if left == RowAxis(ndim - 1) or right == RowAxis(ndim - 2):
        raise StatisticError("a product of matrices that is summed over rows")
    kind = left or right
    if None not in own and (left != right or kind.axis >= ndim - 2):
        raise DependentError("a product of each row with each other row")
    return kind


def _blockwise(node: Apply, own: Sequence[Any]) -> Kind:
    """Follow rows along batch axes, to each of which the same operation is applied."""
    op: Any = node.op
    if isinstance(op.core_op, Dot):
        return _dot(node, own)
    if any(kind is not None and kind.axis >= op.batch_ndim(node) for kind in own):
        raise DependentError(f"{op} of all rows together")
    return _elemwise(node, own)


# --- operations that index, join and reshape ------------------------------------------------------


def _n_slices(index: Sequence[Any]) -> int:
    return sum(isinstance(i, slice) for i in index)


def _subtensor(node: Apply, own: Sequence[Any]) -> Kind:
    index, axis = index_of(node, 1), getattr(own[0], "axis", None)
    if axis is None or any(own[1:]) or index[axis] != slice(None):
        raise DependentError(f"{_REORDERED} ({node.op})")
    return RowAxis(_n_slices(index[:axis]))


def _lookup(node: Apply, own: Sequence[Any]) -> Kind:
    """Follow NumPy's rule: axes of index arrays stand where the first of them is, or in front."""
    source, index = own[0], index_of(node, 1)
    arrays = [i for i, each in enumerate(index) if not isinstance(each, slice)]
    apart = arrays[-1] - arrays[0] >= len(arrays)
    n_new = max(index[i].type.ndim for i in arrays)
    if any(own[1:]):
        if source is not None:
            raise DependentError(f"rows looked up by rows ({node.op})")
        kinds = dict(zip(node.inputs[1:], own[1:], strict=True))
        used = [index[i] for i in arrays]
        shifts = [n_new - v.type.ndim for v in used]
        place = 0 if apart else _n_slices(index[: arrays[0]])
        return RowAxis(place + meet(node, used, [kinds.get(v) for v in used], shifts))
    if index[source.axis] != slice(None):
        raise DependentError(f"{_REORDERED} ({node.op})")
    in_front = n_new if apart or arrays[0] < source.axis else 0
    return RowAxis(_n_slices(index[: source.axis]) + in_front)


def _set(node: Apply, own: Sequence[Any]) -> Kind:
    """Follow rows whose elements are set or incremented by a number or by the row's own numbers."""
    base, index = own[0], index_of(node, 2)
    if base is None or any(own[2:]):
        raise DependentError(f"{node.op} of rows")
    if index[base.axis] != slice(None):
        raise DependentError(f"some rows changed and others not ({node.op})")
    behind = _n_slices(index[base.axis :])
    shift = base.axis - (node.inputs[1].type.ndim - behind)
    return RowAxis(meet(node, node.inputs[:2], own[:2], [0, shift]))


def _join(node: Apply, own: Sequence[Any]) -> Kind:
    axis = meet(node, node.inputs, own, [0] * len(own))
    if axis == node.op.axis % node.outputs[0].type.ndim:
        raise DependentError(f"rows joined one after the other ({node.op})")
    if None in own:
        raise DependentError(f"rows joined with something of another length ({node.op})")
    return RowAxis(axis)


def alloc(node: Apply, own: Sequence[Any]) -> Kind:
    """Follow a repeated value: an axis whose length is the number of rows is the axis of rows."""
    value, *lengths = own
    if isinstance(value, RowCount):
        raise StatisticError(NUMBER)
    long = [RowAxis(i) for i, kind in enumerate(lengths) if kind is not None]
    shifts = [len(lengths) - node.inputs[0].type.ndim, *[0] * len(long)]
    return RowAxis(meet(node, node.inputs[: len(shifts)], [value, *long], shifts))


def reshape(node: Apply, own: Sequence[Any]) -> Kind:
    """Follow a reshape that merges or splits axes other than the axis of rows."""
    kind, shape = own
    source, out = node.inputs[0].type, node.outputs[0].type
    if isinstance(kind, RowCount) and (source.ndim, out.ndim) in ((0, 1), (1, 0), (1, 1)):
        return kind
    if not isinstance(kind, RowAxis):
        raise StatisticError(f"{node.op} by the number of rows")
    if isinstance(shape, RowCount) and len(shape.places) == 1:
        (axis,) = shape.places
        if _size(source.shape[: kind.axis]) == 1 and _size(out.shape[:axis]) == 1:
            return RowAxis(axis)
    long_in = [i for i in range(source.ndim) if source.shape[i] != 1]
    long_out = [i for i in range(out.ndim) if out.shape[i] != 1]
    if len(long_in) == len(long_out) and kind.axis in long_in:
        axis = long_out[long_in.index(kind.axis)]
        before = [source.shape[i] for i in long_in if i != kind.axis]
        after = [out.shape[i] for i in long_out if i != axis]
        if out.shape[axis] is None and None not in before and before == after:
            return RowAxis(axis)
    # Rows come first, and the size of the other axes is known and kept: the first axis is of rows.
    behind, of_out = _size(source.shape[kind.axis + 1 :]), _size(out.shape[1:])
    first = _size(source.shape[: kind.axis]) == 1
    if first and behind is not None and behind == of_out and out.shape[0] is None:
        return RowAxis(0)
    raise DependentError(f"{node.op}, which may put numbers of several rows together")


def _size(shape: Sequence[int | None]) -> int | None:
    return None if None in shape else math.prod(n for n in shape if n is not None)


def _shape(node: Apply, own: Sequence[Any]) -> Kind:
    return RowCount(frozenset([own[0].axis]))


def _shape_i(node: Apply, own: Sequence[Any]) -> Kind:
    return COUNT if own[0].axis == node.op.i else None


COPIES = (ViewOp, DeepCopyOp, SpecifyShape, TensorFromScalar, ScalarFromTensor, CheckAndRaise)
#: Rules for operations on rows, and on other tensors.
RULES: Rules = (
    (COPIES, same),
    (Elemwise, _elemwise),
    (DimShuffle, _dimshuffle),
    ((CAReduce, Argmax), _reduce),
    ((CumOp, SortOp, ArgSortOp, Repeat, Split), _along_axis),
    (Dot, _dot),
    (Blockwise, _blockwise),
    (RandomVariable, random),
    (Subtensor, _subtensor),
    (AdvancedSubtensor, _lookup),
    (IncSubtensor, _set),
    (Join, _join),
    (Alloc, alloc),
    (Reshape, reshape),
    (Shape, _shape),
    (Shape_i, _shape_i),
)
