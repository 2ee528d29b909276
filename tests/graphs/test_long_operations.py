"""Sums and products of more terms than NumPy's functions have operands."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.fg import FunctionGraph

from pymc_flymc.agreement.rounding import RoundedFunction
from pymc_flymc.graphs.tools import MOST, PLAIN_PYTHON, SPLIT


@pytest.mark.parametrize("n", [MOST, MOST + 1, 40 * MOST])
@pytest.mark.parametrize(("operation", "of_arrays"), [(pt.add, np.sum), (pt.mul, np.prod)])
def test_operations_of_many_terms(operation, of_arrays, n):
    terms = [pt.vector(dtype="float64") if i % 2 else pt.scalar(dtype="float64") for i in range(n)]
    graph = FunctionGraph(terms, [operation(*terms)])
    SPLIT.rewrite(graph)
    assert max(len(node.inputs) for node in graph.apply_nodes) <= MOST
    rng = np.random.default_rng(n)
    values = [1.0 + 0.1 * rng.normal(size=(3,) if i % 2 else ()) for i in range(n)]
    found = pytensor.function(graph.inputs, graph.outputs, mode=PLAIN_PYTHON)(*values)
    expected = of_arrays([np.broadcast_to(value, 3) for value in values], axis=0)
    np.testing.assert_allclose(found[0], expected, rtol=n * np.finfo(float).eps)


def test_they_are_compared():
    """Otherwise a model of many terms would seem to have no density anywhere."""
    terms = [pt.vector(dtype="float64") for _ in range(2 * MOST)]
    function = RoundedFunction(terms, [pt.add(*terms)])
    values = np.random.default_rng(1).normal(size=(2 * MOST, 3))
    found = [function(*values, seed=seed)[0] for seed in range(3)]
    rounding = 2 * MOST * np.finfo(float).eps * np.abs(values).sum(axis=0)
    assert np.all(np.abs(found - values.sum(axis=0)) <= rounding)
    assert np.ptp(found, axis=0).all()
