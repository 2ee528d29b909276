"""Zero-inflated counts: reading, log-likelihoods, limits on derivatives, the bound, exactness."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pymc_flymc import FireflyMH, JaakkolaJordan, Taylor, UnsupportedModelError, weighted
from pymc_flymc.extending import check_bound
from pymc_flymc.likelihoods import BinomialLogit, ZeroInflatedPoisson, ZeroInflatedTrials
from pymc_flymc.reading.model import read_model
from tests.support.comparison import assert_matches, quadrature
from tests.support.data import late_flights, log_sigmoid
from tests.support.limits import limit_beyond
from tests.support.nuts import assert_match_nuts
from tests.support.readings import check_density
from tests.support.steps import drive, step_of

N = 60
RNG = np.random.default_rng(0)
X = np.column_stack([np.ones(N), RNG.normal(size=(N, 2))])
Y = RNG.poisson(np.exp(X @ [0.3, 0.5, -0.3])) * (RNG.random(N) < 0.7)
E = RNG.uniform(0.5, 2.0, N)
FAMILIES = [ZeroInflatedPoisson(), ZeroInflatedTrials()]
NAMES = [family.name for family in FAMILIES]
exp, sigmoid = pm.math.exp, pm.math.sigmoid


def coefficients(name="b"):
    return X @ pm.Normal(name, 0.0, 1.0, shape=3)


def chance():
    return pm.Beta("psi", 1.0, 1.0)


def regressed():
    return sigmoid(coefficients("g"))


#: What a user may write, the family, and the number of coefficients.
WRITTEN = {
    "scalar": (
        lambda: pm.ZeroInflatedPoisson("y", chance(), E * exp(coefficients()), observed=Y),
        "zero-inflated-poisson",
        8,
    ),
    "regressed": (
        lambda: pm.ZeroInflatedPoisson("y", regressed(), exp(coefficients()), observed=Y),
        "zero-inflated-poisson",
        6,
    ),
    "the same coefficients": (
        lambda: pm.ZeroInflatedPoisson("y", sigmoid((e := coefficients()) - 1), exp(e), observed=Y),
        "zero-inflated-poisson",
        6,
    ),
    "negative binomial": (
        lambda: pm.ZeroInflatedNegativeBinomial(
            "y", regressed(), mu=exp(coefficients()), alpha=np.linspace(0.5, 3.0, N), observed=Y
        ),
        "zero-inflated-negative-binomial-log",
        6,
    ),
    "binomial": (
        lambda: pm.ZeroInflatedBinomial(
            "y", chance(), n=30, p=sigmoid(coefficients()), observed=np.minimum(Y, 30)
        ),
        "zero-inflated-binomial-logit",
        8,
    ),
    "a mixture of known weights": (
        lambda: pm.Mixture(
            "y",
            [0.3, 0.7],
            [pm.DiracDelta.dist(0), pm.Poisson.dist(exp(coefficients()))],
            observed=Y,
        ),
        "zero-inflated-poisson",
        6,
    ),
    "weighted": (
        lambda: weighted(
            "y", pm.ZeroInflatedPoisson.dist(chance(), exp(coefficients())), Y % 3, observed=Y
        ),
        "weighted zero-inflated-poisson",
        8,
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_reading(name):
    write, family, n_coefficients = WRITTEN[name]
    with pm.Model() as model:
        write()
    reading = read_model(model)
    (part,) = reading.regressions
    assert (part.likelihood.name, part.design.n_coefficients) == (family, n_coefficients)
    check_density(model, reading)


def test_other_mixtures_are_none():
    counts = pm.Poisson.dist(E)
    for other in (pm.DiracDelta.dist(1), pm.Geometric.dist(0.5)):
        mixture = pm.Mixture.dist(w=[0.5, 0.5], comp_dists=[other, counts])
        assert not any(family.matches(mixture) for family in FAMILIES)


def test_bad_models():
    cases = {
        "its psi is not the logistic": lambda e: pm.ZeroInflatedPoisson(
            "y", pm.math.invprobit(e), exp(e), observed=Y
        ),
        "its mu is not the exponential": lambda e: pm.ZeroInflatedPoisson(
            "y", chance(), pm.math.sqr(e), observed=Y
        ),
    }
    for message, write in cases.items():
        with pm.Model() as model:
            write(coefficients())
        with pytest.raises(UnsupportedModelError, match=message):
            read_model(model)
    with pm.Model() as model:
        pm.ZeroInflatedPoisson("y", chance(), exp(coefficients()), observed=Y - 1)
    with pytest.raises(ValueError, match="values that are not counts"):
        read_model(model)


def test_only_taylor_is_a_bound():
    for family in FAMILIES:
        assert Taylor().supports(family)
        assert not Taylor(order=3).supports(family) and not JaakkolaJordan().supports(family)


# --- derivatives --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def graphs():
    """Log-likelihood and its first three derivatives along a direction, of each family."""
    eta, a, u, v, y, m = (pt.dvector(name) for name in ("eta", "a", "u", "v", "y", "m"))
    functions = []
    for family, columns in zip(FAMILIES, (y, [y, m]), strict=True):
        t = pt.zeros_like(eta)
        out = [family.log_likelihood([eta + t * u, a + t * v], columns)]
        for _ in range(3):
            out.append(pytensor.grad(out[-1].sum(), t))
        mode = pytensor.compile.Mode(linker="py", optimizer=None)
        inputs = [eta, a, u, v, y, m]
        functions.append(pytensor.function(inputs, out, mode=mode, on_unused_input="ignore"))
    return functions


def log_zero(i, eta, m):
    """Minus the logarithm of the probability of zero without further zeros."""
    return np.exp(np.minimum(eta, 700.0)) if i == 0 else m * np.logaddexp(0.0, eta)


@given(
    i=st.integers(0, 1),
    eta=st.floats(-1e3, 650.0),
    a=st.floats(-1e3, 1e3),
    y=st.sampled_from([0, 1, 17]),
    log_alpha=st.floats(-10.0, 10.0),
)
def test_log_likelihood(graphs, i, eta, a, y, log_alpha):
    """Finite far out, with its derivatives, and as the definition has it."""
    m = y + np.exp(log_alpha)
    arguments = np.array([[eta], [a], [1.0], [1.0], [y], [m]], float)
    value, *derivatives = (out[0] for out in graphs[i](*arguments))
    assert np.isfinite(value) and np.all(np.isfinite(derivatives[:2]))
    s = log_zero(i, eta, m)
    if y == 0:
        expected = np.logaddexp(0.0, a - s) - np.logaddexp(0.0, a)
    else:
        expected = y * eta - s - np.logaddexp(0.0, -a)
    scale = 1.0 + abs(y * eta) + (s if y else 0.0) + abs(a)
    assert value == pytest.approx(expected, rel=1e-12, abs=1e-13 * scale)


@given(
    i=st.integers(0, 1),
    seed=st.integers(0, 10**6),
    log_alpha=st.floats(-5.0, 5.0),
    size=st.floats(-3.0, 1.0),
)
def test_limits_on_the_derivatives(graphs, i, seed, log_alpha, size):
    """No less than what there is within a half-width, nor than what there is far away."""
    rng, n = np.random.default_rng(seed), 200
    eta = rng.normal(0.0, 2.0, (2, 1)) * np.ones(n)
    spread = np.exp(rng.normal(size=(2, 1))) * np.ones(n)
    half_width = 10.0**size * spread
    y = (rng.poisson(1.0) * np.ones(n)).astype(float)
    m = y + np.exp(log_alpha)
    observed = y if i == 0 else np.column_stack([y, m])
    there = eta + half_width * rng.uniform(-1.0, 1.0, (2, n))
    direction = spread * rng.choice([-1.0, 0.3, 1.0], (2, n))
    family = FAMILIES[i]
    third = np.abs(graphs[i](*there, *direction, y, m)[3])
    limit = family.third_bound(eta, half_width, spread, observed)
    assert np.all(third <= limit * (1.0 + 1e-9) + 1e-12)
    beyond = limit_beyond(family, eta, there - eta, spread, observed)
    assert np.all(third <= beyond * (1.0 + 1e-9) + 1e-12)


def test_rows_without_trials_have_limits():
    """They are zero, and those of other rows are what they would be without such rows."""
    family = ZeroInflatedTrials(BinomialLogit())
    eta, spread = np.array([[0.3, 0.3], [-0.5, -0.5]]), np.ones((2, 2))
    scale, rate = family.third_beyond(eta, spread, np.array([[0.0, 0.0], [0.0, 5.0]]))
    (alone,), _ = family.third_beyond(eta[:, 1:], spread[:, 1:], np.array([[0.0, 5.0]]))
    np.testing.assert_array_equal(scale, [0.0, alone])
    np.testing.assert_array_equal(rate, 0.0)
    assert alone > 0.0


@pytest.mark.parametrize("zero", [True, False])
def test_limits_far_away(graphs, zero):
    """Along directions in which only the mean changes, or mainly: it alone grows."""
    rng, n, family = np.random.default_rng(0), 20_000, FAMILIES[0]
    eta = np.stack([rng.normal(0.0, 2.0, n), rng.normal(0.0, 3.0, n)])
    spread = np.exp(rng.normal(size=(2, n))) * [np.ones(n), 10.0 ** rng.uniform(-6.0, 0.0, n)]
    there = eta + 10.0 ** rng.uniform(-2.0, 0.7, n) * spread * rng.uniform(-1.0, 1.0, (2, n))
    y = np.zeros(n) if zero else 1.0 + rng.poisson(1.0, n)
    third = np.abs(graphs[0](*there, *spread, y, y)[3])
    limit = limit_beyond(family, eta, there - eta, spread, y)
    assert np.all(third <= limit * (1.0 + 1e-9) + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [None, 0.01, 2.0, 1e3])
def test_bound(alpha):
    """Below the likelihood, and collapsing, as far out as 100 posterior sds."""
    rng = np.random.default_rng(0)
    y = rng.poisson(2.0, 200) * (rng.random(200) < 0.6)
    for seed in range(3):
        if alpha is None:
            check_bound(Taylor(), FAMILIES[0], y, seed=seed)
        else:
            check_bound(Taylor(), FAMILIES[1], np.column_stack([y, y + alpha]), seed=seed)
    trials = np.column_stack([y, np.full(200, 12.0)])
    check_bound(Taylor(), ZeroInflatedTrials(BinomialLogit()), trials)


# --- exactness ----------------------------------------------------------------------------------


def problem(i, n, scalar):
    """A model with two coefficients, and its posterior."""
    rng = np.random.default_rng(n)
    x = np.linspace(-1.0, 1.0, n)
    y = rng.poisson(np.exp(0.5 + x)) * (rng.random(n) < (0.6 if scalar else 0.5 + 0.3 * x))
    with pm.Model() as model:
        if scalar:
            psi, b = pm.Beta("psi", 4.0, 4.0), pm.Normal("b", 0.0, 1.0)
            mean = exp(b + x)
        else:
            b = pm.Normal("b", 0.0, 1.0, shape=2)
            psi, mean = sigmoid(b[0] + b[1] * x), exp(b[0] + x)
        if i == 0:
            pm.ZeroInflatedPoisson("y", psi, mean, observed=y)
        else:
            pm.ZeroInflatedNegativeBinomial("y", psi, mu=mean, alpha=1.5, observed=y)

    def log_density(points):
        if scalar:
            a, b = points[:, :1], points[:, 1]
            prior = 4.0 * (log_sigmoid(a) + log_sigmoid(-a)).ravel() - 0.5 * b**2
        else:
            b, prior = points[:, 0], -0.5 * np.sum(points**2, axis=1)
            a = b[:, None] + points[:, 1:] * x
        mean = np.exp(b[:, None] + x)
        p = stats.poisson(mean) if i == 0 else stats.nbinom(1.5, 1.5 / (1.5 + mean))
        counts = log_sigmoid(a) + p.logpmf(y)
        rows = np.where(y == 0, np.logaddexp(log_sigmoid(-a), counts), counts)
        return rows.sum(axis=1) + prior

    return model, quadrature(log_density, [-8.0, -6.0], [8.0, 6.0])


@pytest.mark.slow
@pytest.mark.parametrize("n", [400, 60])
@pytest.mark.parametrize(("i", "scalar"), [(0, False), (0, True), (1, True)])
def test_posterior_by_quadrature(i, scalar, n):
    model, reference = problem(i, n, scalar)
    # The tails of a posterior of few rows are left after hundreds of updates only.
    step = step_of(model, FireflyMH, transitions=30 if n > 100 else 200)
    draws, _ = drive(step, model.initial_point(), tune=300, draws=4000, chains=2)
    assert_matches(draws, reference)


@pytest.mark.slow
def test_few_rows_are_read():
    rng, truth = np.random.default_rng(2), np.array([0.5, 0.3, -0.2, 0.1])
    rows = np.column_stack([np.ones(30_000), rng.normal(size=(30_000, 3))])
    y = rng.poisson(np.exp(rows @ truth)) * (rng.random(30_000) < 0.6)
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=4)
        pm.ZeroInflatedPoisson("y", chance(), exp(rows @ b), observed=y)
    options = dict(tune=200, draws=300, chains=1, random_seed=1, progressbar=False)
    idata = pm.sample(model=model, step=step_of(model), compute_convergence_checks=False, **options)
    assert idata.sample_stats["likelihood_queries"].mean() < 100
    error = idata.posterior["b"].mean(("chain", "draw")) - truth
    assert np.all(np.abs(error) < 5.0 * idata.posterior["b"].std(("chain", "draw")))
    assert abs(float(idata.posterior["psi"].mean()) - 0.6) < 0.02


@pytest.mark.slow
def test_real_data_against_nuts():
    """Quarters of an hour by which flights are late, most of which are not."""
    rows, y = late_flights(4000)
    with pm.Model() as model:
        b, g = (pm.Normal(name, 0.0, 1.0, shape=rows.shape[1]) for name in "bg")
        pm.ZeroInflatedPoisson("y", sigmoid(rows @ g), exp(rows @ b), observed=y)
    assert_match_nuts(model, step_of(model))
