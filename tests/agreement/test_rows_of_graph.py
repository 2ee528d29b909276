"""A few rows of a graph are those of all: evaluated alone, or with the others."""

import numpy as np
import pytensor.tensor as pt
import pytest

from pymc_flymc.agreement.compared import RowsOfGraph
from pymc_flymc.graphs.tools import freeze
from tests.reading.test_predictor import SHAPES, SPELLINGS, THETA
from tests.reading.test_taken_rows import TAKEN, VALUES

ROWS = np.array([3, 0, 11, 5, 6, 19])
#: Spellings of which the few rows cannot be evaluated alone.
WHOLE = {"reversed dot", "einsum transposed", "batched matmul", "transposed sum"}


@pytest.mark.parametrize("name", sorted(SPELLINGS.keys() - {"intercept alone"}))
def test_rows_alone(name, monkeypatch):
    spelling, expected, _ = SPELLINGS[name]
    rows = RowsOfGraph(freeze(pt.as_tensor_variable(spelling()), SHAPES), ROWS)
    if name not in WHOLE:
        monkeypatch.setattr(RowsOfGraph, "_all", None)
    found = np.broadcast_to(rows([THETA])[0], len(ROWS))
    np.testing.assert_allclose(found, np.broadcast_to(expected, 20)[ROWS], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", TAKEN)
def test_rows_of_other_rows(name):
    """Alone they may be others, as those of rows in another order; among all they are right."""
    eta = TAKEN[name][0]()
    values = {v.name: value for v, value in VALUES.items()}
    expected = eta.eval(VALUES, on_unused_input="ignore")[ROWS]
    rows = RowsOfGraph(freeze(eta, {}), ROWS)
    for whole in (True, False)[: 1 if name == "backwards" else 2]:
        found = rows([values], 0, whole)[0]
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
