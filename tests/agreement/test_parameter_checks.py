"""Where a model's own checks of parameters leave no density, what was read must have none."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_flymc import UnsupportedModelError
from pymc_flymc.agreement.undefined import violated_checks
from pymc_flymc.graphs.tools import freeze
from pymc_flymc.reading import observed_rows
from pymc_flymc.reading.model import read_model
from tests.support.readings import compare

N = 50
RNG = np.random.default_rng(9)
X = RNG.normal(size=N)
COUNTS = RNG.poisson(2.0, N) + 1
POSITIVE = RNG.gamma(2.0, size=N) + 0.1
SHARES = RNG.beta(2.0, 2.0, size=N)
CLASSES = RNG.integers(0, 3, N)
exp, sigmoid = pm.math.exp, pm.math.sigmoid

#: A distribution of a parameter p, with values, and values of p within its support and beyond.
WRITTEN = {
    "scale": (lambda p: pm.Normal.dist(X, p), X, 0.5, -0.5),
    "precision": (lambda p: pm.Normal.dist(X, tau=p), X, 0.5, -0.5),
    "scales": (lambda p: pm.Normal.dist(0.0, p * (X + 3.0)), X, 0.5, -0.5),
    "one scale": (lambda p: pm.Normal.dist(0.0, p + X**2), X, 0.5, -(X**2).min() - 1e-6),
    "degrees of freedom": (lambda p: pm.StudentT.dist(p, mu=X, sigma=1.0), X, 0.5, -0.5),
    "scale of tails": (lambda p: pm.StudentT.dist(4.0, mu=X, sigma=p), X, 0.5, -0.5),
    "Laplace": (lambda p: pm.Laplace.dist(X, p), X, 0.5, -0.5),
    "asymmetric Laplace": (lambda p: pm.AsymmetricLaplace.dist(b=p, q=0.3, mu=X), X, 0.5, -0.5),
    "logistic": (lambda p: pm.Logistic.dist(X, p), X, 0.5, -0.5),
    "skewed": (lambda p: pm.SkewNormal.dist(1.0, mu=X, sigma=p), X, 0.5, -0.5),
    "Bernoulli": (lambda p: pm.Bernoulli.dist(p * np.ones(N)), COUNTS > 2, 1.0, 1.001),
    "no probability": (lambda p: pm.Bernoulli.dist(p * np.ones(N)), COUNTS > 2, 0.0, -0.001),
    "trials": (lambda p: pm.Binomial.dist(9, p * np.ones(N)), COUNTS, 1.0, 1.001),
    "classes": (
        lambda p: pm.Categorical.dist(pt.stack([p, 1.0 - p, 0.0]) * np.ones((N, 3))),
        CLASSES,
        1.0,
        1.001,
    ),
    "Poisson": (lambda p: pm.Poisson.dist(p * exp(X)), COUNTS, 0.5, -0.5),
    "shape of counts": (lambda p: pm.NegativeBinomial.dist(mu=exp(X), alpha=p), COUNTS, 0.5, -0.5),
    "shape": (lambda p: pm.Gamma.dist(p, exp(X)), POSITIVE, 0.5, -0.5),
    "Weibull": (lambda p: pm.Weibull.dist(p, exp(X)), POSITIVE, 0.5, -0.5),
    "exponential": (lambda p: pm.Exponential.dist(p * exp(X)), POSITIVE, 0.5, -0.5),
    "lognormal": (lambda p: pm.LogNormal.dist(X, p), POSITIVE, 0.5, -0.5),
    "beta": (lambda p: pm.Beta.dist(mu=sigmoid(X), nu=p), SHARES, 0.5, -0.5),
    "no zeros": (lambda p: pm.HurdlePoisson.dist(p, exp(X)), COUNTS, 1.0, 1.001),
    "zero-inflated": (lambda p: pm.ZeroInflatedPoisson.dist(p, exp(X)), COUNTS, 1.0, 1.001),
    "censored": (
        lambda p: pm.Censored.dist(pm.Normal.dist(X, p), lower=None, upper=1.0),
        np.minimum(X, 1.0),
        0.5,
        -0.5,
    ),
    "truncated": (lambda p: pm.TruncatedNormal.dist(X, p, lower=0.0), POSITIVE, 0.5, -0.5),
    "von Mises": (lambda p: pm.VonMises.dist(X, p), np.arctan(X), 0.5, -0.5),
    # No violations: rates have underflowed to zero, probabilities are rounded to one and beyond.
    "rates of zero": (lambda p: pm.Poisson.dist(exp(p * (X + 5.0))), COUNTS, -1000.0, None),
    "rounded to one": (
        lambda p: pm.Bernoulli.dist(exp(p) / (1.0 + exp(p)) * np.ones(N)),
        COUNTS > 2,
        np.linspace(20.0, 40.0, 9),
        None,
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_within_and_beyond(name):
    """All rows are looked at, and a few that are taken out."""
    distribution, y, within, beyond = WRITTEN[name]
    p = pt.dscalar("p")
    logp = freeze(pm.logp(distribution(p), pt.constant(y)), {})
    points = [{"p": np.array(value)} for value in np.atleast_1d(within)]
    for chosen in (np.arange(N), np.sort(np.argsort(X**2)[:5])):
        assert set(violated_checks(logp, chosen, points)) == {None}
        if beyond is not None:
            assert violated_checks(logp, chosen, [{"p": np.array(beyond)}]) != [None]


def count(psi, y):
    pm.HurdlePoisson("y", psi, exp(pm.Normal("b") * X), observed=y)


def test_a_reading_that_goes_beyond_is_refused(monkeypatch):
    """Without zeros no row rules out a psi above one; the model's own check does."""
    monkeypatch.setattr(
        observed_rows, "weighted_sum", lambda n, logs: (n[n > 0] * logs[n > 0]).sum()
    )
    with pm.Model() as model:
        count(pm.Gamma("psi", 400.0, 400.0, default_transform=None), COUNTS)
    with pytest.raises(UnsupportedModelError, match=r"no density at \(.*psi = [12]\..*psi <= 1"):
        compare(model, read_model(model))
    with pm.Model() as model:
        count(pm.Beta("psi", 1.0, 1.0), COUNTS)
    compare(model, read_model(model))
