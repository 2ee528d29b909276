"""Check that each row of a graph depends on its own row of the data alone.

If data containers hold only some rows of many, a statistic of the rows (a mean, their number, their
order) would be computed from the rows at hand. The check follows the axis of rows from the
containers up through each operation of the graph. It reads no value.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors, toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import Alloc, Join, MakeVector
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.shape import Reshape, Shape, Shape_i
from pytensor.tensor.subtensor import Subtensor
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.compat.pytensor import inline_ofg_node
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import evaluate, index_of
from pymc_flymc.reading.row_kinds import (
    COUNT,
    NUMBER,
    DependentError,
    Kind,
    RowAxis,
    RowCount,
    Rules,
    StatisticError,
)
from pymc_flymc.reading.row_rules import COPIES, RULES, alloc, random, reshape, same


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
