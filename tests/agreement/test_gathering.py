"""Rows of graphs are taken out of them without computing the others."""

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import ancestors

from pymc_flymc.agreement.gathering import RowsOfGraph
from pymc_flymc.graphs.tools import free_inputs, freeze, plain_function
from tests.reading.test_taken_rows import TAKEN, VALUES, N

#: Of these all elements of the term are computed: each row takes its own, by two arrays.
WHOLE = {
    "an element of some rows",
    "an element of each column",
    "from the last column",
}


@pytest.mark.parametrize("name", TAKEN)
def test_rows_of_other_rows(name):
    eta = freeze(TAKEN[name][0](), {})
    known = {v: VALUES[v] for v in free_inputs([eta])}
    expected = eta.eval(known).ravel()
    numbers = np.array([3, 0, 11, 5, 6, 19])
    rows = RowsOfGraph(numbers)
    some = rows(eta)
    given = known | dict(zip(rows.inputs, rows.values, strict=True))
    found = plain_function(list(given), some)(*given.values())
    np.testing.assert_allclose(found, expected[numbers], rtol=1e-12, atol=1e-12)
    lengths = {n for v in ancestors([some]) for n in getattr(v.type, "shape", ())}
    assert bool(lengths & {N, 2 * N}) == (name in WHOLE)


def test_effects_that_depend_on_each_other_are_computed_together():
    """Of a walk along more times than rows are compared."""
    steps = pt.vector("steps", shape=(3 * N,))
    time, numbers = np.arange(N) * 2, np.array([7, 3, 20])
    rows = RowsOfGraph(numbers)
    some = rows(pt.cumsum(steps)[time])
    values = np.random.default_rng(0).normal(size=3 * N)
    found = plain_function([steps, *rows.inputs], some)(values, *rows.values)
    expected = np.cumsum(values)[time[numbers]]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
