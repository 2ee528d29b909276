"""A model whose graph raises in many ways, each beyond a limit that is a value, not a graph."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.logprob.utils import CheckParameterValue, ParameterValueError
from pytensor.raise_op import Assert

from tests.support.data import logistic_rows

#: Beyond its limit of b each part of the model raises this, or makes the density zero.
RAISED = {
    "assert in a potential": (AssertionError, "^potential$"),
    "check of a parameter": (ParameterValueError, "^parameter$"),
    "assert in a prior": (AssertionError, "^prior$"),
    "index": (IndexError, "out of bounds"),
    "check that is replaced": None,
    "cholesky": None,
}
#: Where a limit is that nothing comes to.
FAR = 200.0


def _cholesky(b, limit):
    matrix = pt.stack([pt.stack([2.0, 1.0]), pt.stack([1.0, limit - b + 0.5])])
    return pt.sum(pt.log(pt.diagonal(pt.linalg.cholesky(matrix))))


#: Potentials, by b and its limit.
POTENTIALS = {
    "assert in a potential": lambda b, limit: Assert("potential")(0.1 * b, b < limit),
    "check of a parameter": lambda b, limit: CheckParameterValue("parameter")(0.1 * b, b < limit),
    "index": lambda b, limit: pt.as_tensor([0.1, 0.2, 0.3])[pt.switch(b < limit, 1, 7)],
    "check that is replaced": lambda b, limit: CheckParameterValue("", True)(0.1 * b, b < limit),
    "cholesky": _cholesky,
}


def fragile_model():
    """Logistic regression of a and b, with c, and limits of b, the parameters of other steps."""
    X, y = logistic_rows(40, [-0.5])
    with pm.Model() as model:
        limits = pm.Normal("limits", 0.0, 100.0, shape=len(RAISED))
        a, b = pm.Normal("a", 0.0, 1.0), pm.Normal("b", 0.0, 1.0)
        limit = dict(zip(RAISED, (FAR + limits[i] for i in range(len(RAISED))), strict=True))
        for kind, potential in POTENTIALS.items():
            pm.Potential(kind, potential(b, limit[kind]))
        pm.Normal("c", Assert("prior")(b, b < limit["assert in a prior"]), 1.0)
        pm.Bernoulli("y", logit_p=a + X[:, 0] * b, observed=y)
    return model


def limits_at(places):
    """Return the parameter `limits` with some limits of b, by kind, and the others far away."""
    at = [places.get(kind, FAR) - FAR for kind in RAISED]
    return np.array(at)
