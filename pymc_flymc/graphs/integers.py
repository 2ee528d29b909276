"""Arithmetic of integers in graphs, whose results must stay within their types.

Beyond its type a result depends on PyTensor's rewrites: ``x * g * b``, for x and g of uint8, is
computed modulo 256 as written, but not if a rewrite has changed the order of the product.
"""

from functools import reduce
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply
from pytensor.graph.traversal import toposort
from pytensor.scalar import basic as ps
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.graphs.tools import ConstantParts, plain_function

#: Scalar operations whose result may be outside the type of their arguments.
_ARITHMETIC: dict[type, Any] = {
    ps.Add: np.add,
    ps.Sub: np.subtract,
    ps.Mul: np.multiply,
    ps.Neg: np.negative,
    ps.Pow: np.power,
    ps.Sqr: np.square,
    ps.Abs: np.abs,
}
#: Rounding error of float64, in which sums and products are compared.
_ROUNDING = 1e-12


def check_integers(variable: TensorVariable, what: str) -> None:
    """Refuse a graph from `freeze` in which integer data exceed the range of their type."""
    is_constant = ConstantParts([variable])
    for node in toposort([variable]):
        if is_constant(node.outputs[0]) and _is_arithmetic(node):
            _check(node, what)


def _is_arithmetic(node: Apply) -> bool:
    op: Any = node.op
    return (
        isinstance(op, Elemwise)
        and type(op.scalar_op) in _ARITHMETIC
        and node.outputs[0].type.dtype.startswith(("int", "uint", "bool"))
    )


def _check(node: Apply, what: str) -> None:
    op: Any = node.op
    function = _ARITHMETIC[type(op.scalar_op)]
    found, *arguments = plain_function([], [*node.outputs, *node.inputs])()
    wide = [np.asarray(each, np.float64) for each in arguments]
    with np.errstate(all="ignore"):
        expected = reduce(function, wide) if len(wide) > 1 else function(*wide)
    bad = np.abs(found.astype(np.float64) - expected) > _ROUNDING * np.abs(expected)
    dtype = found.dtype
    if isinstance(op.scalar_op, ps.Pow) and arguments[0].dtype.kind in "iu":
        # PyTensor may rewrite it as a product in the type of its base.
        dtype = min(dtype, arguments[0].dtype, key=lambda each: each.itemsize)
        limits = np.iinfo(arguments[0].dtype)
        bad |= (expected < limits.min) | (expected > limits.max)
    if bad.any():
        first = np.flatnonzero(np.broadcast_to(bad, expected.shape))[0]
        numbers = [np.broadcast_to(each, expected.shape).flat[first] for each in arguments]
        raise ValueError(
            f"{what} computes {function.__name__} of {', '.join(map(str, numbers))} in {dtype}, "
            "which has no place for the result: PyTensor then takes the remainder in some orders "
            "of the operations, and not in others. Make the data floats, as in "
            'pm.Data(name, values.astype("float64")), or values.astype("float64") in the model'
        )
