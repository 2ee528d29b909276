"""What operations that index, join and reshape do with the axis of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytensor.graph.basic import Apply, Constant
from pytensor.tensor.basic import Alloc, Join, MakeVector, Split
from pytensor.tensor.shape import Reshape, Shape, Shape_i
from pytensor.tensor.subtensor import (
    AdvancedSubtensor,
    IncSubtensor,
    Subtensor,
    indices_from_subtensor,
)

from pymc_flymc.graphs.tools import evaluate
from pymc_flymc.reading.row_kinds import (
    LENGTH,
    DependentError,
    Kind,
    Lengths,
    Rows,
    Rules,
    StatisticError,
    check_others_are_short,
)

__all__ = ["SHAPE_RULES"]


def _index(node: Apply, first: int) -> list[Any]:
    """Return one index for each axis of a node's first argument."""
    index: list[Any] = list(indices_from_subtensor(node.inputs[first:], node.op.idx_list))
    return index + [slice(None)] * (node.inputs[0].type.ndim - len(index))


def _is_all(index: Any) -> bool:
    return isinstance(index, slice) and index == slice(None)


def _subtensor(node: Apply, own: Sequence[Kind]) -> Kind:
    kind, index = own[0], _index(node, 1)
    if any(own[1:]):
        raise StatisticError("the number of rows, as an index")
    if isinstance(kind, Lengths):
        (at,) = index
        n = node.inputs[0].type.shape[0]
        if n is None or not all(isinstance(v, Constant) for v in node.inputs[1:]):
            raise StatisticError("the number of rows, as a number")
        numbers = list(range(n))
        if isinstance(at, slice):
            parts = [None if v is None else int(evaluate(v)) for v in (at.start, at.stop, at.step)]
            left = numbers[slice(*parts)]
            places = frozenset(i for i, place in enumerate(left) if place in kind.places)
            return Lengths(places) if places else None
        return LENGTH if numbers[int(evaluate(at))] in kind.places else None
    assert isinstance(kind, Rows)
    if not _is_all(index[kind.axis]):
        raise DependentError(f"some rows taken out of all, or in another order ({node.op})")
    return Rows(sum(isinstance(i, slice) for i in index[: kind.axis]))


def _lookup(node: Apply, own: Sequence[Kind]) -> Kind:
    """NumPy's rule: the axes of index arrays stand where the first of them is, or in front."""
    source, index = own[0], _index(node, 1)
    kinds = dict(zip(node.inputs[1:], own[1:], strict=True))
    arrays = [i for i, each in enumerate(index) if not isinstance(each, slice)]
    apart = arrays[-1] - arrays[0] >= len(arrays)
    n_new = max(index[i].type.ndim for i in arrays)
    place = 0 if apart else sum(isinstance(i, slice) for i in index[: arrays[0]])
    of_index = [kinds.get(index[i]) for i in arrays]
    if any(isinstance(kind, Lengths) for kind in own):
        raise StatisticError("the number of rows, as an index")
    if any(kinds.values()):
        if source is not None:
            raise DependentError(f"rows looked up by rows ({node.op})")
        axes = {
            n_new - index[i].type.ndim + kind.axis
            for i, kind in zip(arrays, of_index, strict=True)
            if isinstance(kind, Rows)
        }
        if len(axes) != 1:
            raise DependentError(f"a lookup of rows along different axes ({node.op})")
        (axis,) = axes
        for i, kind in zip(arrays, of_index, strict=True):
            own_axis = axis - n_new + index[i].type.ndim
            if own_axis >= 0:
                check_others_are_short([index[i]], [kind], own_axis)
        return Rows(place + axis)
    assert isinstance(source, Rows)
    if not _is_all(index[source.axis]):
        raise DependentError(f"some rows taken out of all, or in another order ({node.op})")
    before = sum(isinstance(i, slice) for i in index[: source.axis])
    return Rows(before + (n_new if apart or arrays[0] < source.axis else 0))


def _set(node: Apply, own: Sequence[Kind]) -> Kind:
    """Elements of each row set, or added to, by a number or by the row's own numbers."""
    base, new = own[:2]
    index = _index(node, 2)
    if not isinstance(base, Rows) or any(own[2:]) or isinstance(new, Lengths):
        raise DependentError(f"{node.op} of rows")
    if not _is_all(index[base.axis]):
        raise DependentError(f"some rows changed and others not ({node.op})")
    behind = sum(isinstance(i, slice) for i in index[base.axis :])
    axis = node.inputs[1].type.ndim - behind
    if axis >= 0:
        check_others_are_short([node.inputs[1]], [new], axis)
    if isinstance(new, Rows) and new.axis != axis:
        raise DependentError(f"{node.op} of rows along different axes")
    return base


def _join(node: Apply, own: Sequence[Kind]) -> Kind:
    ndim = node.outputs[0].type.ndim
    along = int(node.op.axis) % ndim
    if any(isinstance(kind, Lengths) for kind in own):
        return _side_by_side(node, own)
    axes = {kind.axis for kind in own if isinstance(kind, Rows)}
    if len(axes) > 1 or along in axes:
        raise DependentError(f"rows joined one after the other ({node.op})")
    (axis,) = axes
    check_others_are_short(node.inputs, own, axis)
    if any(kind is None for kind in own):
        raise DependentError(f"rows joined with something of another length ({node.op})")
    return Rows(axis)


def _side_by_side(node: Apply, own: Sequence[Kind]) -> Kind:
    """Lengths of axes, gathered into a shape."""
    places, start = set(), 0
    for v, kind in zip(node.inputs, own, strict=True):
        n = v.type.shape[0] if v.type.ndim else 1
        if n is None or isinstance(kind, Rows):
            raise StatisticError("the number of rows, as a number")
        if isinstance(kind, Lengths):
            places |= {start + i for i in kind.places}
        start += n
    return Lengths(frozenset(places))


def _split(node: Apply, own: Sequence[Kind]) -> Kind:
    axis = node.op.axis
    if (
        not isinstance(own[0], Rows)
        or any(own[1:])
        or axis % node.inputs[0].type.ndim == own[0].axis
    ):
        raise DependentError(f"{node.op} of rows")
    return own[0]


def _alloc(node: Apply, own: Sequence[Kind]) -> Kind:
    """Repeat a value: the axis that is as long as there are rows is that of rows."""
    value, *lengths = own
    places = {i for i, kind in enumerate(lengths) if kind is not None}
    missing = len(lengths) - node.inputs[0].type.ndim
    if isinstance(value, Rows):
        places.add(missing + value.axis)
    if isinstance(value, Lengths) or len(places) != 1:
        raise StatisticError("the number of rows, as a number")
    (axis,) = places
    if axis >= missing:
        check_others_are_short(node.inputs[:1], own[:1], axis - missing)
    return Rows(axis)


def _reshape(node: Apply, own: Sequence[Kind]) -> Kind:
    """Axes before and behind that of the rows are put together or taken apart, never it."""
    kind, shape = own
    source, out = node.inputs[0].type, node.outputs[0].type
    if isinstance(kind, Lengths) and (source.ndim, out.ndim) in ((0, 1), (1, 0), (1, 1)):
        return kind
    if not isinstance(kind, Rows):
        raise StatisticError(f"{node.op} by the number of rows")
    if isinstance(shape, Lengths) and len(shape.places) == 1:
        (axis,) = shape.places
        if _size(source.shape[: kind.axis]) == 1 and _size(out.shape[:axis]) == 1:
            return Rows(axis)
    long_in = [i for i in range(source.ndim) if source.shape[i] != 1]
    long_out = [i for i in range(out.ndim) if out.shape[i] != 1]
    others = [[n for i, n in enumerate(source.shape) if i in long_in and i != kind.axis]]
    if len(long_in) == len(long_out) and kind.axis in long_in:
        axis = long_out[long_in.index(kind.axis)]
        others.append([n for i, n in enumerate(out.shape) if i in long_out and i != axis])
        if out.shape[axis] is None and None not in others[0] and others[0] == others[1]:
            return Rows(axis)
    # Rows first, and the others' lengths known: what is left is the number of rows.
    behind, of_out = _size(source.shape[kind.axis + 1 :]), _size(out.shape[1:])
    first = _size(source.shape[: kind.axis]) == 1
    if first and behind is not None and behind == of_out and out.shape[0] is None:
        return Rows(0)
    raise DependentError(f"{node.op}, which may put numbers of several rows together")


def _size(shape: Sequence[int | None]) -> int | None:
    size = 1
    for n in shape:
        if n is None:
            return None
        size *= n
    return size


def _shape(node: Apply, own: Sequence[Kind]) -> Kind:
    kind = own[0]
    return Lengths(frozenset([kind.axis])) if isinstance(kind, Rows) else None


def _shape_i(node: Apply, own: Sequence[Kind]) -> Kind:
    kind = own[0]
    return LENGTH if isinstance(kind, Rows) and kind.axis == node.op.i else None


SHAPE_RULES: Rules = (
    (Subtensor, _subtensor),
    (AdvancedSubtensor, _lookup),
    (IncSubtensor, _set),
    (Join, _join),
    (MakeVector, _side_by_side),
    (Split, _split),
    (Alloc, _alloc),
    (Reshape, _reshape),
    (Shape, _shape),
    (Shape_i, _shape_i),
)
