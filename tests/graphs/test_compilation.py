"""Machine code of graphs."""

import pytensor.tensor as pt

from pymc_flymc.graphs import compilation
from pymc_flymc.kernels.density import DENSITY
from pymc_flymc.kernels.native import address_of


def test_kept_on_disk():
    x, statistics = pt.vector("x", shape=(6,)), pt.vector("statistics")

    def compiled():
        graph = compilation._compile([x, statistics], [pt.exp(x) * statistics[0] + 0.12345])
        address_of(graph, DENSITY.args[:2])
        return graph.stats

    compiled()
    assert sum(compiled().cache_hits.values()) == 1
