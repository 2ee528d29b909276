"""Lookups by a constant index and sparse matrices: where the traversal of a predictor ends."""

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import pytensor.tensor as pt
from pymc.model.core import Model
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Apply, Variable
from pytensor.scalar import basic as ps
from pytensor.sparse.basic import SparseTensorType
from pytensor.sparse.math import Dot as SparseDot
from pytensor.sparse.math import StructuredDot
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.subtensor import AdvancedSubtensor, indices_from_subtensor
from pytensor.tensor.variable import TensorVariable
from scipy.sparse import csr_array

from pymc_flymc.errors import UnsupportedModelError, warn
from pymc_flymc.graphs.tools import (
    copy_graphs,
    evaluate,
    evaluate_sparse,
    first_equals,
    free_inputs,
    known_length,
    numbers_of,
)
from pymc_flymc.likelihoods.products import without
from pymc_flymc.reading.cotangent import (
    TAKES_ELEMENTS,
    TAKES_ROWS,
    Context,
    Cotangent,
    NotReadableError,
    are_distinct,
    below_views,
    flat,
    inputs_of,
    is_of_data,
    only_rows,
    op_type,
    varies,
    without_axis,
)
from pymc_flymc.regression.design import SparseColumns


@dataclass(frozen=True)
class SparseBlock:
    """Sparse columns, (N, Q), and the graph of their coefficients, (Q,)."""

    matrix: SparseColumns
    weight: TensorVariable
    #: Blocks with equal origins have equal matrices for any rows; None is unknown.
    origin: Hashable = None


def _lookup(ct: Cotangent, node: Apply, context: Context) -> SparseBlock:
    """Read ``source[index]``, in which each row has J elements of the source."""
    # Elements that no row looks up are left out, unless the result must hold for other rows, too.
    source = inputs_of(node)[0]
    positions = positions_of(node, context.name)
    n_rows = positions.shape[ct.axis]
    length: Any = source.type.shape[0]
    if not context.any_rows and is_of_data(source, length) and are_distinct(positions):
        raise NotReadableError(*(TAKES_ELEMENTS if positions.ndim < source.ndim else TAKES_ROWS))
    sizes = tuple(n for i, n in enumerate(positions.shape) if i != ct.axis)
    columns = np.moveaxis(positions, ct.axis, 0).reshape(n_rows, -1)
    values = None
    if ct.scale is not None:
        scale = np.broadcast_to(ct.scale, positions.shape)
        values = np.moveaxis(scale, ct.axis, 0).reshape(columns.shape)
    coefficients: Any = source.flatten()
    if ct.weight is not None:
        weight = flat(without_axis(ct.weight, ct.axis), sizes)
        if free_inputs([weight]):
            columns, coefficients = _weighted(columns, coefficients, weight, context.any_rows)
        else:
            numbers = np.broadcast_to(evaluate(weight), columns.shape[1:])
            kept = numbers != 0.0
            columns = columns[:, kept]
            values = (1.0 if values is None else values[:, kept]) * numbers[kept]
            values = np.broadcast_to(values, columns.shape)
    used = np.full(int(np.prod(coefficients.type.shape)), context.any_rows)
    used[columns] = True
    if not used.all():
        coefficients = coefficients[np.flatnonzero(used)]
        columns = (np.cumsum(used, dtype=np.int32) - np.int32(1))[columns]
    matrix = SparseColumns.of_codes(columns, values, int(used.sum()))
    plain = ct.weight is None and ct.scale is None
    index = (node.op, source.type.shape, ct.axis, *(below_views(v) for v in node.inputs[1:]))
    return SparseBlock(matrix, coefficients, index if plain else None)


def split_lookup(node: Apply) -> TensorVariable | None:
    """Return a lookup in a sum of effects as a sum of lookups, or None for any other lookup."""
    # (a[:, None] + b)[g, h] is a[g] + b[h]: effects of two factors, not one effect per pair.
    if op_type(node) is not AdvancedSubtensor:
        return None
    whole, *index = inputs_of(node)
    source = cast(TensorVariable, below_views(whole))
    every = tuple(indices_from_subtensor(index, node.op.idx_list)) == tuple(index)
    if not every or not len(index) == source.ndim > 1 or not _is_sum_of_effects(source):
        return None
    if any(v.ndim != 1 or v.dtype == "bool" or free_inputs([v]) for v in index):
        return None

    def of(term: TensorVariable) -> TensorVariable:
        axes = [k for k in range(term.ndim) if varies(term, k)]
        return term.dimshuffle(*axes)[tuple(index[k] for k in axes)] if axes else term.squeeze()

    terms: Any = source.owner.op(*map(of, inputs_of(source.owner)))
    return terms


def _is_sum_of_effects(v: TensorVariable) -> bool:
    """Return whether a tensor is a sum of terms that have fewer axes."""
    todo = [v]
    while todo:
        node = below_views(todo.pop()).owner
        if node is None or op_type(node) not in (ps.Add, ps.Sub):
            return False
        todo += [u for u in inputs_of(node) if u.type.broadcastable == v.type.broadcastable]
    return True


def positions_of(node: Apply, name: str) -> np.ndarray:
    """Return which elements of the flattened source a lookup takes, in the shape of its result."""
    source = inputs_of(node)[0]
    index = indices_from_subtensor(node.inputs[1:], node.op.idx_list)
    if free_inputs(node.inputs[1:]):
        raise NotReadableError("it looks coefficients up by an index that is no constant")
    shape = source.type.shape
    if None in shape:
        raise NotReadableError(f"it looks up elements of {_names(source)}, whose shape is unknown")
    order = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
    numbers = tuple(map(numbers_of, index))
    _warn_of_missing(numbers, source, name)
    try:
        return np.asarray(order[numbers])
    except IndexError as error:
        raise ValueError(
            f"the linear predictor of {name!r} looks up elements of {_names(source)}, of shape "
            f"{shape}, and {error}; number the groups from 0"
        ) from None


def _warn_of_missing(index: tuple[Any, ...], source: TensorVariable, name: str) -> None:
    """Warn of rows that take elements from the end, which is rarely intended."""
    below = [np.count_nonzero(i < 0) for i in index if isinstance(i, np.ndarray)]
    if any(below):
        warn(
            f"the linear predictor of {name!r} looks up {_names(source)} by an index that is "
            f"negative in {max(below):,} places, which takes elements from the end. In pandas -1 "
            "is the code of a missing category: drop these rows, or give them a category"
        )


def _names(source: TensorVariable) -> str:
    """Return the name of a looked-up term, or of the variables that it is computed from."""
    return repr(source.name) if source.name else str([v.name for v in free_inputs([source])])


def _weighted(
    columns: np.ndarray, coefficients: Any, weight: TensorVariable, any_rows: bool
) -> tuple[np.ndarray, Any]:
    """Return columns and coefficients after multiplication by the weights of a row's J elements."""
    # If no element has several weights, it keeps one coefficient. Otherwise each pair of an element
    # and a weight has one, as it always has if the result must hold for other rows, too.
    each = np.arange(columns.shape[1], dtype=np.int32)
    if weight.type.shape == (1,) or columns.shape[1] == 1:
        return columns, coefficients * weight
    (size,) = coefficients.type.shape
    place = np.zeros(size, np.int32)
    place[columns] = each
    if not any_rows and np.array_equal(place[columns], np.broadcast_to(each, columns.shape)):
        return columns, coefficients * weight[place]
    # The same element occurs with different weights.
    pairs = coefficients[:, None] * weight[None, :]
    return columns * np.int32(len(each)) + each, pt.specify_shape(
        pairs.flatten(), (size * len(each),)
    )


def _sparse_dot(ct: Cotangent, node: Apply, context: Context) -> SparseBlock:
    """Read ``matrix @ right``, rows along the first axis, or ``left @ matrix``, along the last."""
    left, right = inputs_of(node)
    by_left = isinstance(left.type, SparseTensorType)
    data, other = (left, right) if by_left else (right, left)
    if isinstance(other.type, SparseTensorType) or free_inputs([data]):
        raise NotReadableError(f"it contains {node.op} of a sparse matrix that is no constant")
    if (ct.axis == 0) != by_left and ct.var.ndim > 1:
        raise NotReadableError("it multiplies a sparse matrix by data")
    if not only_rows(ct):
        raise NotReadableError(
            f"it multiplies {node.op} term by term by a matrix of the data's size"
        )
    matrix = evaluate_sparse(data)
    rows = csr_array(matrix if by_left else matrix.T, dtype=np.float64)
    if ct.scale is not None:
        counts = np.diff(rows.indptr)
        rows = rows.copy()
        rows.data *= np.repeat(ct.scale.ravel(), counts)
    weight: Any = other
    if ct.weight is not None:
        weight = other * ct.weight
    if weight.ndim > 1:
        weight = weight.sum(axis=1 if by_left else 0)
    columns = SparseColumns.of_matrix(rows)
    return SparseBlock(columns, pt.specify_shape(weight, (columns.n_columns,)))


SPARSE_RULES: dict[type, Callable[[Cotangent, Apply, Context], SparseBlock]] = {
    AdvancedSubtensor: _lookup,
    SparseDot: _sparse_dot,
    StructuredDot: _sparse_dot,
}


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
