"""Each kernel against NUTS, on real data; against quadrature they are in `tests/sweep`."""

import numpy as np
import pymc as pm
import pytest

from tests.support.data import load_data, standardised
from tests.support.models import logistic_model
from tests.support.nuts import assert_match_nuts
from tests.support.steps import STEPS, step_of_kind


def nuts_models():
    """Models of real data, and their free variables."""
    mnist = load_data("mnist_7v9_pca50")
    X, y = standardised(mnist["X"][:4000, :20]), mnist["y"][:4000]
    binary = logistic_model(X, y)
    letter = load_data("letter")
    chosen = np.flatnonzero(letter["y"] < 4)[:1500]
    X = standardised(letter["X"][chosen][:, :6])
    with pm.Model() as classes:
        weights = pm.Normal("beta", 0.0, 1.0, shape=(X.shape[1], 4))
        pm.Categorical("y", logit_p=X @ weights, observed=letter["y"][chosen])
    houses = load_data("california_housing")
    X, y = standardised(houses["X"][:2000]), houses["y"][:2000]
    with pm.Model() as robust:
        beta = pm.Normal("beta", 0.0, 2.0, shape=X.shape[1])
        nu, sigma = pm.Gamma("nu", 2.0, 0.1), pm.HalfNormal("sigma", 2.0)
        pm.StudentT("y", nu=nu, mu=X @ beta, sigma=sigma, observed=(y - y.mean()) / y.std())
    return {"logistic": binary, "softmax": classes, "robust": robust}


@pytest.mark.slow
@pytest.mark.parametrize("family", ["logistic", "softmax", "robust"])
def test_real_data_against_nuts(family):
    model = nuts_models()[family]
    steps = (step_of_kind(kind, model) for kind in STEPS)
    assert_match_nuts(model, *steps, nuts=dict(tune=1500, draws=5000))
