"""Lookups of functions in place of functions of lookups, where a model is not read as written."""

from collections.abc import Callable, Collection, Hashable
from typing import Any, NamedTuple

from pymc.model.core import Model
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Apply, Variable
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.subtensor import AdvancedSubtensor
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import copy_graphs, first_equals, free_inputs, known_length
from pymc_flymc.likelihoods.products import without


class _Lookup(NamedTuple):
    """A lookup along the first axes of a source by vectors of positions, one for each row."""

    source: TensorVariable
    op: Any
    positions: list[TensorVariable]


def read_either[R](model: Model, rv: TensorVariable, read: Callable[[TensorVariable], R]) -> R:
    """Return what is read of an observed variable as written, or else with lookups lifted."""
    try:
        return read(rv)
    except UnsupportedModelError as error:
        other = lifted(rv, model.rvs_to_values)
        if other is None:
            raise
        try:
            return read(other)
        except UnsupportedModelError:
            raise error from None


def lifted(variable: TensorVariable, kept: Collection[Variable]) -> TensorVariable | None:
    """Return a copy of a graph with lookups of functions for functions of lookups, or None."""
    first = first_equals(variable)

    def again(node: Apply, inputs: Any) -> list[Variable] | None:
        return None if not isinstance(node.op, Elemwise) else _lifted(node.op, inputs, first)

    memo: dict[Variable, Variable] = {}
    for v in kept:
        if v is not variable and v.owner is not None:
            memo.update(zip(v.owner.outputs, v.owner.outputs, strict=True))
    (copy,) = copy_graphs([variable], again, memo=memo)
    if copy is variable:
        return None
    copy.name = variable.name
    return copy


def _lifted(
    function: Elemwise, arguments: list[TensorVariable], first: dict[Variable, Variable]
) -> list[Variable] | None:
    """Return a lookup of a function of the sources of all its row arguments, or None."""
    lookups = [_as_lookup(v) for v in arguments]
    found = [each for each in lookups if each is not None]
    if not found or not free_inputs([each.source for each in found]):
        return None
    if len({_origin(each, first, len(found) > 1) for each in found}) > 1:
        return None
    if any(
        not v.type.broadcastable[0] for v, of in zip(arguments, lookups, strict=True) if of is None
    ):
        return None
    _, op, positions = found[0]
    new: list[Any] = [
        v.dimshuffle(*["x"] * len(positions), *range(1, v.ndim)) if of is None else of.source
        for v, of in zip(arguments, lookups, strict=True)
    ]
    return [op(function(*new), *positions)]


def _as_lookup(v: Any) -> _Lookup | None:
    v = without(v, ViewOp)
    if v.owner is None or not isinstance(v.owner.op, AdvancedSubtensor):
        return None
    source, *positions = v.owner.inputs
    of_rows = all(i.type.ndim == 1 and i.type.dtype != "bool" for i in positions)
    plain = list(v.owner.op.idx_list) == list(range(len(positions)))
    return (
        _Lookup(source, v.owner.op, positions)
        if of_rows and plain and not free_inputs(positions)
        else None
    )


def _origin(lookup: _Lookup, first: dict[Variable, Variable], sized: bool) -> Hashable:
    """Return a key that is equal for lookups of the same elements, of sources of equal sizes."""
    axes = range(len(lookup.positions))
    sizes = tuple(known_length(lookup.source, axis) for axis in axes) if sized else ()
    return lookup.op, sizes, *(first.get(i, i) for i in lookup.positions)
