"""Whether each row of a graph depends on its own row of the data alone."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytensor.compile.builders import OpFromGraph
from pytensor.compile.ops import DeepCopyOp, ViewOp
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors, toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import Alloc, Join, MakeVector, ScalarFromTensor, Split, TensorFromScalar
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp, Repeat
from pytensor.tensor.math import Argmax, Dot
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pytensor.tensor.sort import ArgSortOp, SortOp
from pytensor.tensor.subtensor import AdvancedSubtensor, IncSubtensor, Subtensor
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.compat.pytensor import inline_ofg_node
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import evaluate, index_of


@dataclass(frozen=True)
class RowAxis:
    """A tensor with a slice for each row along an axis; a slice depends on its own row alone."""

    axis: int


@dataclass(frozen=True)
class RowCount:
    """A scalar, or a vector of integers, that has the number of rows, a length, at some places."""

    places: frozenset[int]


#: Kind of a variable; None if it does not depend on the rows.
Kind = RowAxis | RowCount | None
#: Operations, with functions from a node and the kinds of its inputs to the kind of its outputs.
Rules = tuple[tuple[Any, Callable[[Apply, Sequence[Any]], Kind]], ...]
#: The number of rows itself.
COUNT = RowCount(frozenset([0]))
NUMBER = "the number of rows, as a number"


class DependentError(Exception):
    """Rows depend on each other; the message completes "it contains ..."."""


class StatisticError(DependentError):
    """A number that is computed from all rows, or is the number of rows."""


def meet(
    node: Apply, inputs: Sequence[Variable], own: Sequence[Kind], shifts: Sequence[int]
) -> int:
    """Return the output's axis of rows, where axis k of an input is axis k + shift of the output.

    Rows along different axes are refused, and so are other arrays with a value for each row.
    """
    axes = {k.axis + shift for k, shift in zip(own, shifts, strict=True) if isinstance(k, RowAxis)}
    if len(axes) != 1:
        raise DependentError(f"{node.op} of rows along different axes")
    (axis,) = axes
    for v, kind, shift in zip(inputs, own, shifts, strict=True):
        if kind is None and axis >= shift and not v.type.broadcastable[axis - shift]:
            named = [repr(u.name) for u in ancestors([v]) if u.owner is None and u.name]
            what = ", ".join(named[:3]) or "an array of numbers"
            raise DependentError(f"a value for each row ({what}) that no container of data= holds")
    return axis


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


def _cast_count(node: Apply, own: Sequence[Any]) -> Kind:
    op: Any = node.op
    if not isinstance(op.scalar_op, ps.Cast | ps.Identity):
        raise StatisticError(f"{NUMBER} in {op}")
    return own[0]


def _shuffled_count(node: Apply, own: Sequence[Any]) -> Kind:
    if list(node.op.new_order) not in ([0], [], ["x"]):
        raise StatisticError(NUMBER)
    return own[0]


def _part_of_count(node: Apply, own: Sequence[Any]) -> Kind:
    n = node.inputs[0].type.shape[0] if isinstance(own[0], RowCount) else None
    if n is None or not all(isinstance(v, Constant) for v in node.inputs[1:]):
        raise StatisticError(f"{NUMBER}, or as an index")
    (at,) = index_of(node, 1)
    if not isinstance(at, slice):
        return COUNT if range(n)[int(evaluate(at))] in own[0].places else None
    bounds = [None if v is None else int(evaluate(v)) for v in (at.start, at.stop, at.step)]
    left = range(n)[slice(*bounds)]
    places = frozenset(i for i, place in enumerate(left) if place in own[0].places)
    return RowCount(places) if places else None


def _joined_counts(node: Apply, own: Sequence[Any]) -> Kind:
    """Follow lengths of axes that are joined to a shape."""
    places, start = set(), 0
    for v, kind in zip(node.inputs, own, strict=True):
        n = v.type.shape[0] if v.type.ndim else 1
        if n is None or isinstance(kind, RowAxis):
            raise StatisticError(NUMBER)
        if isinstance(kind, RowCount):
            places |= {start + i for i in kind.places}
        start += n
    return RowCount(frozenset(places))


#: Rules for operations with the number of rows among their inputs.
COUNT_RULES: Rules = (
    (COPIES, same),
    (Elemwise, _cast_count),
    (DimShuffle, _shuffled_count),
    (Subtensor, _part_of_count),
    ((Join, MakeVector), _joined_counts),
    (RandomVariable, random),
    (Alloc, alloc),
    (Reshape, reshape),
    ((Shape, Shape_i), lambda node, own: None),
)


def check_rows_alone(
    of_rows: Sequence[TensorVariable],
    shared: Sequence[Variable],
    containers: Mapping[str, Variable],
    name: str,
    observed: Variable | None = None,
) -> None:
    """Refuse graphs in which a row depends on other rows, or on the number of rows.

    `of_rows` are graphs with a row of their first axis for each row of the data, or without such an
    axis; `shared` are graphs of what is the same for all rows; `containers` hold rows along their
    first axis. `observed` is the observed random variable, whose parameters may have been read as
    numbers. Its graph may hold more than its parameters; statistics of rows are refused there, too.
    """
    kinds: dict[Variable, Kind | DependentError] = dict.fromkeys(containers.values(), RowAxis(0))
    further = [] if observed is None else [observed]
    _follow([*of_rows, *shared, *further], kinds)
    for graph in [*of_rows, *shared, *further]:
        kind = kinds.get(graph)
        if graph in further and not isinstance(kind, StatisticError):
            continue
        if isinstance(kind, DependentError):
            said = str(kind)
        elif isinstance(kind, RowCount):
            said = "the number of rows"
        elif isinstance(kind, RowAxis) and (kind.axis or graph in shared):
            said = "rows of the data in a place where other things stand"
        elif kind is None and graph in of_rows and not all(graph.type.broadcastable[:1]):
            said = "a value for each row that no container of data= holds"
        else:
            continue
        above = set(ancestors([graph]))
        used = ", ".join(repr(each) for each, v in containers.items() if v in above)
        raise UnsupportedModelError(
            f"the rows of {name!r}, those of {used}, depend on each other or are not of data=: the "
            f"model contains {said}. The model is written on the first rows, and such a thing "
            "would be that of the first rows alone: compute it before the model, from all rows, "
            "and put it in as numbers, or as a container that data= names"
        )


def statistics_of_rows(
    graphs: Mapping[str, Variable], containers: Mapping[str, Variable]
) -> dict[str, str]:
    """Return which graphs are statistics of several rows, by name, and which statistics."""
    kinds: dict[Variable, Kind | DependentError] = dict.fromkeys(containers.values(), RowAxis(0))
    _follow([*graphs.values()], kinds)
    found = {name: kinds.get(graph) for name, graph in graphs.items()}
    return {name: str(kind) for name, kind in found.items() if isinstance(kind, StatisticError)}


def _follow(outputs: Sequence[Variable], kinds: dict[Variable, Kind | DependentError]) -> None:
    """Find the kinds of all variables that the outputs are computed from."""
    for node in toposort(list(outputs), blockers=list(kinds)):
        own = [kinds.get(v) for v in node.inputs]
        if isinstance(node.op, CheckAndRaise):  # conditions raise, and have no other effect
            own = own[:1]
        if all(kind is None for kind in own):
            continue
        if isinstance(node.op, OpFromGraph):
            inner = inline_ofg_node(node)
            _follow(inner, kinds)
            kinds.update((out, kinds.get(v)) for out, v in zip(node.outputs, inner, strict=True))
            continue
        found: Kind | DependentError | None
        found = next((kind for kind in own if isinstance(kind, DependentError)), None)
        try:
            found = found or _kind_of_outputs(node, own)
        except DependentError as error:
            found = error
        kinds.update(dict.fromkeys(node.outputs, found))


def _kind_of_outputs(node: Apply, own: Sequence[Any]) -> Kind:
    """Return the kind of a node's outputs from those of its inputs, or raise `DependentError`."""
    counts = any(isinstance(kind, RowCount) for kind in own)
    for ops, rule in COUNT_RULES if counts else RULES:
        if isinstance(node.op, ops):
            return rule(node, own)
    if counts:
        # PyMC's mixtures, such as zero-inflated counts, number their rows by an ARange.
        known = any(isinstance(node.op, ops) for ops, _ in RULES)
        raise (StatisticError if known else DependentError)(f"{NUMBER} in {node.op}")
    raise DependentError(
        f"{node.op} of rows, of which it is not known that it takes each row alone"
    )
