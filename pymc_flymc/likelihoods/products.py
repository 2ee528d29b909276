"""Products and powers in a graph, without factors that cancel."""

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Constant
from pytensor.scalar import basic as ps
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.graphs.tools import first_equals, free_inputs


def simplified(v: TensorVariable, signs: bool = True, of_rows: bool = True) -> Any:
    """Return a product of powers without factors that cancel; the same variable if none does.

    ``mu**2 / (mu / s)**2`` is ``s**2``: a shape that PyMC computes from a mean and a standard
    deviation is one for all rows if these are in proportion. PyMC multiplies it by the sign of the
    standard deviation. Signs are left out of what is positive. Without `signs` all are left out,
    which is right only where they are one. Without `of_rows` those of factors that differ by row
    are: they are one where a mean that has the same factors has a logarithm.
    """
    powers = _powers(v, first_equals(v))
    ones = [u for u in powers if is_from(u, ps.Sign)]
    for u in ones:
        odd = [
            w for w, p in _powers(u.owner.inputs[0], {}).items() if p % 2 and not _is_positive(w)
        ]
        del powers[u]
        powers.update(
            (pt.sign(w), 1.0) for w in odd if signs and (of_rows or all(w.type.broadcastable))
        )
    if all(powers.values()) and not ones:
        return v
    product: Any = pt.constant(1.0)
    for u, power in powers.items():
        if power == -1.0:
            product = product / u
        elif power:
            product = product * (u if power == 1.0 else u**power)
    return product


def number_times_data(v: TensorVariable) -> tuple[Any, Any] | None:
    """Return the factors of v: a number for all rows, and data with one for each row; or None."""
    number: Any = pt.constant(1.0)
    data: Any = pt.constant(1.0)
    for u, power in _powers(v, first_equals(v)).items():
        if all(u.type.broadcastable):
            number = number * (u.squeeze() if u.ndim else u) ** power
        elif free_inputs([u]):
            return None
        else:
            data = data * u**power
    return number, data


def _powers(v: TensorVariable, first: dict[Any, Any]) -> dict[Any, float]:
    """Return the factors of a product, and their powers; equal factors are merged."""
    powers: dict[Any, float] = {}
    todo: list[tuple[Any, float]] = [(v, 1.0)]
    while todo:
        u, power = todo.pop()
        if all(u.type.broadcastable):  # a number may have got axes
            u = without(u, DimShuffle)
        factors = factors_of(u)
        if factors is None:
            u = first.get(u, u)
            powers[u] = powers.get(u, 0.0) + power
        else:
            todo += [(factor, power * own) for factor, own in factors]
    return powers


def factors_of(v: Any) -> list[tuple[Any, Any]] | None:
    """Return the factors of a product, with their powers; None for any other variable."""
    # Roots are not taken apart: the root of a square is not its base if the base is negative.
    inputs = v.owner.inputs if v.owner is not None else []
    if is_from(v, ps.Mul):
        return [(u, 1) for u in inputs]
    if is_outer(v):
        return [(u, 1) for u in inputs]
    if is_from(v, ps.TrueDiv):
        return [(inputs[0], 1), (inputs[1], -1)]
    if is_from(v, ps.Reciprocal):
        return [(inputs[0], -1)]
    if is_from(v, ps.Sqr):
        return [(inputs[0], 2)]
    if is_from(v, ps.Pow) and (power := _exponent(v)) is not None and power == round(power):
        return [(inputs[0], power)]
    return None


def is_outer(v: Any) -> bool:
    """Return whether a variable is the outer product of two vectors, ``pt.outer(a, b)``."""
    is_dot = v.owner is not None and isinstance(v.owner.op, Dot)
    return is_dot and v.ndim == 2 and bool(v.owner.inputs[0].type.broadcastable[1])


def _exponent(v: Any) -> float | None:
    """Return the exponent of a power, if it is a number."""
    exponent = without(v.owner.inputs[1], DimShuffle)
    return (
        float(np.ravel(exponent.data)[0])
        if isinstance(exponent, Constant) and np.size(exponent.data) == 1
        else None
    )


def _is_positive(v: Any) -> bool:
    """Return whether a variable is never negative: an exponential, a root, a positive number."""
    v = without(v, DimShuffle, ViewOp)
    if isinstance(v, Constant):
        return bool(np.all(v.data > 0))
    return root_of(v) is not None or is_from(v, ps.Exp)


def root_of(v: Any) -> Any:
    """Return the argument of a square root, or None for any other variable."""
    is_root = is_from(v, ps.Sqrt) or (is_from(v, ps.Pow) and _exponent(v) == 0.5)
    return v.owner.inputs[0] if is_root else None


def without(v: Any, *wrappers: Any) -> Any:
    """Return the variable inside of views and other wrappers."""
    while v.owner is not None and isinstance(v.owner.op, wrappers):
        (v,) = v.owner.inputs
    return v


def is_from(v: Any, kind: Any) -> bool:
    """Return whether a variable comes from an elementwise operation of a kind."""
    op = None if v.owner is None else v.owner.op
    return isinstance(op, Elemwise) and isinstance(op.scalar_op, kind)
