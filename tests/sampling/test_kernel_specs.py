"""Kernels as values, and their costs."""

import pickle
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import FireflyMH
from pymc_flymc.kernels import metropolis
from pymc_flymc.kernels.rescaling import MOST_MOVES, reading_moves
from pymc_flymc.kernels.shared_scales import CENTRED, Locations, SharedScales
from pymc_flymc.sampling.adaptation import KERNELS, MetropolisAdaptation, conditional_plan, spec_of
from pymc_flymc.sampling.bound_choice import conditional_bounds
from pymc_flymc.sampling.candidates import Candidates
from pymc_flymc.sampling.costs import Costs
from pymc_flymc.steps.step import FireflyStep
from pymc_flymc.target.target import KernelSpec


class WalkAdaptation(MetropolisAdaptation):
    def __init__(self):
        super().__init__("random_walk")


WalkAdaptation.spec = KernelSpec("walk", metropolis.run_kernel, WalkAdaptation, conditional_plan)


class FireflyWalk(FireflyStep):
    """A step of a user's own, for a kernel of a user's own."""

    stats_dtypes_shapes = FireflyMH.stats_dtypes_shapes
    _unused = FireflyMH._unused

    def __init__(self, transitions=None, model=None):
        self._build(None, "auto", None, transitions, None, model, None, None)

    def _choose(self, task):
        bounds = conditional_bounds(task)
        return task.sampler(bounds, WalkAdaptation(), transitions=self._transitions)


def test_a_kernel_of_ones_own():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(200, 2))
    draws = []
    for step_of in (
        FireflyWalk,
        lambda **settings: FireflyMH(kernel="metropolis", proposal="random_walk", **settings),
    ):
        with pm.Model():
            beta = pm.Normal("beta", 0.0, 1.0, shape=2)
            pm.Bernoulli("y", logit_p=x @ beta, observed=np.arange(200) % 2)
            step = step_of(transitions=3)
            made = pm.sample(
                step=step, draws=20, tune=20, chains=1, random_seed=1, progressbar=False
            )
        draws.append(made.posterior["beta"].to_numpy())
    np.testing.assert_array_equal(*draws)


def test_unknown_kernels_are_refused():
    """Never is another one taken in their place."""
    known = ", ".join(KERNELS)
    with pytest.raises(ValueError, match=f"kernel must be one of {known}, not 'gibbs'"):
        spec_of("gibbs")


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_travel_to_other_processes(kernel):
    spec = spec_of(kernel)
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert spec.adaptation.__module__.startswith("pymc_flymc.sampling.adaptation")


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
