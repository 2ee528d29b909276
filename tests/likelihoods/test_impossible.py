"""Missing outcomes, minibatches, and parameters that have no value."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import UnsupportedModelError
from pymc_flymc.reading.model import read_model
from tests.support.observing import CUTS, MASKED, WITH_NAN, X, Y, Z, exp, model_of


@pytest.mark.parametrize(
    ("observe", "number"),
    [
        (lambda e: pm.Bernoulli("y", logit_p=e, observed=WITH_NAN), 1),
        (lambda e: pm.Bernoulli("y", logit_p=e, observed=MASKED), 2),
        (lambda e: pm.Binomial("y", n=5, logit_p=e, observed=WITH_NAN), 1),
        (lambda e: pm.Poisson("y", mu=exp(e), observed=MASKED), 2),
        (lambda e: pm.NegativeBinomial("y", mu=exp(e), alpha=2, observed=WITH_NAN), 1),
        (lambda e: pm.Categorical("y", logit_p=e[:, None] * CUTS, observed=MASKED), 2),
        (lambda e: pm.StudentT("y", nu=4, mu=e, sigma=1, observed=WITH_NAN), 1),
    ],
)
def test_missing_outcomes(observe, number):
    message = rf"'y' has missing values \(NaN or masked\), {number} of them.*drop these rows"
    with pytest.raises(UnsupportedModelError, match=message):
        read_model(model_of(observe))


def test_missing_outcomes_of_another_variable():
    def observe(e):
        pm.Bernoulli("y", logit_p=e, observed=Y)
        pm.Poisson("k", mu=2.0, observed=MASKED[:10])

    with pytest.raises(UnsupportedModelError, match="'k' has missing values"):
        read_model(model_of(observe))


def test_minibatches():
    model = model_of(
        lambda e: pm.StudentT("y", nu=3, mu=e[0], sigma=1, observed=pm.Minibatch(Z, batch_size=10))
    )
    with pytest.raises(UnsupportedModelError, match=r"'y' are drawn at random.*give all rows"):
        read_model(model)
    rows = pm.Minibatch(X, batch_size=10)
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=rows @ pm.Normal("b", shape=3), observed=Y[:10])
    with pytest.raises(UnsupportedModelError, match=r"depends on RNG.*pm.Minibatch"):
        read_model(model)


@pytest.mark.parametrize(
    ("observe", "message"),
    [
        (lambda e: pm.StudentT("y", nu=3, mu=e, sigma=0.0, observed=Z), "sigma .*'y' is 0.0"),
        (lambda e: pm.StudentT("y", nu=-2, mu=e, sigma=1.0, observed=Z), "nu .*'y' is -2"),
        (lambda e: pm.StudentT("y", nu=3, mu=e, sigma=np.nan, observed=Z), "sigma .*'y' is nan"),
        (
            lambda e: pm.StudentT("y", nu=3, mu=e, sigma=pm.Data("s", -1.0), observed=Z),
            "sigma .*'y' is -1",
        ),
        (lambda e: pm.Cauchy("y", alpha=e, beta=-1.0, observed=Z), "beta .*'y' is -1"),
        (lambda e: pm.Logistic("y", mu=e, s=np.inf, observed=Z), "s .*'y' is inf"),
        (lambda e: pm.Laplace("y", mu=e, b=0.0, observed=Z), "b .*'y' is 0"),
        (
            lambda e: pm.AsymmetricLaplace("y", mu=e, b=1.0, kappa=-1.0, observed=Z),
            "kappa .*'y' is -1",
        ),
        (
            lambda e: pm.AsymmetricLaplace("y", mu=e, b=1.0, q=1.5, observed=Z),
            "kappa .* for a q between 0 and 1",
        ),
        (
            lambda e: pm.NegativeBinomial("y", mu=exp(e), alpha=1.0 - 2.0 * Y, observed=Y),
            rf"alpha .*'y' is -1.0 in row {np.argmax(Y)}",
        ),
        (lambda e: pm.Binomial("y", n=-3, logit_p=e, observed=Y), "n .*'y' is -3"),
        (
            lambda e: pm.Binomial("y", n=WITH_NAN + 1, logit_p=e, observed=Y),
            "n .*'y' is -.* in row 3.*not missing",
        ),
        (
            lambda e: pm.Poisson("y", mu=(WITH_NAN + 1) * exp(e), observed=Y),
            "the exposure .*'y' is nan in row 3",
        ),
        (
            lambda e: pm.NegativeBinomial("y", mu=0.0 * exp(e), alpha=2, observed=Y),
            "y has counts above zero where the mean is zero, as of an exposure of zero",
        ),
    ],
)
def test_impossible_parameters(observe, message):
    with pytest.raises(ValueError, match=message):
        read_model(model_of(observe))
