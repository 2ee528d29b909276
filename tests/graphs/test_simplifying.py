"""Graphs are rewritten as copies."""

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor.linalg import solve_triangular

from pymc_flymc.compat.pytensor import rewrites
from pymc_flymc.graphs.tools import plain_function, rewritten

SIMPLER = rewrites("canonicalize")


def test_the_graph_stays_as_it_is():
    x = pt.dvector("x")
    kept = pt.exp(x * 1.0)
    graph = pt.log(kept * 1.0) + 0.0
    before = pytensor.dprint(graph, file="str")
    (copy,) = rewritten([graph], SIMPLER)
    assert pytensor.dprint(graph, file="str") == before
    assert len(list(ancestors([copy]))) < len(list(ancestors([graph])))
    (beside,) = rewritten([graph], SIMPLER, kept={kept})
    assert kept in ancestors([beside])
    value = np.array([0.3, -1.0])
    for each in (copy, beside):
        found = plain_function([x], each)(value)
        np.testing.assert_allclose(found, value, rtol=4 * np.finfo(float).eps)


def test_one_solve_for_all_effects():
    """In Python each is one of a loop, and there is a loop for each second derivative."""
    a, b = pt.dmatrix("a", shape=(2, 2)), pt.dmatrix("b", shape=(5, 2))
    graph = solve_triangular(a[None], b, lower=True, b_ndim=1)
    (found,) = rewritten([graph], SIMPLER)
    values = np.array([[2.0, 0.0], [0.5, 1.0]]), np.random.default_rng(1).normal(size=(5, 2))
    at, wanted = (plain_function([a, b], each) for each in (found, graph))
    np.testing.assert_allclose(at(*values), wanted(*values), rtol=8 * np.finfo(float).eps)
    solves = [node for node in toposort([found]) if "SolveTriangular" in str(node.op)]
    assert [node.outputs[0].type.shape for node in solves] == [(2, 5)]
