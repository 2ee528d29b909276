"""Which bound and which moves "auto" takes."""

import arviz as az
import numpy as np
import pymc as pm

from pymc_flymc import FireflyMH, JaakkolaJordan, Taylor
from tests.support.data import logistic_rows
from tests.support.steps import drive, logistic_step


def test_joint_moves_where_the_posterior_is_concentrated():
    X, y = logistic_rows(20_000, 5)
    model, step = logistic_step(X, y)
    assert isinstance(step.bounds[0], Taylor)
    draws, drawn = drive(step, model.initial_point(), tune=300, draws=2000, chains=1)
    # Few rows: a pass over the data would read 20,000.
    assert drawn["likelihood_queries"].mean() < 50
    assert az.ess(draws).min() > 0.7 * 2000


def test_conditional_moves_where_it_is_not():
    X, y = logistic_rows(400, 100)
    assert isinstance(logistic_step(X, y, 3.0)[1].bounds[0], JaakkolaJordan)


def test_conditional_moves_for_rare_categories():
    """Indicators of a few rows, all of one outcome: skewed tails, where joint moves stick."""
    X, y = logistic_rows(20_000, 4)
    rare = np.zeros((20_000, 20))
    for j in range(20):
        rare[10 * j : 10 * j + 8, j] = 1.0
    y[:200] = 1
    assert isinstance(
        logistic_step(np.column_stack([X, rare]), y, bound="auto", prior_sd=5.0)[1].bounds[0],
        JaakkolaJordan,
    )


def test_conditional_moves_for_a_funnel():
    X, y = logistic_rows(20_000, 6)
    with pm.Model():
        sigma = pm.HalfNormal("sigma", 1.0)
        raw = pm.Normal("raw", 0.0, 1.0, shape=6)
        pm.Bernoulli("y", logit_p=X @ (sigma * raw), observed=y)
        assert isinstance(FireflyMH().bounds[0], JaakkolaJordan)
