"""What operations do with the number of rows, which graphs need as the length of an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytensor.graph.basic import Apply, Constant
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import Alloc, Join, MakeVector
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.shape import Reshape, Shape, Shape_i
from pytensor.tensor.subtensor import Subtensor

from pymc_flymc.graphs.tools import evaluate, index_of
from pymc_flymc.reading.row_kinds import (
    COUNT,
    NUMBER,
    Kind,
    RowAxis,
    RowCount,
    Rules,
    StatisticError,
)
from pymc_flymc.reading.row_rules import COPIES, alloc, random, reshape, same


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
    """Lengths of axes, gathered into a shape."""
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
