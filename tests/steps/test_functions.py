"""PyTensor functions that building a step makes: each takes tens to hundreds of milliseconds."""

from collections import OrderedDict

import numpy as np
import pymc as pm
import pytensor
import pytest

from pymc_flymc import FireflyMH
from pymc_flymc.graphs import memoise
from tests.support.data import logistic_rows
from tests.support.models import logistic_model


def hierarchy(n=2000, n_groups=40):
    rng = np.random.default_rng(4)
    group, x = rng.integers(0, n_groups, n), rng.normal(size=n)
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1.0)
        effects = pm.Normal("effects", pm.Normal("mu"), tau, shape=n_groups)
        eta = effects[group] + pm.Normal("slope") * x
        pm.Poisson("y", pm.math.exp(eta), observed=rng.poisson(np.exp(0.3 * x)))
    return model


@pytest.mark.parametrize(
    ("model", "kernel", "n_functions"),
    [
        # Of PyMC the initial point; derivatives of rows, their factors, and the density.
        (lambda: logistic_model(*logistic_rows(2000, [0.5, -0.3])), "joint", 4),
        # And gradients of the latter two, and of the coefficients.
        (hierarchy, "hamiltonian", 6),
    ],
    ids=["logistic", "groups"],
)
def test_few_functions_are_made(monkeypatch, model, kernel, n_functions):
    """What is evaluated a few times is not compiled."""
    monkeypatch.setattr(memoise, "_kept", OrderedDict())  # of no other test
    made, function = [], pytensor.function

    def counting(*arguments, **settings):
        made.append(arguments)
        return function(*arguments, **settings)

    monkeypatch.setattr(pytensor, "function", counting)
    with model():
        step = FireflyMH(kernel=kernel)
    assert step.target.spec.name == kernel
    assert len(made) == n_functions
