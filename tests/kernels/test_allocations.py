"""Kernels free all that they allocate: numba counts no references within their records."""

import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

from pymc_flymc import FireflyHMC, FireflyMH, FireflySlice
from tests.support.models import intercepts_model
from tests.support.patches import any_size, structured
from tests.support.steps import step_of

#: Ways to sample, and whether coordinates are copied: where a model has effects of many groups.
STEPS = {
    "metropolis": (FireflyMH, {"kernel": "metropolis"}, structured),
    "joint": (FireflyMH, {"kernel": "joint"}, any_size),
    "surrogate": (FireflyMH, {"kernel": "surrogate"}, any_size),
    "local": (FireflyMH, {"kernel": "local"}, structured),
    "hamiltonian": (FireflyHMC, {}, structured),
    "slice": (FireflySlice, {}, structured),
}


@pytest.fixture
def allocations():
    """``allocations()`` are numba's so far: those of arrays, and those that are not freed."""
    were_counted = _nrt_python.memsys_stats_enabled()
    _nrt_python.memsys_enable_stats()

    def counts():
        found = rtsys.get_allocation_stats()
        return found.alloc, found.alloc - found.free

    yield counts
    if not were_counted:
        _nrt_python.memsys_disable_stats()


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.slow_cases("local", "surrogate", "joint", "hamiltonian")
def test_all_that_is_allocated_is_freed(name, allocations):
    """Of a call, which counts references to what it is handed, and of transitions."""
    cls, settings, as_if = STEPS[name]
    model = intercepts_model()
    with as_if():
        step = step_of(model, cls, transitions=20, **settings)
    step.setup_chain(np.random.default_rng(0), 0, 1)
    point, _ = step.step(model.initial_point())
    assert bool(len(step.chain.geometry.diagonal)) is (as_if is structured)
    before, unfreed = allocations()
    for _ in range(5):
        point, _ = step.step(point)
    after, still_unfreed = allocations()
    assert after > before  # each array that is handed over is counted
    assert still_unfreed == unfreed
