"""What rows cost by how they are read, and what is learnt of costs before moves are selected."""

from types import SimpleNamespace

import numpy as np
import pytest

from pymc_flymc.kernels.rescaling import MOST_MOVES, reading_moves
from pymc_flymc.kernels.shared_scales import CENTRED, Locations, SharedScales
from pymc_flymc.sampling.adaptation import HAMILTONIAN, JOINT, SURROGATE
from pymc_flymc.sampling.candidates import Candidates
from pymc_flymc.sampling.costs import Costs

COSTS = Costs(seconds=1e-7, bright=2.0, drawn=5.0, evaluation=30.0)


def target_of(spec, subsamples=True, n_exact=None):
    exact = None if n_exact is None else SimpleNamespace(X=np.zeros((n_exact, 2)))
    return SimpleNamespace(subsamples=subsamples, spec=spec, data=SimpleNamespace(exact=exact))


@pytest.mark.parametrize(
    ("target", "gradients", "cost"),
    [
        (target_of(HAMILTONIAN, subsamples=False), 3.0, 100.0),
        (target_of(HAMILTONIAN), 3.0, 200.0),
        (target_of(JOINT), 0.0, 500.0),
        # Twenty rows in turn for each of three gradients, and for where trajectories begin.
        (target_of(SURROGATE, n_exact=20), 3.0, 80.0 + 5.0 * 20.0),
        (target_of(SURROGATE, n_exact=40), 3.0, 100.0),
    ],
    ids=["all rows", "bright", "fresh", "some exact", "exact"],
)
def test_rows_cost_by_how_they_are_read(target, gradients, cost):
    assert COSTS.of_queries(target, 100.0, gradients) == cost


def scales(n):
    places = np.arange(n)
    return SharedScales(places, np.arange(n + 1), places, Locations.zero(n), np.full(n, CENTRED))


def test_moves_of_scales_count_for_joint_moves():
    """Each reads as many rows as a proposal."""

    def cost(scales):
        task = SimpleNamespace(graph=SimpleNamespace(scales=scales))
        return Candidates.of_proposal(SimpleNamespace(costs=COSTS, task=task), 10.0)

    assert cost(scales(0)) == 30.0 + 5.0 * 10.0
    assert cost(scales(2)) == 3.0 * cost(scales(0))


def test_there_are_so_many_moves_of_scales_at_most():
    assert reading_moves(scales(3)) == 3
    assert reading_moves(scales(MOST_MOVES + 1)) == MOST_MOVES
