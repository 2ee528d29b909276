"""Sums and products of many terms, as PyTensor's Python linker can evaluate them."""

from __future__ import annotations

from typing import Any

import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.scalar.basic import Add, Mul
from pytensor.tensor.elemwise import Elemwise

#: NumPy's functions have at most 32 operands, of which one is the result.
MOST = 31


def _of_halves(operation: Any, terms: list[Variable]) -> Any:
    if len(terms) <= MOST:
        return operation(*terms)
    half = len(terms) // 2
    return operation(*(_of_halves(operation, part) for part in (terms[:half], terms[half:])))


@node_rewriter([Elemwise])
def _split(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    scalar: Any = getattr(node.op, "scalar_op", None)
    if len(node.inputs) <= MOST or not isinstance(scalar, Add | Mul):
        return None
    return [_of_halves(pt.add if isinstance(scalar, Add) else pt.mul, list(node.inputs))]


#: Rewrites a sum or product of many terms as one of two shorter ones, and so on. A model may have
#: any number of terms, and PyTensor's own rewrites put the terms of nested sums side by side.
SPLIT = in2out(_split)
