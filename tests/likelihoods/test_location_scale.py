"""Laplace, asymmetric Laplace and logistic noise: reading, tangents, exactness."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pymc_flymc import FireflyMH, Tangent, UnsupportedModelError
from pymc_flymc.likelihoods import AsymmetricLaplace, Logistic
from pymc_flymc.reading.model import read_model
from tests.support.comparison import assert_matches, quadrature
from tests.support.readings import check_density
from tests.support.steps import drive

RNG = np.random.default_rng(0)
X = np.column_stack([np.ones(50), RNG.normal(size=50)])
Y = X @ [0.5, 1.0] + RNG.laplace(size=50)


def noise(name, mu, scale, y):
    """Observe y with one of the three kinds of noise."""
    if name == "logistic":
        return pm.Logistic("y", mu=mu, s=scale, observed=y)
    if name == "laplace":
        return pm.Laplace("y", mu=mu, b=scale, observed=y)
    return pm.AsymmetricLaplace("y", mu=mu, q=0.8, b=1.0 / scale, observed=y)


def log_density(name, y, mu, scale):
    z = (y - mu) / scale
    if name == "logistic":
        return -np.abs(z) - 2.0 * np.log1p(np.exp(-np.abs(z))) - np.log(scale)
    kappa = 1.0 if name == "laplace" else 2.0  # sqrt(0.8 / 0.2)
    return -np.abs(z) * kappa ** np.sign(z) - np.log(scale * (kappa + 1.0 / kappa))


NAMES = ["logistic", "laplace", "quantile"]
FAMILIES = {
    "logistic": (Logistic(), []),
    "laplace": (AsymmetricLaplace(), [0.0]),
    "quantile": (AsymmetricLaplace(), [np.log(2.0)]),
}


@pytest.fixture(scope="module")
def graphs():
    """Log-likelihood, gap, and the gap's derivatives, of each kind of noise."""
    out = {}
    for name, (family, fixed) in FAMILIES.items():
        arguments = [pt.dvector(f"argument_{i}") for i in range(2 + len(fixed))]
        y, constants = pt.dvector("y"), pt.dmatrix("constants")
        gap = Tangent().gap(family, arguments, constants, pt.zeros((0,)))
        value = family.log_likelihood(arguments, y)
        mode = pytensor.compile.Mode(linker="py", optimizer=None)
        out[name] = (
            pytensor.function([*arguments, y], value, mode=mode),
            pytensor.function([*arguments, constants], gap, mode=mode),
        )
    return out


@given(
    name=st.sampled_from(NAMES),
    y=st.floats(-1e3, 1e3),
    eta=st.floats(-1e3, 1e3),
    log_scale=st.floats(-4, 4),
)
def test_log_likelihood(graphs, name, y, eta, log_scale):
    arguments = [np.array([v]) for v in (eta, *FAMILIES[name][1], log_scale)]
    value = graphs[name][0](*arguments, np.array([y]))[0]
    expected = log_density(name, y, eta, np.exp(log_scale))
    assert value == pytest.approx(expected, rel=1e-12, abs=1e-12)


@settings(max_examples=300)
@given(
    name=st.sampled_from(NAMES),
    residual=st.floats(-1e3, 1e3),
    at=st.floats(1e-6, 1e3),
    scales=st.tuples(st.floats(-4, 4), st.floats(-4, 4)),
    skew=st.floats(-2, 2),
)
def test_bound_is_below_the_likelihood(graphs, name, residual, at, scales, skew):
    """At other residuals, scales and (quantile) kappa than those at which it touches."""
    family, fixed = FAMILIES[name]
    tangent = family.tangent(np.array([at**2]), [np.array([v]) for v in (*fixed, scales[0])])
    constants = Tangent().constants(tangent, np.zeros(1), np.zeros(1))
    free = [v + (skew if name == "quantile" else 0.0) for v in fixed]
    z = residual * np.exp(-scales[1])
    gap = graphs[name][1](*(np.array([v]) for v in (residual, *free, scales[1])), constants)[0]
    a = np.cosh(free[0]) if free else 1.0
    size = a * (1.0 + abs(z)) + tangent[0, 0] * z**2 + np.abs(tangent[1, 0]) * a**2
    assert gap >= -16 * np.finfo(float).eps * size
    touch = at * np.exp(scales[0])
    here = graphs[name][1](*(np.array([v]) for v in (touch, *fixed, scales[0])), constants)[0]
    a = np.cosh(fixed[0]) if fixed else 1.0
    size = 1.0 + a * at + tangent[0, 0] * at**2 + np.abs(tangent[1, 0]) * a**2
    assert abs(here) <= 32 * np.finfo(float).eps * size


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("free", [True, False])
@pytest.mark.slow_cases("True-quantile", "False-logistic", "True-laplace")
def test_reading(name, free):
    with pm.Model():
        beta = pm.Normal("beta", 0.0, 2.0, shape=2)
        scale = pm.HalfNormal("scale", 2.0) if free else 0.7
        noise(name, X @ beta, scale, Y)
        step = FireflyMH(kernel="metropolis")
    family, fixed = FAMILIES[name]
    assert type(step.target.parts[0].likelihood) is type(family) and isinstance(
        step.bounds[0], Tangent
    )
    w = np.empty(3 + len(fixed))
    theta = np.array([0.1, 0.2, np.log(0.7)])[: 2 + free]
    step.target.density(theta, step.target.statistics, w)
    # PyTensor keeps short Python floats, and functions of them, in single precision.
    np.testing.assert_allclose(w, [0.1, 0.2, *fixed, np.log(0.7)], rtol=1e-6, atol=1e-7)


@pytest.mark.slow
def test_free_quantile():
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.0, shape=2)
        q = pm.Beta("q", 2.0, 2.0)
        pm.AsymmetricLaplace("y", mu=X @ beta, q=q, b=1.0, observed=Y)
        step = FireflyMH(kernel="metropolis")
    draws, drawn = drive(step, model.initial_point(), tune=50, draws=50)
    w = np.empty(4)
    step.target.density(np.array([0.1, 0.2, np.log(4.0)]), step.target.statistics, w)
    np.testing.assert_allclose(w, [0.1, 0.2, np.log(2.0), 0.0])
    assert np.all(np.isfinite(draws)) and drawn["acceptance_probability"].mean() > 0.05


def test_a_whole_number_for_a_rate():
    """PyTensor takes its reciprocal in single precision."""
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.0, shape=2)
        pm.AsymmetricLaplace("y", mu=X @ beta, q=0.8, b=3, observed=Y)
    check_density(model, read_model(model))


def test_bad_models():
    with pm.Model():
        beta = pm.Normal("beta", 0.0, 2.0, shape=2)
        pm.AsymmetricLaplace("y", mu=X @ beta, kappa=np.ones(50), b=1.0, observed=Y)
        with pytest.raises(UnsupportedModelError, match="kappa of the observed variable 'y'"):
            FireflyMH()


def location_posterior(name, y):
    """Log density of (location, log scale), N(0, 2) and HalfNormal(2) priors, for `quadrature`."""

    def log_posterior(points):
        mu, log_scale = points.T
        scale = np.exp(log_scale)
        value = log_density(name, y, mu[:, None], scale[:, None]).sum(axis=1)
        return value + stats.norm.logpdf(mu, 0.0, 2.0) - 0.5 * (scale / 2.0) ** 2 + log_scale

    return log_posterior


# The sweep's slice has Laplace noise, which is the quantile's family.
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_posterior_by_quadrature(name):
    y = np.random.default_rng(3).laplace(0.5, 1.0, size=25)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.0, shape=1)
        noise(name, np.ones((25, 1)) @ beta, pm.HalfNormal("scale", 2.0), y)
        step = FireflyMH(kernel="metropolis", transitions=90)
    draws, drawn = drive(step, model.initial_point(), tune=300, draws=4000, chains=2)
    assert_matches(draws, quadrature(location_posterior(name, y), [-10.0, -6.0], [10.0, 4.0]))
    assert np.all(drawn["n_bright"] <= 25)


@pytest.mark.slow
@pytest.mark.parametrize("parameter", ["kappa", "q"])
def test_free_asymmetry_by_quadrature(parameter):
    y = np.random.default_rng(3).laplace(0.5, 1.0, size=25)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.0, shape=1)
        free = pm.HalfNormal("kappa", 2.0) if parameter == "kappa" else pm.Beta("q", 2.0, 2.0)
        mu = np.ones((25, 1)) @ beta
        pm.AsymmetricLaplace("y", mu=mu, b=1.0, observed=y, **{parameter: free})
        step = FireflyMH(kernel="metropolis", transitions=90)

    def log_posterior(points):
        mu, value = points.T  # log kappa, or logit q = 2 log kappa
        log_kappa = value if parameter == "kappa" else 0.5 * value
        z = y - mu[:, None]
        log_l = -np.abs(z) * np.exp(np.sign(z) * log_kappa[:, None])
        log_l = log_l.sum(axis=1) - len(y) * np.log(2.0 * np.cosh(log_kappa))
        if parameter == "kappa":
            prior = -0.5 * (np.exp(value) / 2.0) ** 2 + value
        else:
            prior = -2.0 * (np.logaddexp(0.0, value) + np.logaddexp(0.0, -value))
        return log_l + stats.norm.logpdf(mu, 0.0, 2.0) + prior

    draws, _ = drive(step, model.initial_point(), tune=300, draws=4000, chains=2)
    assert_matches(draws, quadrature(log_posterior, [-10.0, -8.0], [10.0, 8.0]))


@pytest.mark.slow
def test_first_anchor_and_its_promise():
    """The first anchor serves skewed residuals, and as many rows are bright as it promises."""
    rng = np.random.default_rng(8)
    x = np.column_stack([np.ones(20_000), rng.normal(size=20_000)])
    y = x @ [0.5, 1.0] + rng.exponential(size=20_000)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.0, shape=2)
        noise("quantile", x @ beta, pm.HalfNormal("scale", 2.0), y)
        step = FireflyMH(transitions=40)
    draws, drawn = drive(step, model.initial_point(), tune=200, draws=400)
    assert step.chain.target is step.target  # the anchor stayed where it was
    centre, sd = step.target.geometry.centre, draws[0].std(axis=0)
    assert np.all(np.abs(draws[0].mean(axis=0) - centre) < 0.8 * sd)
    # Bright rows vary by their square root. Their mean goes with the variance of the predictors,
    # which the Laplace approximation knows to a tenth from the few hundred rows next to the kink.
    bright = drawn["n_bright"].mean()
    assert bright == pytest.approx(step.target.parts[0].expected_bright, rel=0.2)
