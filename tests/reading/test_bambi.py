"""Models that Bambi builds: read as Bambi writes them, and sampled through ``Model.fit``."""

import warnings

import numpy as np
import pandas as pd
import pytensor
import pytensor.tensor as pt
import pytest

from pymc_flymc import FireflyMH, UnsupportedModelError
from pymc_flymc.reading.model import read_model
from tests.support.comparison import assert_matches, quadrature, reference_from_draws
from tests.support.data import log_sigmoid
from tests.support.nuts import N_NUMBERS
from tests.support.readings import check_density, value_of

bambi = pytest.importorskip("bambi")


def frame(n, seed=0):
    """Rows with outcomes of all families, two numbers and a factor of three levels."""
    rng = np.random.default_rng(seed)
    a, b, group = rng.normal(1.0, 1.0, n), rng.normal(size=n), rng.choice(list("uvw"), n)
    eta = 0.3 + 0.5 * a - 0.4 * b + 0.5 * (group == "v")
    utility = np.column_stack([0.0 * eta, eta, -eta]) + rng.gumbel(size=(n, 3))
    outcomes = {
        "binary": (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(int),
        "choice": np.array(list("xyz"))[utility.argmax(axis=1)],
        "amount": eta + rng.standard_t(4.0, size=n),
        "count": rng.poisson(np.exp(eta - 1.0)),
        "rating": pd.Categorical(np.digitize(eta + rng.logistic(size=n), [-1.0, 0.5, 2.0])),
        "weight": rng.integers(0, 3, n),
        "trials": np.full(n, 9),
        "successes": rng.binomial(9, 1.0 / (1.0 + np.exp(-eta))),
        "share": rng.beta(6.0 / (1.0 + np.exp(-eta)), 6.0 / (1.0 + np.exp(eta))),
        "loss": rng.gamma(2.0, 0.5 * np.exp(eta)) * (rng.random(n) < 0.7),
    }
    return pd.DataFrame({"a": a, "b": b, "group": group, **outcomes})


# Formula, family and options, name of the likelihood, coefficients of each predictor.
MODELS = [
    ("binary ~ a + b + group", "bernoulli", {}, "bernoulli-logit", 5),
    ("binary ~ a + b", "bernoulli", {"center_predictors": False}, "bernoulli-logit", 3),
    ("binary ~ 0 + a + group", "bernoulli", {}, "bernoulli-logit", 4),
    ("binary ~ a * b + offset(b)", "bernoulli", {}, "bernoulli-logit", 4),
    ("binary ~ a + b", "bernoulli", {"link": "probit"}, "bernoulli-probit", 3),
    ("binary ~ a + b", "bernoulli", {"link": "cloglog"}, "bernoulli-cloglog", 3),
    ("choice ~ a + b + group", "categorical", {}, "softmax", 5),
    ("choice ~ 0 + a", "categorical", {}, "softmax", 1),
    ("choice ~ 1", "categorical", {}, "softmax", 1),
    ("amount ~ a + b + group", "t", {}, "student-t", 5),
    ("amount ~ a + b + group", "gaussian", {}, "normal", 5),
    ("count ~ a + b + offset(b)", "poisson", {}, "poisson-log", 3),
    ("count ~ poly(a, 2) + np.exp(b)", "poisson", {}, "poisson-log", 4),
]


def built(formula, family, data, **options):
    model = bambi.Model(formula, data, family=family, **options)
    model.build()
    return model


@pytest.mark.parametrize(("formula", "family", "options", "name", "width"), MODELS)
@pytest.mark.slow_cases("binary ~ a * b + offset(b)-bernoulli-options3-bernoulli-logit-4")
def test_reading(formula, family, options, name, width):
    model = built(formula, family, frame(200), **options).backend.model
    reading = read_model(model)
    assert 200 in reading.per_row.values()
    assert reading.regressions[0].likelihood.name == name
    design, w = reading.regressions[0].design, reading.coefficients[0]
    assert design.width == width
    start = model.initial_point()
    # The rows' log-likelihood at w is that of Bambi's own graph, but for a constant.
    rng, inputs = np.random.default_rng(3), model.value_vars
    coefficients = pytensor.function(inputs, w, on_unused_input="ignore")
    log_density = model.compile_logp(vars=model.observed_RVs)
    differences = []
    for _ in range(3):
        point = {v.name: 0.3 * rng.normal(size=start[v.name].shape) for v in inputs}
        w_here = coefficients(*point.values())
        nuisances = w_here[len(w_here) - design.n_nuisances :]
        columns = [*design.predictor(w_here).T, *(np.full(200, v) for v in nuisances)]
        arguments = [pt.constant(column) for column in columns]
        y = pt.constant(reading.regressions[0].y.astype(float))
        value = reading.regressions[0].likelihood.log_likelihood(arguments, y).sum().eval()
        differences.append(value - log_density(point))
    # Bambi's probit divides by the square root of two in single precision.
    error = len(y.data) * float(np.finfo(np.float32).eps) if name == "bernoulli-probit" else 1e-9
    assert differences == pytest.approx([differences[0]] * 3, rel=1e-9, abs=error)


@pytest.mark.filterwarnings("ignore:the Deterministic variables")
@pytest.mark.parametrize(
    ("formula", "family", "name"),
    [
        ("p(successes, trials) ~ a + group", "binomial", "binomial-logit"),
        ("count ~ a + group", "negativebinomial", "negative-binomial-free"),
        (
            "count ~ a + group",
            "zero_inflated_negativebinomial",
            "zero-inflated-negative-binomial-free",
        ),
        ("amount ~ a + group", "laplace", "asymmetric-laplace"),
        ("amount ~ a + group", "asymmetriclaplace", "asymmetric-laplace"),
        ("binary ~ bs(amount, df=3)", "bernoulli", "bernoulli-logit"),
    ],
)
def test_families(formula, family, name):
    data = frame(50).drop(columns="b")  # the name of a parameter of Bambi's own
    model = built(formula, family, data, auto_scale="bs(" not in formula).backend.model
    (part,) = read_model(model).regressions
    assert (part.likelihood.name, part.design.width) == (name, 4)


@pytest.mark.parametrize(
    ("family", "name", "width"), [("gamma", "gamma-free", 4), ("weibull", "weibull-free", 5)]
)
def test_durations(family, name, width):
    """Of a gamma distribution Bambi gives the mean and the sd, of a Weibull one the mean."""
    data = frame(60)
    data["amount"] = np.exp(data["amount"])
    (part,) = read_model(
        built("amount ~ a + group", family, data, link="log").backend.model
    ).regressions
    assert (part.likelihood.name, part.design.width) == (name, width)


@pytest.mark.filterwarnings("ignore:the Deterministic variables")
@pytest.mark.parametrize(
    ("formula", "family", "name"),
    [
        ("share ~ a + group", "beta", "beta"),
        ("p(successes, trials) ~ a + group", "beta_binomial", "beta-binomial"),
        ("loss ~ a + group", "hurdle_gamma", "gamma-free"),
    ],
)
def test_shares_and_amounts(formula, family, name):
    model = built(formula, family, frame(60)).backend.model
    reading = read_model(model)
    assert [part.likelihood.name for part in reading.regressions] == [name]
    check_density(model, reading)


@pytest.mark.filterwarnings("ignore:The intercept is omitted")
@pytest.mark.parametrize(
    ("formula", "width"),
    [("rating ~ a + b + group", 7), ("rating ~ 1", 3), ("rating ~ hsgp(a, m=4, c=1.5)", 7)],
)
@pytest.mark.slow_cases("rating ~ hsgp(a, m=4, c=1.5)-7")
def test_reading_of_ordered_levels(formula, width):
    """Comparisons with thresholds, and what is left of the density without them."""
    model = built(formula, "cumulative", frame(200)).backend.model
    reading = read_model(model)
    (part,) = reading.regressions
    assert (part.likelihood.name, part.design.width) == ("ordered-logit", width)
    start, rng = model.initial_point(), np.random.default_rng(3)
    for _ in range(3):
        spread = {name: 0.3 * rng.normal(size=np.shape(v)) for name, v in start.items()}
        point = {name: v + spread[name] for name, v in start.items()}
        eta = part.design.predictor(value_of(reading.coefficients[0], point))[:, 0]
        found = value_of(reading.prior_logp, point) + np.sum(part.y * eta - np.logaddexp(0.0, eta))
        assert found == pytest.approx(model.compile_logp()(point), rel=1e-9)


@pytest.mark.filterwarnings("ignore:the Deterministic variables")
@pytest.mark.parametrize(
    ("outcome", "family", "name"),
    [
        ("amount", "gaussian", "weighted normal"),
        ("count", "poisson", "weighted poisson-log"),
        ("amount", "asymmetriclaplace", "weighted asymmetric-laplace"),
    ],
)
def test_weights(outcome, family, name):
    data = frame(60).drop(columns=["b", "group"])
    model = built(f"weighted({outcome}, weight) ~ a", family, data).backend.model
    (part,) = read_model(model).regressions
    assert part.likelihood.name == name
    kept = data["weight"].to_numpy() > 0
    np.testing.assert_array_equal(part.y[:, -1], data["weight"][kept])
    np.testing.assert_array_equal(part.y[:, 0], data[outcome][kept])


@pytest.mark.filterwarnings("ignore:The intercept is omitted")
@pytest.mark.parametrize(
    ("formula", "family", "link", "message"),
    [
        ("binary ~ a", "bernoulli", "identity", "its p is not"),
        ("rating ~ a", "cumulative", "probit", "ordered with a probit link"),
        ("rating ~ a", "cumulative", "cloglog", "ordered with a cloglog link"),
        ("rating ~ a", "sratio", "logit", "its p is not the softmax"),
    ],
)
def test_other_links_are_refused(formula, family, link, message):
    model = built(formula, family, frame(50), link=link).backend.model
    with model, pytest.raises(UnsupportedModelError, match=message):
        FireflyMH()


@pytest.mark.filterwarnings("ignore:the Deterministic variables")
@pytest.mark.slow
def test_gaussian_process_is_found(searches):
    model = built("binary ~ hsgp(a, m=4, c=1.5)", "bernoulli", frame(500)).backend.model
    assert np.all(np.isfinite(searches(model).geometry.factor))


def test_fit():
    """Draws as Bambi returns them, the intercept of predictors that are not centred."""
    data = frame(30)
    normal = {
        "Intercept": bambi.Prior("Normal", mu=0, sigma=2),
        "a": bambi.Prior("Normal", mu=0, sigma=1),
    }
    model = built("binary ~ a", "bernoulli", data, priors=normal)
    with warnings.catch_warnings():
        # Bambi leaves p out of what it samples: nothing to warn of.
        warnings.filterwarnings("error", "the Deterministic variables")
        with model.backend.model:
            step = FireflyMH(transitions=60)
        idata = model.fit(
            step=step, tune=300, draws=4000, chains=2, cores=1, random_seed=1, progressbar=False
        )
    assert "p" not in idata.posterior
    a, signed = data["a"].to_numpy(), 2.0 * data["binary"].to_numpy() - 1.0

    def log_density(points):
        intercept, slope = points.T
        eta = intercept[:, None] + slope[:, None] * a
        centred = intercept + slope * a.mean()
        return log_sigmoid(signed * eta).sum(axis=1) - 0.5 * ((centred / 2.0) ** 2 + slope**2)

    draws = np.stack([idata.posterior[name].to_numpy() for name in ("Intercept", "a")], axis=-1)
    assert_matches(draws, quadrature(log_density, [-10.0, -8.0], [10.0, 8.0]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("formula", "family"),
    [
        ("choice ~ a + b + group", "categorical"),
        ("amount ~ a + b + group", "t"),
        ("count ~ a + b + group", "poisson"),
        ("rating ~ a + b + group", "cumulative"),
    ],
)
def test_fit_against_nuts(formula, family):
    model = built(formula, family, frame(2000))
    options = dict(chains=2, cores=2, random_seed=2, progressbar=False)
    with model.backend.model:
        step = FireflyMH()
    ours = model.fit(step=step, tune=1000, draws=20_000, **options)
    theirs = model.fit(tune=1000, draws=6000, **options)
    draws = []
    for idata in (ours, theirs):
        values = [v.to_numpy().reshape(*v.shape[:2], -1) for v in idata.posterior.values()]
        draws.append(np.concatenate(values, axis=-1))
    assert_matches(draws[0], reference_from_draws(draws[1]), N_NUMBERS)
