"""Cotangents: what the graph traversal of a linear predictor carries from result to argument."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors
from pytensor.scalar import basic as ps
from pytensor.scan.op import Scan
from pytensor.tensor.basic import Join
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.linalg import Cholesky, MatrixInverse, Solve
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedSubtensor,
    IncSubtensor,
    Subtensor,
)
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorConstant, TensorVariable

from pymc_flymc.graphs.tools import ConstantParts, evaluate, free_inputs, index_of

TWO_MATRICES = "it multiplies term by term by a matrix of the data's size"


class NotReadableError(Exception):
    """An operation that cannot be read: `reason` completes "because ...", `instead` is a remedy."""

    def __init__(self, reason: str, instead: str = "") -> None:
        super().__init__(reason)
        self.instead = instead


@dataclass(frozen=True)
class Cotangent:
    """A tensor, and how the predictor depends on it; see the module's docstring.

    Weight and scale broadcast against `var`; None stands for ones.
    """

    var: TensorVariable
    axis: int  #: Axis of rows of `var`.
    weight: TensorVariable | None = None
    scale: np.ndarray | None = None


@dataclass(frozen=True)
class Context:
    """Arguments of a rule other than a node and the cotangent of its result."""

    name: str
    is_constant: ConstantParts
    #: Whether the result must hold for other rows, too: then no rule may depend on values.
    any_rows: bool


Rule = Callable[[Cotangent, Apply, Context], list[Cotangent]]


def op_type(node: Apply) -> type:
    """Return the key of a node's operation in ``RULES``."""
    op: Any = node.op
    if isinstance(op, Elemwise):
        return type(op.scalar_op)
    if isinstance(op, Blockwise):
        return type(op.core_op)
    return type(op)


def varies(var: Variable, axis: int) -> bool:
    """Return whether a tensor differs from row to row along an axis."""
    return not var.type.broadcastable[axis]


def only_rows(ct: Cotangent) -> bool:
    """Return whether the scale is absent or one number for each row."""
    return ct.scale is None or ct.scale.size == ct.scale.shape[ct.axis]


def times(a: TensorVariable | None, b: TensorVariable) -> TensorVariable:
    """Return the product in double precision, whatever the factors' types; None stands for ones."""
    b = b.astype("float64")
    return b if a is None else a * b


def operand(argument: TensorVariable, ct: Cotangent) -> Cotangent:
    """Return the cotangent of an argument that was broadcast to the shape of ``ct.var``."""
    weight, scale = ct.weight, ct.scale
    for k in range(argument.ndim):
        if k == ct.axis or varies(argument, k) or not varies(ct.var, k):
            continue
        if scale is not None and scale.shape[k] != 1:
            if varies(argument, ct.axis):
                if weight is not None and free_inputs([weight]):
                    raise NotReadableError(TWO_MATRICES)
                numbers = 1.0 if weight is None else evaluate(weight)
                scale, weight = (scale * numbers).sum(axis=k, keepdims=True), None
            # Otherwise `scale` is the data, and keeps its width.
            continue
        if weight is None or not varies(weight, k):
            length = ct.var.type.shape[k]
            if length is None:
                raise NotReadableError("the length of a broadcast axis in it is unknown")
            weight = times(weight, pt.constant(np.full((1,) * argument.ndim, float(length))))
        else:
            weight = weight.sum(axis=k, keepdims=True)
    return Cotangent(argument, ct.axis, weight, scale)


def inputs_of(node: Apply) -> list[TensorVariable]:
    """Return a node's arguments, which are tensors for the operations known here."""
    return cast(list[TensorVariable], list(node.inputs))


def scaled(
    operation: np.ufunc, scale: np.ndarray | None, numbers: np.ndarray, context: Context
) -> np.ndarray:
    """Return a scale that is multiplied, or divided, by numbers: zero stays zero."""
    # A scale is zero where `switch` takes the other branch, and there the numbers of this one may
    # be infinite, as in switch(x > 0, b * log(x), 0). Only for the rows at hand is the model's own
    # predictor checked to be finite there: with any_rows results that are not finite are kept.
    if scale is None:
        return numbers if operation is np.multiply else np.reciprocal(numbers)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.asarray(operation(scale, numbers))
        if context.any_rows or np.isfinite(found).all():
            return found
        return np.where(np.equal(scale, 0.0), 0.0, found)


def below_views(var: Variable) -> Variable:
    """Return the variable below copies, and below casts that keep all values."""
    while var.owner is not None and op_type(var.owner) in (ps.Cast, ps.Identity, ViewOp):
        (source,) = var.owner.inputs
        if not np.can_cast(source.type.dtype, var.type.dtype, "safe"):
            return var
        var = source
    return var


def rows_first(array: np.ndarray, axis: int) -> tuple[np.ndarray, tuple[int, ...]]:
    """Return an array as (N, P), a view if possible, and the lengths of its other axes."""
    moved = np.moveaxis(array, axis, 0)
    return moved.reshape(len(moved), -1), moved.shape[1:]


def without_axis(weight: TensorVariable, axis: int) -> TensorVariable:
    """Return a weight without the row axis, of length 1."""
    return weight.dimshuffle([i for i in range(weight.ndim) if i != axis])


def flat(weight: TensorVariable, sizes: tuple[int, ...]) -> TensorVariable:
    """Return a weight, broadcast to the lengths of the data's axes, as a vector."""
    if weight.ndim == 0:
        return weight.dimshuffle("x")
    if any(own == 1 != full for own, full in zip(weight.type.shape, sizes, strict=True)):
        weight = pt.broadcast_to(weight, sizes)
    return weight.flatten() if weight.ndim > 1 else weight


_SPLINES = "for a curve of a predictor x, a basis of splines computed before the model, B @ beta"
#: Why a product of two terms that vary cannot be read, and what to write instead.
PRODUCT = (
    "it is a product of two things that are both sampled and both differ by row, such as abilities "
    "and discriminations of items (2PL), factors and loadings, an unknown predictor and its "
    "coefficient, earlier errors and theirs",
    "numbers for one of the two; one discrimination for all items, "
    "slope * ability[person] - difficulty[item]; or, of few groups and levels, a coefficient for "
    "each pair, (slope[:, None] * effect)[group, level] for slope[group] * effect[level]",
)
#: The same for a quotient.
QUOTIENT = "it divides by a term that holds data and variables", _SPLINES
#: The same for a choice between terms that is itself sampled.
CHANGE_POINT = (
    "it chooses between terms by a condition that holds variables, as an unknown change point is",
    _SPLINES,
)

#: Operations, what models use them for, and what to write instead.
_KNOWN = (
    (
        (Cholesky, MatrixInverse, Solve),
        "it holds a covariance with a row for each row of data, as an exact Gaussian process does",
        "pm.gp.HSGP(...).prior(...), which is linear in its coefficients",
    ),
    (
        (AdvancedIncSubtensor, IncSubtensor),
        "it puts variables among data, as PyMC does to impute missing values",
        "complete rows, X[keep] and y[keep]; or sample for each of several imputations that were "
        "made before the model, and put the draws together",
    ),
    (
        (Scan,),
        "it is computed in a loop, each value from the one before",
        "a variable with a value for each period, such as pm.GaussianRandomWalk or pm.AR, as "
        "a[period]",
    ),
)


def not_linear(node: Apply) -> NotReadableError:
    """Return the error for an operation, of data and variables, for which there is no rule."""
    for kinds, reason, instead in _KNOWN:
        if issubclass(op_type(node), kinds):
            return NotReadableError(reason, instead)
    if isinstance(node.op, Elemwise):
        function = str(node.op.scalar_op).lower()
        return NotReadableError(
            f"it is not linear in the variables: it takes {function} of a term that holds them "
            "and data",
            _SPLINES,
        )
    return NotReadableError(f"it is not known to be linear in the variables: it holds {node.op}")


#: Why rows that are taken out of a term are refused, or an element of each row, and what to write.
TAKES_ROWS = (
    "it takes some rows out of a term, as in (X @ b)[keep]",
    "index the data, as in X[keep] @ b",
)
TAKES_ELEMENTS = (
    "it takes an element of each row of a term, as in (X @ B)[rows, column]",
    "(X * B.T[column]).sum(axis=1)",
)
#: Indices of the elements that are taken along some axes, equally many along each.
Places = Mapping[int, np.ndarray]


class RowNumbers(TensorConstant):
    """An index of rows that is on its way to the data."""


def places_of(node: Apply) -> tuple[TensorVariable, dict[int, np.ndarray]]:
    """Return the source of a lookup, and its indices along axes; none if they are not vectors."""
    source, places = inputs_of(node)[0], {}
    for k, each in enumerate(index_of(node, 1)):
        if isinstance(each, slice):
            if each != slice(None):
                return source, {}
            continue
        length = source.type.shape[k]
        if length is None or free_inputs([each]):
            return source, {}
        numbers = np.asarray(evaluate(each))
        if numbers.dtype == bool and numbers.ndim == 1:
            numbers = np.flatnonzero(numbers)
        if numbers.min(initial=0) < -length or numbers.max(initial=0) >= length:
            return source, {}
        places[k] = numbers.astype(np.int64)
    found = np.broadcast_arrays(*places.values())
    if not found or found[0].ndim != 1:
        return source, {}
    return source, dict(zip(places, found, strict=True))


def is_of_rows(node: Apply, source: TensorVariable, places: Places) -> bool:
    """Return whether a lookup at some places takes rows, or is on its way to the data."""
    if any(isinstance(v, RowNumbers) for v in node.inputs):
        return True
    lengths: Any = [source.type.shape[k] for k in places]
    if not is_of_data(source, max(lengths)):
        return False
    numbers = [each % n for each, n in zip(places.values(), lengths, strict=True)]
    return are_distinct(np.ravel_multi_index(numbers, lengths))


def are_distinct(positions: np.ndarray) -> bool:
    """Return whether no element of a term is looked up more than once."""
    # This tells rows of a term of data from effects of groups that are functions of data.
    return int(np.bincount(positions.ravel()).max(initial=0)) <= 1


def is_of_data(var: TensorVariable, length: int) -> bool:
    """Return whether data are as long as a term, or as its parts that are indexed or joined."""
    todo: list[tuple[Any, int]] = [(var, length)]
    seen, checked = set(todo), set()
    while todo:
        v, n = todo.pop()
        if n not in checked:
            shapes = (u.type.shape for u in ancestors([v]) if isinstance(u, TensorConstant))
            if any(n in shape for shape in shapes):
                return True
            checked.add(n)
        if v.owner is None:
            continue
        parts = [u for u in v.owner.inputs if isinstance(u.type, TensorType)]
        if isinstance(v.owner.op, Join | Subtensor | AdvancedSubtensor):
            below = {(u, m) for u in parts for m in u.type.shape if m is not None and m > 1}
        elif isinstance(v.owner.op, Elemwise | DimShuffle):
            below = {(u, n) for u in parts if n in u.type.shape}
        else:
            continue
        todo += below - seen
        seen |= below
    return False


def indexed(var: TensorVariable, places: Places, moves_on: bool = True) -> TensorVariable:
    """Return the elements of a tensor at some places, along its first axis.

    It has length 1 if the tensor is the same at all of them. The other axes keep their order.
    `moves_on` is whether the index moves on to the data that the tensor is computed from.
    """
    long = {k: each for k, each in places.items() if varies(var, k)}
    if not long:
        return var.dimshuffle("x", *(k for k in range(var.ndim) if k not in places))
    kind = RowNumbers if moves_on else TensorConstant
    index = tuple(
        kind(TensorType("int64", long[k].shape), long[k]) if k in long else slice(None)
        for k in range(var.ndim)
    )
    found = pt.moveaxis(var[index], axis_of_rows(long), 0)
    behind = [k for k in range(var.ndim) if k not in long]
    return found.dimshuffle(0, *(1 + i for i, k in enumerate(behind) if k not in places))


def axis_of_rows(places: Places) -> int:
    """Return where NumPy puts the axis of an index: at its first axis, or in front if apart."""
    first, last = min(places), max(places)
    return first if last - first == len(places) - 1 else 0
