"""Graphs that are affine in a vector, and products written out as sums."""

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import product
from operator import add, mul
from typing import Any, cast

import numpy as np
import pytensor.tensor as pt
from pytensor import scalar as ps
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import toposort
from pytensor.tensor.basic import Alloc, Join, MakeVector, ScalarFromTensor, Split, TensorFromScalar
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot, Prod, Sum
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, IncSubtensor, Subtensor
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.graphs.tools import copy_graphs, plain_function

#: Jacobians with more elements, of at most as many outputs as inputs, are left to graphs.
LARGE = 1 << 22

#: Ops that move the elements of their first input.
_MOVES = (
    Alloc,
    AdvancedSubtensor,
    DimShuffle,
    Reshape,
    ScalarFromTensor,
    SpecifyShape,
    Split,
    Subtensor,
    TensorFromScalar,
)
_SUMS = ps.Add, ps.Sub, ps.Neg, ps.Identity
#: How a variable depends on theta.
FIXED, AFFINE, EXPONENTIAL, OTHER = range(4)


def constant_jacobian(of: TensorVariable, wrt: TensorVariable) -> np.ndarray | None:
    """Return the Jacobian (P, D) of a vector that is affine in another, or else None."""
    # Logarithms of exponentials and their products, as of a scale sampled by its log, are affine.
    kinds: dict[Variable, int] = {wrt: AFFINE}
    for node in toposort([of], blockers=[wrt]):
        kind = _kind(node, [kinds.get(v, FIXED) for v in node.inputs])
        kinds.update(dict.fromkeys(node.outputs, kind))
    (d,) = wrt.type.shape
    if kinds.get(of, FIXED) != AFFINE or d is None or d * d > LARGE:
        return None
    points = pt.matrix("points", shape=(d + 1, d), dtype="float64")
    values: Any = vectorize_graph(of, {wrt: points})
    at = plain_function([points], values)(np.concatenate([np.zeros((1, d)), np.eye(d)]))
    return np.ascontiguousarray((at[1:] - at[0]).T)


def _kind(node: Apply, inputs: list[int]) -> int:
    """Return how a node's outputs depend on theta if its inputs are of the given kinds."""
    op: Any = node.op.core_op if isinstance(node.op, Blockwise) else node.op
    function = op.scalar_op if isinstance(op, Elemwise) else None
    moving = [kind for kind in inputs if kind != FIXED]
    if not moving:
        return FIXED
    if isinstance(op, _MOVES):
        return OTHER if any(inputs[1:]) else inputs[0]
    if isinstance(function, ps.Log):
        return AFFINE if inputs == [EXPONENTIAL] else OTHER
    if isinstance(function, ps.Mul | ps.TrueDiv) and set(moving) == {EXPONENTIAL}:
        return EXPONENTIAL
    if any(kind != AFFINE for kind in moving):
        return OTHER
    if isinstance(function, ps.Exp):
        return EXPONENTIAL
    is_linear = (
        isinstance(op, Join | MakeVector)
        or isinstance(function, _SUMS)
        or (isinstance(op, Sum | Dot) and len(moving) == 1)
        or (isinstance(op, IncSubtensor) and not any(inputs[2:]))
        or (isinstance(function, ps.Mul) and len(moving) == 1)
        or (isinstance(function, ps.TrueDiv) and not inputs[1])
        or (isinstance(function, ps.Cast) and _are_double(node))
    )
    return AFFINE if is_linear else OTHER


def _are_double(node: Apply) -> bool:
    return all(getattr(v.type, "dtype", "") == "float64" for v in (*node.inputs, *node.outputs))


#: Products of more factors are not written out.
MOST_FACTORS = 64
#: Largest inner dimension of a product of matrices that is written as a sum.
NARROW = 8


def write_out_products(variables: Sequence[TensorVariable]) -> list[TensorVariable]:
    """Return copies of graphs with products of few elements written as multiplications."""
    # PyTensor has no second derivatives of pt.prod, as in spectral densities of Gaussian processes.

    def written(node: Apply, inputs: Sequence[Any]) -> Variable | None:
        factors = _factors(node.op, inputs[0]) if isinstance(node.op, Prod) else []
        return reduce(mul, factors) if factors else None

    return _with_replaced(variables, written)


def write_out_dots(variables: Sequence[TensorVariable]) -> list[TensorVariable]:
    """Return copies of graphs with products of narrow matrices as sums of outer products."""
    # BLAS is no faster for these, and numba takes seconds to compile a call of it.

    def written(node: Apply, inputs: Sequence[Any]) -> Variable | None:
        op = node.op.core_op if isinstance(node.op, Blockwise) else node.op
        if not isinstance(op, Dot) or any(each.type.ndim != 2 for each in inputs):
            return None
        x, y = inputs
        known = [n for n in (x.type.shape[1], y.type.shape[0]) if n is not None]
        if not known or not 0 < known[0] <= NARROW:
            return None
        return reduce(add, [x[:, i, None] * y[i, None, :] for i in range(known[0])])

    return _with_replaced(variables, written)


def _with_replaced(
    variables: Sequence[TensorVariable], replacement: Callable[[Apply, Sequence[Any]], Any]
) -> list[TensorVariable]:
    """Return copies of graphs with some nodes of one output replaced, whatever their type."""

    def replaced(node: Apply, inputs: Sequence[Any]) -> Sequence[Variable] | None:
        found = replacement(node, inputs)
        return None if found is None else [found.astype(node.outputs[0].type.dtype)]

    return copy_graphs(variables, replaced)


def _factors(op: Prod, array: Variable) -> list[TensorVariable]:
    """Return the slices of an array that a product multiplies; none if they are unknown or many."""
    shape = cast(TensorVariable, array).type.shape
    axes = range(len(shape)) if op.axis is None else op.axis
    lengths = [shape[axis] for axis in axes]
    if None in lengths or np.prod(cast(list[int], lengths)) > MOST_FACTORS:
        return []
    ranges = [range(cast(int, n)) if i in axes else [slice(None)] for i, n in enumerate(shape)]
    return [cast(TensorVariable, array)[index] for index in product(*ranges)]
