"""What models that cannot be sampled are told: in the user's words, with a way out."""

from pathlib import Path

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import UnsupportedModelError
from pymc_flymc.errors import OTHERWISE
from pymc_flymc.likelihoods import LIKELIHOODS
from pymc_flymc.likelihoods.checks import (
    ALTERNATIVES,
    LEAVE_OUT,
    distribution_name,
)
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
    "pm.Mixture": (mixture, "pm.StudentT"),
    "pm.NormalMixture": (
        lambda e: pm.NormalMixture(
            "y", w=pm.Dirichlet("w", CUTS**2), mu=e[:, None] * CUTS, observed=Z
        ),
        "pm.StudentT",
    ),
    "pm.Censored(pm.Laplace)": (
        lambda e: pm.Censored("y", pm.Laplace.dist(e, 1), lower=None, upper=1, observed=Z),
        "pm.Weibull.dist",
    ),
    "pm.Truncated(pm.Poisson)": (
        lambda e: pm.Truncated("y", pm.Poisson.dist(exp(e)), lower=2, observed=Y + 2),
        "without pm.Truncated",
    ),
    "a minibatch (total_size=) of pm.Poisson": (
        lambda e: pm.Poisson("y", exp(e), observed=Y, total_size=100),
        "without total_size= and pm.Minibatch, with all rows",
    ),
    "pm.Gumbel": (lambda e: pm.Gumbel("y", e, 1, observed=Z), "np.exp(-y), the same model"),
    "pm.LogitNormal": (
        lambda e: pm.LogitNormal("y", e, 1, observed=np.full(N, 0.5)),
        "pm.Normal for np.log(y / (1 - y))",
    ),
    "pm.AR": (lambda e: pm.AR("y", rho=e[:2], sigma=1.0, observed=Z), "earlier values"),
    "pm.MvStudentT": (
        lambda e: pm.MvStudentT("y", nu=3, mu=e[:2], scale=np.eye(2), observed=np.ones((N, 2))),
        "a table of outcomes",
    ),
    "pm.MvNormal": (
        lambda e: pm.MvNormal("y", mu=e, cov=np.eye(N), observed=Z),
        "pm.gp.HSGP",
    ),
    "pm.RandomWalk": (
        lambda e: pm.GaussianRandomWalk(
            "y", mu=e[1:], sigma=1, init_dist=pm.Normal.dist(), observed=Z
        ),
        "np.diff(y), the same model",
    ),
    "pm.CustomDist": (custom(), "a family of your own"),
    "Lifetimes": (custom("Lifetimes"), None),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_distributions(name):
    observe, nearest = UNSUPPORTED[name]
    with pytest.raises(UnsupportedModelError) as caught:
        read_model(model_of(observe))
    message = str(caught.value)
    first, *others = message.split("\n")
    assert first.endswith(f"supports: 'y' is {name}. {LEAVE_OUT}")
    if nearest is None:
        assert "Instead of" not in message
    else:
        assert others[0].startswith(f"Instead of {name}: ") and nearest in others[0]
    assert "docs/likelihoods.md" in others[-1] and "docs/own_likelihood.md" in others[-1]
    assert len(first) < 200 and len(message) < 600


def test_page_of_likelihoods_is_complete():
    page = (Path(__file__).parents[2] / "docs" / "likelihoods.md").read_text()
    for family in LIKELIHOODS:
        for usage in family.usage.split("), "):
            assert usage.removesuffix(")") in page


def test_alternatives_are_the_same_models():
    """The log densities differ by the Jacobian of the transform, which depends on y alone."""
    y, mu, scale = np.linspace(-2.0, 2.0, 9), 0.3, 0.7
    gumbel = pm.logp(pm.Gumbel.dist(mu, scale), y).eval()
    weibull = pm.logp(pm.Weibull.dist(1 / scale, np.exp(-mu)), np.exp(-y)).eval()
    np.testing.assert_allclose(gumbel, weibull - y)
    share = 1.0 / (1.0 + np.exp(-y))
    logit_normal = pm.logp(pm.LogitNormal.dist(mu, scale), share).eval()
    normal = pm.logp(pm.Normal.dist(mu, scale), y).eval()
    np.testing.assert_allclose(logit_normal, normal - np.log(share * (1.0 - share)))
    x = np.exp(y)
    half_normal = pm.logp(pm.HalfNormal.dist(scale), x).eval()
    gamma = pm.logp(pm.Gamma.dist(0.5, 0.5 / scale**2), x**2).eval()
    np.testing.assert_allclose(half_normal, gamma + np.log(2.0 * x), rtol=1e-5)
    pareto = pm.logp(pm.Pareto.dist(scale, 0.1), x).eval()
    exponential = pm.logp(pm.Exponential.dist(scale), np.log(x / 0.1)).eval()
    np.testing.assert_allclose(pareto, exponential - y)


def test_names_of_alternatives_are_those_of_pymc():
    """A distribution that PyMC renames would lose its alternative silently."""
    words = {"minibatch", "dims"}
    assert all(hasattr(pm, name) for name in ALTERNATIVES if name not in words)
    supported = " ".join(getattr(family, "usage", "") for family in LIKELIHOODS)
    for name in ("Bernoulli", "Binomial", "Normal", "NegativeBinomial", "Categorical"):
        assert f"pm.{name}(" in supported and name not in ALTERNATIVES


def test_another_link_than_the_model_has():
    model = model_of(lambda e: pm.Poisson("y", pm.math.abs(e), observed=Y))
    with pytest.raises(UnsupportedModelError) as caught:
        read_model(model)
    first, second = str(caught.value).split("\n")
    assert "Use pm.Poisson(mu=pm.math.exp(eta))" in first and second == OTHERWISE


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
