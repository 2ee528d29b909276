"""What models that cannot be sampled are told: in the user's words, with a way out."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import UnsupportedModelError
from pymc_flymc.likelihoods import LIKELIHOODS
from pymc_flymc.likelihoods.refusals import ALTERNATIVES, distribution_name
from pymc_flymc.reading.model import read_model
from tests.support.observing import CUTS, N, Y, Z, exp, model_of, sigmoid


def mixture(e):
    return pm.Mixture(
        "y", w=[0.5, 0.5], comp_dists=[pm.Normal.dist(e), pm.Cauchy.dist(e, 1)], observed=Z
    )


def custom(class_name=None):
    options = {} if class_name is None else {"class_name": class_name}
    return lambda e: pm.CustomDist("y", e, logp=lambda v, m: -((v - m) ** 2), observed=Z, **options)


#: What was written, and the nearest that is supported.
UNSUPPORTED = {
    "pm.InverseGamma": (
        lambda e: pm.InverseGamma("y", alpha=2, beta=exp(e), observed=Z**2),
        "np.log(y)",
    ),
    "pm.Multinomial": (
        lambda e: pm.Multinomial(
            "y", n=5, p=pm.math.softmax(e[:, None] * np.ones(2), axis=-1), observed=[[2, 3]] * N
        ),
        "pm.Categorical",
    ),
    "pm.Mixture": (mixture, "pm.StudentT"),
    "pm.NormalMixture": (
        lambda e: pm.NormalMixture("y", w=CUTS**2 / 2, mu=e[:, None] * CUTS, observed=Z),
        "pm.StudentT",
    ),
    "pm.Censored(pm.Normal)": (
        lambda e: pm.Censored("y", pm.Normal.dist(e, 1), lower=None, upper=1, observed=Z),
        "pm.Weibull.dist",
    ),
    "pm.Truncated(pm.Poisson)": (
        lambda e: pm.Truncated("y", pm.Poisson.dist(exp(e)), lower=2, observed=Y + 2),
        "without pm.Truncated",
    ),
    "pm.Geometric": (
        lambda e: pm.Geometric("y", sigmoid(e), observed=Y + 1),
        "pm.NegativeBinomial(mu=pm.math.exp(eta), alpha=1)",
    ),
    "a minibatch (total_size=) of pm.Poisson": (
        lambda e: pm.Poisson("y", exp(e), observed=Y, total_size=100),
        "without total_size= and pm.Minibatch, with all rows",
    ),
    "pm.CustomDist": (custom(), None),
    "Lifetimes": (custom("Lifetimes"), None),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_distributions(name):
    observe, nearest = UNSUPPORTED[name]
    with pytest.raises(UnsupportedModelError) as caught:
        read_model(model_of(observe))
    message = str(caught.value)
    assert f"supports: 'y' is {name}. " in message
    if nearest is None:
        assert "Instead of" not in message
    else:
        assert nearest in message.split(f"Instead of {name}: ")[1].split(". ")[0]
    assert "pm.Bernoulli(logit_p=eta)" in message and "pm.AsymmetricLaplace(q=q" in message
    assert "docs/own_likelihood.md" in message
    assert message.endswith("NUTS samples the model as it is")


def test_names_of_alternatives_are_those_of_pymc():
    """A distribution that PyMC renames would lose its alternative silently."""
    words = {"minibatch", "dims"}
    assert all(hasattr(pm, name) for name in ALTERNATIVES if name not in words)
    supported = " ".join(getattr(family, "usage", "") for family in LIKELIHOODS)
    for name in ("Bernoulli", "Binomial", "Normal", "NegativeBinomial", "Categorical"):
        assert f"pm.{name}(" in supported and name not in ALTERNATIVES


def test_supported_distributions_are_named():
    model = model_of(lambda e: pm.Categorical("y", logit_p=e[:, None] * CUTS, observed=Y))
    assert distribution_name(model["y"]) == "pm.Categorical"


def test_ordered_probabilities_of_other_kinds():
    """Bambi, for one, writes sequential models by hand."""
    model = model_of(
        lambda e: pm.Categorical("y", p=pm.math.stack([sigmoid(e), sigmoid(-e)], 1), observed=Y)
    )
    with pytest.raises(UnsupportedModelError, match=r"of other kinds pm.Bernoulli for"):
        read_model(model)


def test_likelihood_in_a_potential():
    model = model_of(lambda e: pm.Potential("weighted", (Y * e).sum()))
    with pytest.raises(UnsupportedModelError, match=r"\['weighted'\].*pymc_flymc.weighted\("):
        read_model(model)


def test_registered_family_is_listed_by_its_name(monkeypatch):
    class Plain:
        name = "durations"

        def matches(self, rv):
            return False

    monkeypatch.setattr("pymc_flymc.reading.model.LIKELIHOODS", [Plain(), *LIKELIHOODS])
    with pytest.raises(UnsupportedModelError, match=r"Supported are durations, pm.Bernoulli\("):
        read_model(model_of(UNSUPPORTED["pm.InverseGamma"][0]))
