"""Copies of graphs, rewritten: ``rewrite_graph`` of PyTensor changes the graph that it is given."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from pytensor.compile.mode import optdb
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import graph_replace
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.graph.traversal import ancestors

from pymc_flymc.compat.pytensor import rewrites

#: One solve with a matrix for many with the same triangle, one for each effect of a covariance:
#: PyTensor's Python linker runs them in a loop, and their second derivatives even more so.
SOLVES = optdb["specialize"].query(
    RewriteDatabaseQuery(include=rewrites("batched_vector_b_solve_to_matrix_b_solve"))
)


def rewritten(
    graphs: Sequence[Variable], names: Sequence[str], kept: Collection[Variable] = ()
) -> list[Any]:
    """Return copies of graphs, rewritten, also with `SOLVES`.

    Parameters
    ----------
    graphs : sequence of Variable
    names : sequence of str
        Of rewrites.
    kept : collection of Variable
        Variables within the graphs that are not copied, nor is what they depend on.
    """
    inputs = [
        v
        for v in ancestors(graphs, kept)
        if v in kept or (v.owner is None and not isinstance(v, Constant))
    ]
    copies = FunctionGraph(inputs, list(graphs), clone=True)
    optdb.query(RewriteDatabaseQuery(include=names)).rewrite(copies)
    SOLVES.rewrite(copies)
    # Where a variable was made is copied to all that rewrites make of it, once for each way there:
    # if what was rewritten is rewritten again, this takes all memory.
    for v in ancestors(copies.outputs):
        v.tag.trace = []
    own: Any = dict(zip(copies.inputs, inputs, strict=True))
    return list(graph_replace(copies.outputs, own, strict=False))
