"""Each way to write a family, with more rows and coefficients: the default against NUTS."""

import numpy as np
import pymc as pm
import pytest

from tests.support.nuts import assert_match_nuts
from tests.support.steps import step_of
from tests.sweep.models import MODELS, SECOND

N_ROWS = 1000
TRUTH = np.array([0.3, 0.5, -0.4, 0.2])


def model_of(entry):
    """Four coefficients, and the second parameter where a model can have it free."""
    rng = np.random.default_rng(5)
    rows = {name: np.resize(values, N_ROWS) for name, values in entry.rows.items()}
    X = np.column_stack([np.ones(N_ROWS), rng.normal(size=(N_ROWS, 3))])
    second = SECOND if entry.second is None else entry.second
    observed = pm.draw(entry.dist(X @ TRUTH, second, rows), random_seed=3)
    with pm.Model() as model:
        eta = X @ pm.Normal("b", 0.0, 1.0, shape=4)
        second = entry.second if entry.free is None else entry.free("s")
        model.register_rv(entry.dist(eta, second, rows), "y", observed=observed)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MODELS if name.endswith("/plain")])
def test_against_nuts(name):
    tiny = MODELS[name]
    with tiny.patches():
        model = model_of(tiny.entry)
        assert_match_nuts(model, step_of(model), draws=6000, nuts={"draws": 3000})
