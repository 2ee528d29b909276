"""What benchmarks take from the package is there, and their models are built."""

import pytest

from examples.benchmarks import hierarchies
from examples.benchmarks.setup import PARTS, owner_of


@pytest.mark.parametrize("where", [where for places in PARTS.values() for where in places])
def test_parts_of_the_setup(where):
    owner, name = owner_of(*where)
    assert callable(getattr(owner, name))


@pytest.mark.parametrize(
    ("model", "sizes", "n_parameters"),
    [
        (hierarchies.bradley_terry, (5, 40), 6),
        (hierarchies.rasch, (8, 5), 14),
        (hierarchies.crossed, (40, 6, 4), 13),
        (hierarchies.intercepts, (40, 6), 18),
    ],
)
def test_hierarchies(model, sizes, n_parameters):
    """Each has a logistic outcome of as many rows, and all effects are parameters."""
    built = model(*sizes)
    (outcome,) = built.observed_RVs
    assert outcome.eval().shape == (40,)
    assert sum(value.size for value in built.initial_point().values()) == n_parameters
