"""The rounding error of a gap, from the sizes of the terms that it is the sum of."""

from functools import reduce
from operator import add, mul
from typing import Any

import numpy as np
import pytensor.scalar as ps
import pytensor.tensor as pt
from pytensor.graph.traversal import toposort
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.variable import TensorVariable

#: Rounding errors allowed, in machine epsilons of the terms' size.
EPSILONS = 256.0


def rounding_error(gap: TensorVariable) -> TensorVariable:
    """Return the graph of the largest rounding error that a gap may have, element by element.

    A gap is a difference of numbers that are nearly equal. Its error is in proportion to the sizes
    of its terms, which are found in the outermost sums and products of its graph. Sizes of the
    terms of a sum are added, those of factors are multiplied. All terms are computed for the gap
    anyway. Sums of inputs, which are not computed, have no error. A gap that is not a sum, but
    comes from a function that loses no digits, has its own size. One is added to all sizes.
    """
    sizes: dict[Any, Any] = {}
    computed: set[Any] = set()
    node: Any
    for node in toposort([gap]):
        is_elemwise = isinstance(node.op, Elemwise)
        if is_elemwise and not computed.isdisjoint(node.inputs):
            size = _size(node.op.scalar_op, node.inputs, sizes)
            if size is not None:
                sizes[node.outputs[0]] = size
        if is_elemwise or not computed.isdisjoint(node.inputs):
            computed.update(node.outputs)
    return EPSILONS * np.finfo(np.float64).eps * (1.0 + sizes.get(gap, abs(gap)))


def _size(op: Any, inputs: list[Any], sizes: dict[Any, Any]) -> Any:
    """Return the size of a sum, or of an operation on one; None for anything else."""
    own = [sizes.get(v, abs(v)) for v in inputs]
    if isinstance(op, ps.Add | ps.Sub):
        return reduce(add, own)
    if not any(v in sizes for v in inputs):
        return None
    if isinstance(op, ps.Mul):
        return reduce(mul, own)
    if isinstance(op, ps.Neg | ps.Cast):
        return own[0]
    if isinstance(op, ps.TrueDiv):
        return own[0] / abs(inputs[1])
    if isinstance(op, ps.Sqr):
        return own[0] * own[0]
    if isinstance(op, ps.Switch):
        return pt.switch(inputs[0], own[1], own[2])
    return own[1] if isinstance(op, ps.Second) else None
