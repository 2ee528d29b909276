"""Graphs with products written as sums and multiplications of a few parts."""

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import product
from operator import add, mul
from typing import Any, cast

import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.math import Dot, Prod
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.graphs.tools import copy_graphs

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
