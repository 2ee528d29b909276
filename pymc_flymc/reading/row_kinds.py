"""What a variable of a graph has to do with the rows of the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors

__all__ = [
    "LENGTH",
    "DependentError",
    "Kind",
    "Lengths",
    "Rows",
    "Rule",
    "Rules",
    "StatisticError",
    "check_others_are_short",
]


@dataclass(frozen=True)
class Rows:
    """A tensor with one slice for each row, which depends on this row alone, along an axis."""

    axis: int


@dataclass(frozen=True)
class Lengths:
    """A vector, or a scalar, of integers: the number of rows stands at some places.

    Graphs need it to say how long an axis of rows is, and for nothing else.
    """

    places: frozenset[int]


#: The number of rows itself.
LENGTH = Lengths(frozenset([0]))

#: What a variable is; None if it has nothing to do with the rows.
Kind = Rows | Lengths | None


class DependentError(Exception):
    """What rows do to each other; the message completes "it contains ..."."""


class StatisticError(DependentError):
    """A number that is made of all rows, or is how many there are."""


#: From a node and the kinds of its inputs to the kind of its outputs.
Rule = Callable[[Apply, Sequence[Any]], Kind]
#: Rules by the operations that they are for.
Rules = tuple[tuple[Any, Rule], ...]


def check_others_are_short(inputs: Sequence[Variable], own: Sequence[Kind], axis: int) -> None:
    """Refuse other arrays with something for each row."""
    for v, kind in zip(inputs, own, strict=True):
        if kind is None and not v.type.broadcastable[axis]:
            named = [repr(u.name) for u in ancestors([v]) if u.owner is None and u.name]
            what = ", ".join(named[:3]) or "an array of numbers"
            raise DependentError(f"a value for each row ({what}) that no container of data= holds")
