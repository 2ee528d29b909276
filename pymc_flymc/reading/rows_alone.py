"""Whether each row of a graph depends on its own row of the data alone.

Then one row is written without the containers of rows: of each, it has an input for one row.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.ops import DeepCopyOp
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors, toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as ps
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import Argmax, Dot
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.shape import Reshape, Shape, Shape_i
from pytensor.tensor.sort import ArgSortOp, SortOp
from pytensor.tensor.subtensor import Subtensor
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.compat.pytensor import inline_ofg_node
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import (
    copy_graphs,
    free_inputs,
    index_of,
    numbers_of,
    plain_function,
)
from pymc_flymc.reading.one_row import RULES, OneRow, Places, Rule, below_views
from pymc_flymc.reading.unreadable import NotReadableError, op_type


class DependentError(NotReadableError):
    """Rows depend on each other; the message completes "it contains ..."."""


class StatisticError(DependentError):
    """A number that is computed from all rows, or is the number of rows."""


#: Names of reductions for messages, by the scalar operation that they repeat.
_REDUCTIONS: dict[type, str] = {
    ps.Add: "a sum, mean or variance",
    ps.Mul: "a product",
    ps.Maximum: "a maximum or minimum",
    ps.AND: "all()",
    ps.OR: "any()",
}


class RowAlone(OneRow):
    """One row of a graph that is given the rows of containers, along their first axes."""

    is_linear = False

    def __init__(self, graph: Any, containers: Sequence[Any]) -> None:
        of_rows = {
            v: v.type.clone(shape=(None, *v.get_value(borrow=True).shape[1:]))() for v in containers
        }
        (graph,) = copy_graphs([graph], _known_length, lambda v: of_rows.get(v, v))
        self._rows = {v: v.type.clone(shape=(1, *v.type.shape[1:]))() for v in of_rows.values()}
        super().__init__(graph, 0, "", True)
        if said := _statistic(self.graph, self._rows):
            raise StatisticError(said)

    def _row(self, v: Any, places: Places) -> Rule:
        """Return the row of a variable; what is the same for all rows stays as it is."""
        places = {k: at for k, at in places.items() if not v.type.broadcastable[k]}
        if not places:
            return v
        if v in self._rows and list(places) == [0]:
            return self._rows[v]
        if v.owner is None or self._is_constant(v):
            raise DependentError(f"a value for each row ({v}) that no container of data= holds")
        key = v, *places
        if key not in self._known:
            self._known[key] = (yield from self._of_node(v, places)), places
        return self._known[key][0]

    def _of_node(self, v: Any, places: Places) -> Rule:
        """Return the row of an operation's result, by a rule."""
        op = v.owner.op
        if isinstance(op, OpFromGraph):
            return (yield inline_ofg_node(v.owner)[v.owner.outputs.index(v)], places)
        rule = next(
            (rule for ops, rule in _RULES if isinstance(op, ops)), RULES.get(op_type(v.owner))
        )
        try:
            if rule is None:
                raise NotReadableError("")
            return (yield from rule(self, v.owner, places))
        except NotReadableError as error:
            if isinstance(error, DependentError):
                raise
            unknown = f"{op} of rows, of which it is not known that it takes each row alone"
            raise DependentError(unknown) from None

    def _each(self, node: Any, places: Places) -> Rule:
        """Take the same row of each input."""
        rows = []
        for u in node.inputs:
            rows.append((yield u, places))
        return node.op(*rows)

    def _batch(self, node: Any, places: Places) -> Rule:
        """Pass an operation on batches, of which rows are a part, or a product of matrices."""
        if isinstance(node.op.core_op, Dot):
            return (yield from self._dot(node, places))
        if max(places) >= node.op.batch_ndim(node):
            raise DependentError(f"{node.op} of all rows together")
        return (yield from self._each(node, places))

    def _reduced(self, node: Any, places: Places) -> Rule:
        """Pass a reduction over axes other than the axis of rows."""
        source = node.inputs[0]
        left = [k for k in range(source.type.ndim) if k not in node.op.axis]
        row = yield source, {left[k]: at for k, at in places.items()}
        return node.op(row)

    def _along_axis(self, node: Any, places: Places) -> Rule:
        """Pass an operation that depends on order, or changes the length, along one axis."""
        axis, (source, *others) = node.op.axis, node.inputs
        if axis is None or axis % source.type.ndim in places:
            raise DependentError(f"{node.op} along rows")
        row = yield source, places
        return node.op(row, *others)

    def _random(self, node: Any, places: Places) -> Rule:
        """Pass rows of parameters to rows of draws: their batch axes come first."""
        rows, op = [], node.op
        n_batch = node.outputs[1].type.ndim - op.ndim_supp
        if max(places) >= n_batch:
            raise DependentError(f"{op} of all rows together")
        for param, n_core in zip(op.dist_params(node), op.ndims_params, strict=True):
            shift = n_batch - (param.type.ndim - n_core)
            rows.append((yield param, {k - shift: at for k, at in places.items() if k >= shift}))
        return op.make_node(node.inputs[0], None, *rows).outputs[1]

    def _taken(
        self, node: Any, places: Places, of_slices: Places, arrays: list[int], first: int
    ) -> Rule:
        """Pass a lookup by each row's own indices."""
        source, index = node.inputs[0], index_of(node, 1)
        n_new = max(index[k].type.ndim for k in arrays)
        if of_slices:
            raise NotReadableError("")
        for i in arrays:
            shift = first + n_new - index[i].type.ndim
            index[i] = yield index[i], {k - shift: at for k, at in places.items() if k >= shift}
        return source[tuple(index)]

    def _flattened(self, node: Any, places: Places) -> Rule:
        """Pass also a reshape that makes a matrix of rows with several axes each."""
        source, shape = node.inputs
        size, ndim = source.type.shape[1:], node.outputs[0].type.ndim
        if list(places) != [0] or ndim != 2 or None in size or not self._is_number_of_rows(shape):
            return (yield from self._reshape(node, places))
        row = yield source, places
        return row.reshape((1, math.prod(size)))

    def _is_number_of_rows(self, shape: Any) -> bool:
        """Return whether the first of some lengths is the number of rows, whatever this is."""
        if free_inputs([shape]) != (used := [v for v in self._rows if v in free_inputs([shape])]):
            return False
        function = plain_function(used, shape[0])
        return bool(used) and all(
            function(*(np.zeros((n, *v.type.shape[1:]), v.type.dtype) for v in used)) == n
            for n in (5, 7)
        )


_Rules = Sequence[tuple[Any, Callable[[Any, Any, Places], Rule]]]
_RULES: _Rules = (
    (Elemwise, RowAlone._each),
    ((CheckAndRaise, DeepCopyOp), RowAlone._view),
    ((CAReduce, Argmax), RowAlone._reduced),
    ((CumOp, SortOp, ArgSortOp), RowAlone._along_axis),
    (Blockwise, RowAlone._batch),
    (RandomVariable, RowAlone._random),
    (Reshape, RowAlone._flattened),
)


def _known_length(node: Any, inputs: Sequence[Any]) -> list[Variable] | None:
    """Return the length of an axis, such as the number of columns, if it is known."""
    shape = below_views(inputs[0]).owner if isinstance(node.op, Subtensor) else None
    if shape is None or not isinstance(shape.op, Shape) or free_inputs(node.inputs[1:]):
        return None
    (at,) = map(numbers_of, index_of(node, 1))
    length = None if isinstance(at, slice) else shape.inputs[0].type.shape[at]
    return None if length is None else [pt.constant(length, dtype=node.outputs[0].type.dtype)]


def _statistic(graph: Variable, containers: Collection[Variable]) -> str:
    """Return what a graph contains of all rows of containers, or of their number, or nothing."""
    rows, numbers, found = set(containers), False, ""
    if graph in rows:
        return "all rows in the place of one"
    for node in toposort([graph], blockers=list(containers)):
        if rows.isdisjoint(node.inputs):
            continue
        if isinstance(node.op, Shape | Shape_i):
            numbers = True
            continue
        rows.update(node.outputs)
        if isinstance(node.op, CAReduce | Argmax):
            kind = type(getattr(node.op, "scalar_op", None))
            return f"{_REDUCTIONS.get(kind, 'a reduction')} over rows ({node.op})"
        if op_type(node) is Dot:
            return "a product of matrices that is summed over rows"
        found = found or f"{node.op} of all rows together"
    return found or ("the number of rows" if numbers else "")


def check_rows_alone(
    of_rows: Sequence[TensorVariable],
    shared: Sequence[Variable],
    containers: Mapping[str, Variable],
    name: str,
    observed: TensorVariable | None = None,
) -> None:
    """Refuse graphs in which a row depends on other rows, or on the number of rows.

    `of_rows` are graphs with a row of their first axis for each row of the data, or without such an
    axis; `shared` are graphs of what is the same for all rows; `containers` hold rows along their
    first axis. `observed` is the observed random variable, whose parameters may have been read as
    numbers. Its graph may hold more than its parameters; statistics of rows are refused there, too.
    """
    said: dict[Variable, Any] = {each: _statistic(each, [*containers.values()]) for each in shared}
    said |= {graph: _dependence(graph, containers) for graph in of_rows}
    further = [] if observed is None else [observed, *observed.owner.inputs]
    for graph in further:  # other parameters need not be rows, and their sizes are of the head
        if getattr(graph.type, "dtype", "")[:5] == "float" or graph is observed:
            error = _dependence(graph, containers)
            said[graph] = error if isinstance(error, StatisticError) else None
    for graph, what in said.items():
        if not what:
            continue
        above = set(ancestors([graph]))
        used = ", ".join(repr(each) for each, v in containers.items() if v in above)
        those = f", those of {used}," if used else ""
        raise UnsupportedModelError(
            f"the rows of {name!r}{those} depend on each other or are not of data=: the "
            f"model contains {what}. The model is written on the first rows, and such a thing "
            "would be that of the first rows alone: compute it before the model, from all rows, "
            "and put it in as numbers, or as a container that data= names"
        )


def _dependence(graph: Variable, containers: Mapping[str, Variable]) -> NotReadableError | None:
    """Return what makes rows of a graph depend on other rows, or None."""
    try:
        RowAlone(graph, list(containers.values()))
    except DependentError as error:
        return error
    return None


def statistics_of_rows(
    graphs: Mapping[str, Variable], containers: Mapping[str, Variable]
) -> dict[str, str]:
    """Return which graphs are no rows, but are made from rows, by name, and what they contain."""
    found = {name: _dependence(graph, containers) for name, graph in graphs.items()}
    rows = set(containers.values())
    return {
        name: str(error)
        for name, error in found.items()
        if error is not None and not rows.isdisjoint(ancestors([graphs[name]]))
    }
