"""Units of parameters and predictors: those of the data are the user's, whatever they are."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import FireflyHMC, FireflyMH
from tests.support.data import logistic_rows
from tests.support.steps import drive


def draws_in(unit, cls):
    """Draws of a model whose predictors are so many times smaller, in the units of one."""
    X, y = logistic_rows(500, [0.5, -1.0])
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 3.0 * unit, shape=2)
        pm.Bernoulli("y", logit_p=(X / unit) @ beta, observed=y)
        step = cls()
    draws, _ = drive(step, model.initial_point(), tune=40, draws=40, chains=1)
    return draws / unit


@pytest.mark.parametrize("cls", [FireflyMH, FireflyHMC])
def test_units_do_not_matter(cls):
    """Powers of two round nothing: the anchor, the choice and all draws are the same."""
    expected = draws_in(1.0, cls)
    assert np.ptp(expected) > 0.0
    for exponent in (-40, 30, 330):
        np.testing.assert_allclose(draws_in(2.0**exponent, cls), expected, rtol=1e-8)
