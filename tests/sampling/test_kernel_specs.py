"""A kernel is said in one place, and any other place takes it from there."""

import pickle

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import FireflyMH
from pymc_flymc.kernels import metropolis
from pymc_flymc.sampling.adaptation import KERNELS, MetropolisAdaptation, conditional_plan, spec_of
from pymc_flymc.sampling.bound_choice import conditional_bounds
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
