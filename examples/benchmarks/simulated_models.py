"""Small models of different kinds on simulated data, for the choice of a kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pymc as pm

from examples.benchmarks.real_models import logistic, softmax
from examples.benchmarks.simulation import yes_or_no

__all__ = ["SMALL"]


def design(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Draw normal columns after an intercept."""
    X = rng.normal(size=(n, d))
    X[:, 0] = 1.0
    return X


def regression(seed: int, n: int, d: int, shift: float = 0.0) -> Callable[[], pm.Model]:
    """Return a builder of a logistic regression, of rare outcomes if the shift is negative."""

    def build() -> pm.Model:
        rng = np.random.default_rng(seed)
        X, beta = design(rng, n, d), rng.normal(size=d) / np.sqrt(d)
        beta[0] += shift
        return logistic(X, yes_or_no(X @ beta, rng))

    return build


def funnel() -> pm.Model:
    """Build a logistic regression whose coefficients share a free scale."""
    rng = np.random.default_rng(6)
    X = design(rng, 20_000, 6)
    with pm.Model() as model:
        sigma, raw = pm.HalfNormal("sigma", 1.0), pm.Normal("raw", 0.0, 1.0, shape=6)
        u, beta = rng.random(len(X)), 0.4 * rng.normal(size=6)
        y = (u < 1.0 / (1.0 + np.exp(-X @ beta))).astype(int)
        pm.Bernoulli("y", logit_p=X @ (sigma * raw), observed=y)
    return model


def student_t() -> pm.Model:
    """Build a robust regression, its scale and degrees of freedom free."""
    rng = np.random.default_rng(7)
    X, beta = design(rng, 20_000, 6), rng.normal(size=6)
    with pm.Model() as model:
        mu = X @ pm.Normal("beta", 0.0, 1.0, shape=6)
        sigma, nu = pm.HalfNormal("sigma"), pm.Gamma("nu", 2.0, 0.1)
        y = X @ beta + rng.standard_t(4, len(X))
        pm.StudentT("y", nu=nu, mu=mu, sigma=sigma, observed=y)
    return model


def three_classes() -> pm.Model:
    """Build a softmax regression."""
    rng = np.random.default_rng(7)
    X, beta = design(rng, 10_000, 5), rng.normal(size=(5, 3))
    return softmax(X, (X @ beta + rng.gumbel(size=(len(X), 3))).argmax(axis=1))


def crossed_counts() -> pm.Model:
    """Build a Poisson model with crossed effects of 100 and of 12 groups."""
    rng = np.random.default_rng(16)
    first, second = rng.integers(0, 100, 6_000), rng.integers(0, 12, 6_000)
    a, b = 0.4 * rng.normal(size=100), 0.3 * rng.normal(size=12)
    with pm.Model() as model:
        scales = pm.HalfNormal("s1"), pm.HalfNormal("s2")
        mu = pm.Normal("mu")
        effects = pm.Normal("z1", shape=100), pm.Normal("z2", shape=12)
        eta = mu + (scales[0] * effects[0])[first] + (scales[1] * effects[1])[second]
        y = rng.poisson(np.exp(0.5 + a[first] + b[second]))
        pm.Poisson("y", mu=pm.math.exp(eta), observed=y)
    return model


def overdispersed_counts() -> pm.Model:
    """Build a negative binomial regression."""
    rng = np.random.default_rng(6)
    X = 0.4 * design(rng, 10_000, 5)
    X[:, 0] = 1.0
    beta = 0.5 * rng.normal(size=5)
    with pm.Model() as model:
        coefficients, alpha = pm.Normal("beta", 0.0, 1.0, shape=5), pm.Gamma("alpha", 2.0, 0.5)
        y = rng.poisson(np.exp(X @ beta + 1.0) * rng.gamma(2.0, 0.5, len(X)))
        mu = pm.math.exp(X @ coefficients + 1.0)
        pm.NegativeBinomial("y", mu=mu, alpha=alpha, observed=y)
    return model


def groups_alike() -> pm.Model:
    """Build a linear model with effects of groups that do not differ: a funnel."""
    rng = np.random.default_rng(13)
    X, y = design(rng, 3_000, 3), rng.normal(size=3_000)
    group = rng.integers(0, 50, 3_000)
    with pm.Model() as model:
        effects = pm.Normal("a", 0.0, pm.HalfNormal("s", 1.0), shape=50)[group]
        mu = X @ pm.Normal("beta", 0.0, 1.0, shape=3) + effects
        pm.Normal("y", mu, pm.HalfNormal("sigma", 1.0), observed=y)
    return model


def rare_categories() -> pm.Model:
    """Build a logistic regression with indicators of eight rows each, all with one outcome."""
    rng = np.random.default_rng(10)
    X = design(rng, 20_000, 4)
    u, beta = rng.random(len(X)), 0.7 * rng.normal(size=4)
    y = u < 1.0 / (1.0 + np.exp(-X @ beta))
    rare = np.zeros((len(X), 20))
    for j in range(20):
        rare[10 * j : 10 * j + 8, j] = 1.0
    y[:200] = True
    return logistic(np.column_stack([X, rare]), y, sd=5.0)


def skewed_columns() -> pm.Model:
    """Build a logistic regression of rare outcomes on skewed columns."""
    rng, n = np.random.default_rng(5), 100_000
    X = np.column_stack([rng.lognormal(0.0, 1.5, (n, 4)), rng.normal(size=(n, 4))])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    eta = X @ np.array([0.3, 0.2, 0.1, 0.0, 0.3, 0.2, 0.0, 0.0]) - 6.0
    y = yes_or_no(eta, rng)
    return logistic(np.column_stack([np.ones(n), X]), y, sd=2.0)


#: By name: builders.
SMALL: dict[str, Callable[[], pm.Model]] = {
    "logistic, 20,000 x 8": regression(12, 20_000, 8),
    "logistic, 5,000 x 30": regression(16, 5_000, 30),
    "logistic, 400 x 60": regression(17, 400, 60),
    "logistic, rare outcomes": regression(8, 40_000, 8, shift=-6.0),
    "logistic, scale of coefficients free": funnel,
    "logistic, rare categories": rare_categories,
    "logistic, skewed columns": skewed_columns,
    "Student t": student_t,
    "softmax, 3 classes": three_classes,
    "Poisson, 100 x 12 crossed groups": crossed_counts,
    "negative binomial": overdispersed_counts,
    "Normal, groups that do not differ": groups_alike,
}
