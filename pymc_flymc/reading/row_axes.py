"""Whether each row of a graph depends on its own row of the data alone.

Where data containers hold some of many rows, a statistic of the rows (a mean, their number, their
order) would be that of whichever rows are at hand. The graph tells: what each operation does with
the axis of rows is followed from the containers up, and no value is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytensor.compile.builders import OpFromGraph
from pytensor.compile.ops import DeepCopyOp, ViewOp
from pytensor.compile.rewriting import inline_ofg_node
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors, toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import ScalarFromTensor, TensorFromScalar
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp, Repeat
from pytensor.tensor.math import Argmax, Dot
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.sort import ArgSortOp, SortOp
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.reading.row_kinds import (
    DependentError,
    Kind,
    Lengths,
    Rows,
    Rules,
    StatisticError,
    check_others_are_short,
)
from pymc_flymc.reading.row_shapes import SHAPE_RULES

__all__ = ["check_rows_alone"]


def check_rows_alone(
    of_rows: Sequence[TensorVariable],
    shared: Sequence[Variable],
    containers: Mapping[str, Variable],
    name: str,
    observed: Variable | None = None,
) -> None:
    """Refuse graphs in which a row depends on other rows, or on how many there are.

    Parameters
    ----------
    of_rows : sequence of TensorVariable
        Graphs with a row of their first axis for each row of the data, or with no such axis.
    shared : sequence of Variable
        Graphs of what is the same for all rows.
    containers : mapping
        The variables that hold rows along their first axis, by name.
    name : str
        Of the observed variable, for messages.
    observed : Variable, optional
        The observed random variable itself: what it is made of may have been read as numbers. Of
        its graph, which may hold more than its parameters, statistics of rows are refused.

    Raises
    ------
    UnsupportedModelError
        It names the operation and the containers.
    """
    kinds: dict[Variable, Kind | DependentError] = dict.fromkeys(containers.values(), Rows(0))
    further = [] if observed is None else [observed]
    _follow([*of_rows, *shared, *further], kinds)
    for graph in [*of_rows, *shared, *further]:
        kind = kinds.get(graph)
        if graph in further and not isinstance(kind, StatisticError):
            continue
        if isinstance(kind, DependentError):
            said = str(kind)
        elif isinstance(kind, Lengths):
            said = "the number of rows"
        elif isinstance(kind, Rows) and (kind.axis or graph in shared):
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


def _follow(outputs: Sequence[Variable], kinds: dict[Variable, Kind | DependentError]) -> None:
    """Find the kinds of all variables that some are computed from."""
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
        found: Kind | DependentError
        try:
            found = _kind(node, own)
        except DependentError as error:
            found = error
        kinds.update(dict.fromkeys(node.outputs, found))


def _kind(node: Apply, own: Sequence[Any]) -> Kind:
    """Return the kind of a node's outputs, given those of its inputs."""
    for kind in own:
        if isinstance(kind, DependentError):
            raise kind
    rule = next((rule for ops, rule in RULES if isinstance(node.op, ops)), None)
    if rule is None:
        raise DependentError(
            f"{node.op} of rows, of which it is not known that it takes each row alone"
        )
    return rule(node, own)


def _same(node: Apply, own: Sequence[Kind]) -> Kind:
    return own[0]


def _random(node: Apply, own: Sequence[Kind]) -> Kind:
    """Rows of parameters are rows of draws: their batch axes come first."""
    op: Any = node.op
    params = list(op.dist_params(node))
    found = set()
    for param, n_core in zip(params, op.ndims_params, strict=True):
        kind = own[node.inputs.index(param)]
        if isinstance(kind, Rows):
            behind = param.type.ndim - n_core - kind.axis
            if behind <= 0:
                raise DependentError(f"{op} of all rows together")
            found.add(node.outputs[1].type.ndim - op.ndim_supp - behind)
        elif kind is not None:
            raise StatisticError("the number of rows, as a parameter of a distribution")
    if len(found) > 1:
        raise DependentError(f"{op} of rows along different axes")
    return Rows(found.pop()) if found else None


def _elemwise(node: Apply, own: Sequence[Kind]) -> Kind:
    op: Any = node.op
    if any(isinstance(kind, Lengths) for kind in own):
        if isinstance(op.scalar_op, ps.Cast | ps.Identity):
            return own[0]
        raise StatisticError(f"the number of rows, as a number in {op}")
    axes = {kind.axis for kind in own if isinstance(kind, Rows)}
    if len(axes) > 1:
        raise DependentError(f"{op} of rows along different axes")
    (axis,) = axes
    check_others_are_short(node.inputs, own, axis)
    return Rows(axis)


def _dimshuffle(node: Apply, own: Sequence[Kind]) -> Kind:
    order = list(node.op.new_order)
    if isinstance(own[0], Rows):
        if own[0].axis not in order:
            raise DependentError(f"{node.op} of rows")
        return Rows(order.index(own[0].axis))
    if order in ([0], [], ["x"]):
        return own[0]
    raise StatisticError("the number of rows, as a number")


#: Reductions by the scalar operation that they repeat, in words.
REDUCTIONS: dict[type, str] = {
    ps.Add: "a sum, mean or variance",
    ps.Mul: "a product",
    ps.Maximum: "a maximum or minimum",
    ps.AND: "all()",
    ps.OR: "any()",
}


def _reduce(node: Apply, own: Sequence[Kind]) -> Kind:
    op, kind = node.op, own[0]
    name = REDUCTIONS.get(type(getattr(op, "scalar_op", None)), "a reduction")
    if isinstance(kind, Lengths):
        raise StatisticError(f"the number of rows, as a number in {op}")
    assert isinstance(kind, Rows)
    ndim = node.inputs[0].type.ndim
    gone = range(ndim) if op.axis is None else [axis % ndim for axis in op.axis]
    if kind.axis in gone:
        raise StatisticError(f"{name} over rows ({op})")
    return Rows(kind.axis - sum(axis < kind.axis for axis in gone))


def _along_axis(node: Apply, own: Sequence[Kind]) -> Kind:
    """Follow an operation with an order, or a change of length, along one axis."""
    op, kind = node.op, own[0]
    axis = getattr(op, "axis", None)
    ndim = node.inputs[0].type.ndim
    if not isinstance(kind, Rows) or axis is None or axis % ndim == kind.axis or any(own[1:]):
        raise StatisticError(f"{op} along rows")
    return kind


def _dot(node: Apply, own: Sequence[Kind]) -> Kind:
    left, right = own
    ndim = node.outputs[0].type.ndim
    if isinstance(left, Rows) and left.axis == ndim - 1:
        raise StatisticError("a product of matrices that is summed over rows")
    if isinstance(right, Rows) and right.axis == ndim - 2:
        raise StatisticError("a product of matrices that is summed over rows")
    if left is not None and right is not None and left != right:
        raise DependentError("a product of each row with each other row")
    kind = left or right
    if not isinstance(kind, Rows) or (left == right and kind.axis >= ndim - 2):
        raise DependentError("a product of each row with each other row")
    return kind


def _blockwise(node: Apply, own: Sequence[Kind]) -> Kind:
    """Rows along batch axes: the same operation for each."""
    op: Any = node.op
    if isinstance(op.core_op, Dot):
        return _dot(node, own)
    n_batch, axes = op.batch_ndim(node), {kind.axis for kind in own if isinstance(kind, Rows)}
    if len(axes) != 1 or min(axes) >= n_batch or any(isinstance(k, Lengths) for k in own):
        raise DependentError(f"{op} of all rows together")
    check_others_are_short(node.inputs, own, min(axes))
    return Rows(axes.pop())


RULES: Rules = (
    ((ViewOp, DeepCopyOp, SpecifyShape, TensorFromScalar, ScalarFromTensor, CheckAndRaise), _same),
    (Elemwise, _elemwise),
    (DimShuffle, _dimshuffle),
    ((CAReduce, Argmax), _reduce),
    ((CumOp, SortOp, ArgSortOp, Repeat), _along_axis),
    (Dot, _dot),
    (Blockwise, _blockwise),
    (RandomVariable, _random),
    *SHAPE_RULES,
)
