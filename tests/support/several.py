"""Models of several likelihoods."""

import numpy as np
import pymc as pm


def shop(n=60, m=40, dtype=np.float64, **effects):
    """Logistic and robust regressions that share a coefficient."""
    rng = np.random.default_rng(1)
    X, Z = rng.normal(size=(n, 3)), rng.normal(size=(m, 2)).astype(dtype)
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=3)
        c = pm.Normal("c", 0.0, 1.0, shape=2)
        s = pm.HalfNormal("s", 1.0)
        pm.Bernoulli("bought", logit_p=X @ b, observed=rng.integers(0, 2, n))
        spent = rng.standard_t(4, size=m)
        pm.StudentT("spent", nu=4, mu=Z @ c + Z[:, 0] * b[0], sigma=s, observed=spent)
    return model


def counts():
    """Poisson and softmax regressions: bounds with a radius, several predictors, an offset."""
    rng = np.random.default_rng(2)
    X, Z = rng.normal(size=(50, 2)), rng.normal(size=(70, 2))
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 0.5, shape=2)
        W = pm.Normal("W", 0.0, 1.0, shape=(2, 3))
        offset = rng.normal(size=50)
        pm.Poisson("visits", mu=pm.math.exp(X @ b + offset), observed=rng.poisson(1.0, 50))
        pm.Categorical("brand", logit_p=Z @ W, observed=rng.integers(0, 3, 70))
    return model


def both_have_bright_rows(chain):
    first = chain.bright.index[: chain.n_bright] < len(chain.target.data.parts[0].X)
    return 0 < first.sum() < len(first)
