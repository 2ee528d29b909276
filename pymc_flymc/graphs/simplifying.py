"""Rewrites of copies of graphs: PyTensor's ``rewrite_graph`` changes its argument."""

from collections.abc import Collection, Sequence
from typing import Any

import pytensor.tensor as pt
from pytensor.compile.mode import optdb
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import graph_replace
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Add, Mul
from pytensor.tensor.elemwise import Elemwise

from pymc_flymc.compat.pytensor import rewrites

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


#: Rewrites a sum or product of many terms as one of two shorter ones, recursively. A model may have
#: any number of terms, and PyTensor's own rewrites flatten nested sums.
SPLIT = in2out(_split)


#: One solve with a matrix in place of many solves with the same triangle, one for each effect of a
#: covariance: PyTensor's Python linker runs them in a loop, and their second derivatives, too.
SOLVES = optdb["specialize"].query(
    RewriteDatabaseQuery(include=rewrites("batched_vector_b_solve_to_matrix_b_solve"))
)


def rewritten(
    graphs: Sequence[Variable], names: Sequence[str], kept: Collection[Variable] = ()
) -> list[Any]:
    """Return copies of graphs, except `kept`, after rewrites of these names and `SOLVES`."""
    inputs = [
        v
        for v in ancestors(graphs, kept)
        if v in kept or (v.owner is None and not isinstance(v, Constant))
    ]
    copies = FunctionGraph(inputs, list(graphs), clone=True)
    optdb.query(RewriteDatabaseQuery(include=names)).rewrite(copies)
    SOLVES.rewrite(copies)
    # A variable's history is copied to all of its rewritten forms, once for each path to it: in a
    # graph that is rewritten again, this takes all memory.
    for v in ancestors(copies.outputs):
        v.tag.trace = []
    own: Any = dict(zip(copies.inputs, inputs, strict=True))
    return list(graph_replace(copies.outputs, own, strict=False))
