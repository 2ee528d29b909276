"""What the walk through a linear predictor's graph carries from operation to operation.

For each data-sized tensor T met, an item says what the predictor does with it:
``eta_n = sum over T's other axes of weight * scale_n * T_n``, in which `weight` is a small graph
(length 1 along the row axis) and `scale`, mostly absent, is an array of numbers. Steps turn the
weight of an operation's result into weights of its arguments, as in reverse-mode differentiation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Apply, Variable
from pytensor.scalar import basic as ps
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.variable import TensorVariable


class NotReadableError(Exception):
    """An operation that cannot be walked through; the message completes "because ..."."""


@dataclass(frozen=True)
class Item:
    """A tensor to be walked; see the module's docstring.

    Attributes
    ----------
    var : TensorVariable
        The tensor.
    axis : int
        Its axis of rows.
    weight : TensorVariable or None
        Broadcasts against `var`, length 1 along `axis`; None stands for ones.
    scale : ndarray or None
        Broadcasts against `var`; None stands for ones.
    """

    var: TensorVariable
    axis: int
    weight: TensorVariable | None = None
    scale: np.ndarray | None = None


class IsFixed(Protocol):
    """Tells whether a variable depends on constants only.

    Attributes
    ----------
    any_rows : bool
        Whether what is read must hold for other rows than those at hand: then nothing may be
        decided by their values.
    """

    any_rows: bool

    def __call__(self, var: Variable) -> bool: ...  # noqa: D102


Step = Callable[[Item, Apply, IsFixed], list[Item]]


def kind_of(node: Apply) -> type:
    """Return the type that stands for a node's operation in ``STEPS``."""
    op: Any = node.op
    if isinstance(op, Elemwise):
        return type(op.scalar_op)
    if isinstance(op, Blockwise):
        return type(op.core_op)
    return type(op)


def carries(var: Variable, axis: int) -> bool:
    """Return whether a tensor differs from row to row along an axis."""
    return not var.type.broadcastable[axis]


def only_rows(item: Item) -> bool:
    """Return whether the scale is absent or one number for each row."""
    return item.scale is None or item.scale.size == item.scale.shape[item.axis]


def times(a: TensorVariable | None, b: TensorVariable) -> TensorVariable:
    """Multiply in floating point, as factors of a float; None stands for ones."""
    if "float" not in b.type.dtype:
        b = b.astype("float64")
    return b if a is None else a * b


def inputs_of(node: Apply) -> list[TensorVariable]:
    """Return a node's arguments, which are tensors for the operations known here."""
    return cast(list[TensorVariable], list(node.inputs))


def below_views(var: Variable) -> Variable:
    """Return what casts and copies are made of."""
    while var.owner is not None and kind_of(var.owner) in (ps.Cast, ps.Identity, ViewOp):
        (var,) = var.owner.inputs
    return var


def as_columns(array: np.ndarray, axis: int) -> tuple[np.ndarray, tuple[int, ...]]:
    """Return an array as (N, P), a view where possible, and the lengths of its other axes."""
    rows_first = np.moveaxis(array, axis, 0)
    return rows_first.reshape(len(rows_first), -1), rows_first.shape[1:]


def without_axis(weight: TensorVariable, axis: int) -> TensorVariable:
    """Drop the row axis, of length 1."""
    return weight.dimshuffle([i for i in range(weight.ndim) if i != axis])


def flat(weight: TensorVariable, sizes: tuple[int, ...]) -> TensorVariable:
    """Broadcast a weight to the lengths of the data's axes, and return it as a vector."""
    if weight.ndim == 0:
        return weight.dimshuffle("x")
    if any(own == 1 != full for own, full in zip(weight.type.shape, sizes, strict=True)):
        weight = pt.broadcast_to(weight, sizes)
    return weight.flatten() if weight.ndim > 1 else weight
