"""What joint moves cost, as far as it is counted before moves are selected."""

from types import SimpleNamespace

import numpy as np

from pymc_flymc.kernels.rescaling import MOST_MOVES, reading_moves
from pymc_flymc.kernels.shared_scales import CENTRED, Locations, SharedScales
from pymc_flymc.sampling.candidates import Candidates
from pymc_flymc.sampling.costs import Costs

COSTS = Costs(seconds=1e-7, bright=2.0, drawn=5.0, evaluation=30.0)


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
