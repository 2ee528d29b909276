"""Cotangents: what the graph traversal of a linear predictor carries from result to argument.

For each data-sized tensor T, a cotangent contains how the predictor depends on it:
``eta_n = sum over T's other axes of weight * scale_n * T_n``, in which `weight` is a small graph
(length 1 along the row axis) and `scale`, mostly absent, is an array of numbers. Rules turn the
cotangent of an operation's result into the cotangents of its arguments, as in reverse-mode
differentiation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Apply, Variable
from pytensor.scalar import basic as ps
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.graphs.tools import ConstantParts, evaluate, free_inputs

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
