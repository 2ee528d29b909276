"""What models that cannot be sampled are told: in the user's words, with a way out."""

import re
import warnings
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import FireflyMH, Taylor, UnsupportedModelError
from pymc_flymc.likelihoods import LIKELIHOODS
from pymc_flymc.likelihoods.refusals import ALTERNATIVES, distribution_name
from pymc_flymc.reading.model import read_model

N = 30
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
Y = (RNG.random(N) < 0.5).astype(int)
Z = X[:, 0]
TABLES = (Path(__file__).parents[1] / "docs" / "tutorial_logistic.md").read_text()
CUTS = np.array([-1.0, 1.0])
exp, sigmoid = pm.math.exp, pm.math.sigmoid


def model_of(observe):
    """Model with an observed variable y, given its linear predictor."""
    with pm.Model() as model, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of imputation
        observe(X @ pm.Normal("b", 0.0, 1.0, shape=3))
    return model


def mixture(e):
    return pm.Mixture(
        "y", w=[0.5, 0.5], comp_dists=[pm.Normal.dist(e), pm.Cauchy.dist(e, 1)], observed=Z
    )


def custom(class_name=None):
    options = {} if class_name is None else {"class_name": class_name}
    return lambda e: pm.CustomDist("y", e, logp=lambda v, m: -((v - m) ** 2), observed=Z, **options)


#: What was written, and the nearest that is supported.
UNSUPPORTED = {
    "pm.Normal": (lambda e: pm.Normal("y", e, 1, observed=Z), "pm.StudentT"),
    "pm.Gamma": (lambda e: pm.Gamma("y", alpha=2, beta=exp(e), observed=Z**2), "np.log(y)"),
    "pm.Weibull": (lambda e: pm.Weibull("y", alpha=2, beta=exp(e), observed=Z**2), "np.log(y)"),
    "pm.InverseGamma": (
        lambda e: pm.InverseGamma("y", alpha=2, beta=exp(e), observed=Z**2),
        "np.log(y)",
    ),
    "pm.Exponential": (lambda e: pm.Exponential("y", exp(e), observed=Z**2), "own_likelihood.md"),
    "pm.BetaBinomial": (
        lambda e: pm.BetaBinomial("y", alpha=exp(e), beta=2, n=5, observed=Y),
        "pm.Binomial",
    ),
    "pm.Multinomial": (
        lambda e: pm.Multinomial(
            "y", n=5, p=pm.math.softmax(e[:, None] * np.ones(2), axis=-1), observed=[[2, 3]] * N
        ),
        "pm.Categorical",
    ),
    "pm.ZeroInflatedPoisson": (
        lambda e: pm.ZeroInflatedPoisson("y", 0.5, mu=exp(e), observed=Y),
        "pm.NegativeBinomial",
    ),
    "pm.ZeroInflatedNegativeBinomial": (
        lambda e: pm.ZeroInflatedNegativeBinomial("y", 0.5, mu=exp(e), alpha=2, observed=Y),
        "pm.NegativeBinomial",
    ),
    "pm.HurdlePoisson": (
        lambda e: pm.HurdlePoisson("y", 0.5, mu=exp(e), observed=Y),
        "pm.NegativeBinomial",
    ),
    "pm.HurdleLogNormal": (
        lambda e: pm.HurdleLogNormal("y", 0.5, mu=e, sigma=1, observed=Z**2),
        "pm.Bernoulli for y > 0",
    ),
    "pm.Mixture": (mixture, "pm.StudentT"),
    "pm.NormalMixture": (
        lambda e: pm.NormalMixture("y", w=CUTS**2 / 2, mu=e[:, None] * CUTS, observed=Z),
        "pm.StudentT",
    ),
    "pm.Censored(pm.Normal)": (
        lambda e: pm.Censored("y", pm.Normal.dist(e, 1), lower=None, upper=1, observed=Z),
        "pm.Poisson",
    ),
    "pm.Truncated(pm.Poisson)": (
        lambda e: pm.Truncated("y", pm.Poisson.dist(exp(e)), lower=1, observed=Y + 1),
        "without pm.Truncated",
    ),
    "pm.OrderedLogistic": (
        lambda e: pm.OrderedLogistic("y", eta=e, cutpoints=CUTS, observed=Y),
        "pm.Bernoulli for y >= k",
    ),
    "pm.OrderedProbit": (
        lambda e: pm.OrderedProbit("y", eta=e, cutpoints=CUTS, compute_p=False, observed=Y),
        "pm.Bernoulli for y >= k",
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
    for name in ("Bernoulli", "Binomial", "StudentT", "NegativeBinomial", "Categorical"):
        assert f"pm.{name}(" in supported and name not in ALTERNATIVES


def test_supported_distributions_are_named():
    model = model_of(lambda e: pm.Categorical("y", logit_p=e[:, None] * CUTS, observed=Y))
    assert distribution_name(model["y"]) == "pm.Categorical"


def test_ordered_probabilities_of_other_kinds():
    """Bambi, for one, writes cumulative and sequential models by hand."""
    model = model_of(
        lambda e: pm.Categorical("y", p=pm.math.stack([sigmoid(e), sigmoid(-e)], 1), observed=Y)
    )
    with pytest.raises(UnsupportedModelError, match=r"Instead of ordered prob.*: pm.Bernoulli for"):
        read_model(model)


def test_likelihood_in_a_potential():
    model = model_of(lambda e: pm.Potential("weighted", (Y * e).sum()))
    with pytest.raises(UnsupportedModelError, match=r"\['weighted'\].*pm.Binomial\(n=weight"):
        read_model(model)


def test_registered_family_is_listed_by_its_name(monkeypatch):
    class Plain:
        name = "durations"

        def matches(self, rv):
            return False

    monkeypatch.setattr("pymc_flymc.reading.model.LIKELIHOODS", [Plain(), *LIKELIHOODS])
    with pytest.raises(UnsupportedModelError, match=r"Supported are durations, pm.Bernoulli\("):
        read_model(model_of(UNSUPPORTED["pm.Normal"][0]))


# --- missing values and minibatches --------------------------------------------------------------

WITH_NAN = np.where(np.arange(N) == 3, np.nan, Y)
MASKED = np.ma.masked_array(Y, mask=np.arange(N) < 2)


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


# --- parameters that are numbers -----------------------------------------------------------------


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
            "the exposure .*'y' is 0.0; it must be positive and finite",
        ),
    ],
)
def test_impossible_parameters(observe, message):
    with pytest.raises(ValueError, match=message):
        read_model(model_of(observe))


# --- the tutorial's tables of errors -------------------------------------------------------------


def bernoulli(e, observed=Y):
    pm.Bernoulli("y", logit_p=e, observed=observed)


def with_discrete(e):
    bernoulli(e + pm.Poisson("k", 2.0))


#: What provokes each message that the tables have, but for those of the search for the mode.
PROVOKED = {
    "the model has no observed variable that Firefly supports": UNSUPPORTED["pm.Normal"][0],
    "cannot read the observed variable": lambda e: pm.Bernoulli("y", p=sigmoid(e) / 2, observed=Y),
    "cannot read the linear predictor": lambda e: bernoulli(exp(e)),
    "it takes some rows out of a term": lambda e: bernoulli(e[: N // 2], Y[: N // 2]),
    "has missing values": lambda e: bernoulli(e, MASKED),
    "dimensions; only vectors are supported": lambda e: bernoulli(e[:, None], Y[:, None]),
    "samples continuous variables only": with_discrete,
    "NaN or infinite values": lambda e: bernoulli(e + WITH_NAN),
    "values other than 0 and 1": lambda e: bernoulli(e, Y + 1),
    "the likelihood of … depends on …, which this step does not sample": {"vars": "a"},
    "must be …, not …": {"bound": Taylor},
    "the start has … for": {"initvals": np.nan},
}
#: Provoked in test_proper and test_anchor.
SEARCHED = {
    "no posterior mode found: … rises for ever along …",
    "the posterior is improper",
    "the log density of … at the start of the anchor search",
}


def test_tables_of_errors_are_complete():
    rows = re.findall(r"^\| (.+?) \| .+ \|$", TABLES.split("## What errors mean")[1], re.MULTILINE)
    assert set(rows) - {"the message says"} == set(PROVOKED) | SEARCHED


@pytest.mark.parametrize("row", PROVOKED)
def test_tables_of_errors(row):
    provoked, settings = PROVOKED[row], {}
    if isinstance(provoked, dict):
        provoked, settings = bernoulli, provoked
    model = model_of(provoked)
    with model:
        pm.Normal("a", initval=settings.pop("initvals", None))
        with pytest.raises((UnsupportedModelError, ValueError)) as caught:
            FireflyMH(**settings)
    message = str(caught.value)
    place = -1
    for part in row.split("…"):
        place = message.find(part.strip(), place + 1)
        assert place >= 0, message
