"""Machine code of graphs."""

import numpy as np
import pytensor.tensor as pt
import pytest

from pymc_flymc.compat.numba import address_of
from pymc_flymc.graphs import compilation
from pymc_flymc.graphs.compilation import DensityGraphs
from pymc_flymc.kernels.native import DENSITY, N_SHARED


def test_kept_on_disk():
    x, statistics = pt.vector("x", shape=(6,)), pt.vector("statistics")

    def compiled():
        graph = compilation._compile([x, statistics], [pt.exp(x) * statistics[0] + 0.12345])
        address_of(graph, DENSITY.args[:2])
        return graph.stats

    compiled()
    assert sum(compiled().cache_hits.values()) == 1


@pytest.mark.parametrize("n_shared", [0, 2, N_SHARED, N_SHARED + 2])
def test_what_rows_share_follows_the_coefficients(n_shared):
    """In registers up to `N_SHARED` numbers, else in the vector."""
    theta, statistics = pt.vector("theta", shape=(2,)), pt.vector("statistics")
    shared = pt.stack([theta[0] * (k + 2.0) for k in range(n_shared)]) if n_shared else pt.zeros(0)
    w = theta[::-1]
    graphs = DensityGraphs(theta, statistics, theta.sum(), statistics[0], w, shared, None)
    at, out = np.array([3.0, 5.0]), np.empty(2 + n_shared)
    assert compilation.compile_density(graphs)(at, np.array([0.5]), out) == 8.5
    np.testing.assert_array_equal(out, [5.0, 3.0, *(3.0 * (k + 2.0) for k in range(n_shared))])
