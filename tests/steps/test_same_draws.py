"""The same seed means the same draws, whatever was built before in the process."""

from collections import OrderedDict

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import FireflyHMC
from pymc_flymc.graphs import memoise

N = 400
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
GROUP = RNG.integers(0, 8, N)
LEVEL = X @ [0.4, -0.3, 0.2]


def logistic(rng):
    a, b = pm.Normal("a"), pm.Normal("b", shape=3)
    pm.Bernoulli("y", logit_p=a + X @ b, observed=rng.random(N) < 1.0 / (1.0 + np.exp(-LEVEL)))


def poisson(rng):
    a, b, scale = pm.Normal("a"), pm.Normal("b", shape=3), pm.HalfNormal("scale")
    effect = pm.Normal("effect", 0.0, scale, shape=8)
    level = rng.normal(0.0, 0.3, 8)[GROUP]
    pm.Poisson("y", pm.math.exp(a + X @ b + effect[GROUP]), observed=rng.poisson(np.exp(level)))


def student_t(rng):
    b, scale, nu = pm.Normal("b", shape=3), pm.HalfNormal("scale"), pm.Gamma("nu", 2.0, 0.1)
    pm.StudentT("y", nu=nu, mu=X @ b, sigma=scale, observed=LEVEL + rng.standard_t(4.0, N))


def softmax(rng):
    b = pm.Normal("b", shape=(3, 3))
    pm.Categorical("y", logit_p=X @ b, observed=rng.integers(0, 3, N))


def draws(write, seed=0):
    """Draws of a model that is written, built and sampled anew, with tuning."""
    with pm.Model() as model:
        write(np.random.default_rng(seed))
        step = FireflyHMC(transitions=2)
    step.setup_chain(np.random.default_rng(1), 40, 10)
    step.tune, point, found = True, model.initial_point(), []
    for i in range(50):
        if i == 40:
            step.stop_tuning()
        point, _ = step.step(point)
        found.append(np.concatenate([np.ravel(each) for each in point.values()]))
    return np.array(found)


@pytest.mark.slow_cases("logistic", "student_t", "softmax")
@pytest.mark.parametrize("write", [logistic, poisson, student_t, softmax])
def test_draws_do_not_depend_on_what_was_built_before(write, monkeypatch):
    monkeypatch.setattr(memoise, "_kept", OrderedDict())  # as in a new process
    first = draws(write)
    draws(write, seed=1)  # its graphs are equal, and its searches take other calls
    np.testing.assert_array_equal(draws(write), first)
