"""How a variable of a graph depends on rows: by an axis of rows, by their number, or not at all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors


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
