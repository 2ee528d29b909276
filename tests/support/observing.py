"""Models by what observes their linear predictor."""

import warnings

import numpy as np
import pymc as pm
import pytensor.tensor as pt

N = 30
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
Y = (RNG.random(N) < 0.5).astype(int)
Z = X[:, 0]
CUTS = np.array([-1.0, 1.0])
exp, sigmoid = pm.math.exp, pm.math.sigmoid


def guarded(p):
    """Keep probabilities off 0 and 1 as Bambi's links do."""
    eps = np.finfo(np.float64).eps
    p = pt.switch(pt.eq(p, 0), eps, p)
    return pt.switch(pt.eq(p, 1), 1 - eps, p)


def model_of(observe):
    """Model with an observed variable y, given its linear predictor."""
    with pm.Model() as model, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of imputation
        observe(X @ pm.Normal("b", 0.0, 1.0, shape=3))
    return model


WITH_NAN = np.where(np.arange(N) == 3, np.nan, Y)
MASKED = np.ma.masked_array(Y, mask=np.arange(N) < 2)
