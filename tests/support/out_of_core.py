"""Models written on the first of their rows, and steps on all of them."""

import numpy as np
import pymc as pm

from pymc_flymc import FireflyMH


def written_on_head(arrays, build, head=40):
    """Model of which `build`, called with its data containers by name, makes the rest."""
    with pm.Model() as model:
        build({name: pm.Data(name, np.asarray(values[:head])) for name, values in arrays.items()})
    return model


def logistic(data):
    """Logistic regression on the containers X and y."""
    beta = pm.Normal("beta", 0.0, 1.0, shape=data["X"].get_value().shape[1])
    pm.Bernoulli("y_obs", logit_p=data["X"] @ beta, observed=data["y"])


def step_elsewhere(model, data, **settings):
    with model:
        return FireflyMH(data=data, **settings)
