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


def fragile_model():
    """Logistic regression with parameters a and b, and limits of b, parameters of other steps."""
    X, y = logistic_rows(40, [-0.5])
    with pm.Model() as model:
        limits = pm.Normal("limits", 0.0, 100.0, shape=len(RAISED))
        a, b = pm.Normal("a", 0.0, 1.0), pm.Normal("b", 0.0, 1.0)
        below = [pt.lt(b, FAR + limits[i]) for i in range(len(RAISED))]
        pm.Potential("potential", Assert("potential")(0.1 * b, below[0]))
        pm.Potential("parameter", CheckParameterValue("parameter")(0.1 * b, below[1]))
        pm.Normal("c", Assert("prior")(b, below[2]), 1.0)
        table = pt.as_tensor(np.array([0.1, 0.2, 0.3]))
        pm.Potential("index", table[pt.switch(below[3], 1, 7)])
        pm.Potential("replaced", CheckParameterValue("replaced", True)(0.1 * b, below[4]))
        matrix = pt.stack([pt.stack([2.0, 1.0]), pt.stack([1.0, FAR + limits[5] - b + 0.5])])
        factor = pt.linalg.cholesky(matrix)
        pm.Potential("cholesky", pt.sum(pt.log(pt.diagonal(factor))))
        pm.Bernoulli("y", logit_p=a + X[:, 0] * b, observed=y)
    return model


def limits_at(places):
    """Return the parameter `limits` with some limits of b, by kind, and the others far away."""
    at = [places.get(kind, FAR) - FAR for kind in RAISED]
    return np.array(at)
