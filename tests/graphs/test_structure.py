"""Graphs that compute different things have different names."""

import pytensor.tensor as pt
import pytest

from pymc_flymc.graphs.content_hash import structure_of

X = pt.specify_shape(pt.matrix("x"), (3, 3))
PLACES = pt.lvector("places")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (X[PLACES], X[:, PLACES]),
        (pt.set_subtensor(X[PLACES], 1.0), pt.set_subtensor(X[:, PLACES], 1.0)),
        (pt.set_subtensor(X[0], pt.ones(3)), pt.set_subtensor(X[:, 0], pt.ones(3))),
        (pt.set_subtensor(X[PLACES], 1.0), pt.inc_subtensor(X[PLACES], 1.0)),
        (X[0:2], X[1:3]),
        (pt.cumsum(X, axis=0), pt.cumsum(X, axis=1)),
        (X**2, X**3),
    ],
)
def test_what_is_computed_is_in_the_name(one, other):
    assert structure_of([one]) != structure_of([other])
