"""What a variable of a graph has to do with rows: an axis of them, their number, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors


@dataclass(frozen=True)
class RowAxis:
    """A tensor with one slice for each row, which depends on this row alone, along an axis."""

    axis: int


@dataclass(frozen=True)
class RowCount:
    """A vector, or a scalar, of integers: the number of rows stands at some places.

    Graphs need it to say how long an axis of rows is, and for nothing else.
    """

    places: frozenset[int]


#: What a variable is; None if it has nothing to do with the rows.
Kind = RowAxis | RowCount | None
#: Of operations: from a node and the kinds of its inputs to that of its outputs.
Rules = tuple[tuple[Any, Callable[[Apply, Sequence[Any]], Kind]], ...]
#: The number of rows itself.
COUNT = RowCount(frozenset([0]))
NUMBER = "the number of rows, as a number"


class DependentError(Exception):
    """What rows do to each other; the message completes "it contains ..."."""


class StatisticError(DependentError):
    """A number that is made of all rows, or is how many there are."""


def meet(
    node: Apply, inputs: Sequence[Variable], own: Sequence[Kind], shifts: Sequence[int]
) -> int:
    """Return the output's axis of rows, axis k of an input being axis k plus a shift of the output.

    Refuses rows along different axes, and other arrays with something for each row.
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
