"""Scales of effects written in the centred way: of few rows, whose posterior is a funnel."""

from functools import partial

import arviz as az
import numpy as np
import pymc as pm
import pytest
from scipy.special import expit
from scipy.stats import gumbel_r, moyal, norm, skewnorm, uniform

from pymc_flymc import FireflyHMC, FireflyMALA, FireflyMH, FireflySlice
from tests.posteriors.test_groups import intercepts_reference, random_intercepts
from tests.support.comparison import assert_matches
from tests.support.steps import drive, sample, step_of

SLOW = pytest.mark.slow
#: Two variables with the effects of five groups.
PARTS = [("a", 2), ("b", 3)]


@pytest.mark.parametrize(
    ("cls", "settings", "n_draws"),
    [
        pytest.param(FireflyMH, {}, 40_000, marks=SLOW),
        pytest.param(FireflyHMC, {}, 16_000, marks=SLOW),
        pytest.param(FireflyMH, {"kernel": "metropolis", "transitions": 20}, 20_000, marks=SLOW),
        pytest.param(FireflyMH, {"kernel": "joint"}, 60_000, marks=SLOW),
        pytest.param(FireflyMALA, {"transitions": 10}, 40_000, marks=SLOW),
        pytest.param(FireflySlice, {"transitions": 5}, 20_000, marks=SLOW),
        pytest.param(FireflyHMC, {"bound": None, "transitions": 5}, 20_000, marks=SLOW),
    ],
)
def test_small_scales_are_reached(cls, settings, n_draws):
    """Without moves of scales none was below exp(-2.2) in 20,000 draws, where 0.027 are."""
    model, group, y = random_intercepts(True, 5, 22)
    step = step_of(model, cls, **settings)
    draws, stats = drive(step, model.initial_point(), tune=500, draws=n_draws, chains=2)
    assert 0.1 < stats["rescaling_acceptance_probability"].mean() < 0.9
    log_tau, z = draws[..., :1], draws[..., 1:] * np.exp(-draws[..., :1])
    assert (log_tau < -3.2).mean() > 0.002
    for k, reference in enumerate(intercepts_reference(group, y)):
        assert_matches(np.concatenate([log_tau, z[..., k : k + 1]], axis=2), reference)


@pytest.mark.slow
def test_small_scales_that_two_variables_share_are_reached():
    """With moves of the effects of one variable at a time half as often as they should be."""
    _, group, y = random_intercepts(True, 5, 22)
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1.0)
        effects = pm.math.concatenate([pm.Normal(name, 0.0, tau, shape=n) for name, n in PARTS])
        pm.Bernoulli("y", logit_p=effects[group], observed=y)
    step = step_of(model, FireflyHMC)
    draws, _ = drive(step, model.initial_point(), tune=500, draws=20_000, chains=2)
    reference = intercepts_reference(group, y)[0]
    z = draws[..., 1:2] * np.exp(-draws[..., :1])
    assert_matches(np.concatenate([draws[..., :1], z], axis=2), reference)
    assert (draws[..., 0] < -3.2).mean() > 0.006


#: Logarithm of a small scale.
LOW = -3.0
#: Share of the draws below it that chains missed at the least before these scales were found.
MISSED = 0.68
#: Ways to write a scale, its logarithm by what is sampled, and the scale's distribution: else it is
#: log-normal.
WRITTEN = {
    "exp": lambda: pm.math.exp(pm.Normal("log_tau", 0.0, 1.5)),
    "multiple": lambda: 2.0 * pm.LogNormal("tau", -np.log(2.0), 1.5),
    "precision": lambda: 1.0 / pm.math.sqrt(pm.LogNormal("precision", 0.0, 3.0)),
    "one of two": lambda: pm.LogNormal("taus", 0.0, 1.5, shape=2)[np.zeros(5, int)],
    "interval": lambda: pm.Uniform("width", 0.0, 2.0),
}
LOG_SCALE = {
    "exp": lambda posterior: posterior["log_tau"],
    "multiple": lambda posterior: np.log(2.0 * posterior["tau"]),
    "precision": lambda posterior: -0.5 * np.log(posterior["precision"]),
    "one of two": lambda posterior: np.log(posterior["taus"][..., 0]),
    "interval": lambda posterior: np.log(posterior["width"]),
}
UNIFORM = {"interval": uniform(0.0, 2.0)}

#: Distributions of effects that are not normal, with a location and a scale, as PyMC and SciPy
#: have them.
SKEWED = {
    "Gumbel": (lambda name, mu, sigma, shape: pm.Gumbel(name, mu, sigma, shape=shape), gumbel_r()),
    "Moyal": (pm.Moyal, moyal()),
    "SkewNormal": (partial(pm.SkewNormal, alpha=3.0), skewnorm(3.0)),
}

#: Points that stand for a standard normal distribution, and their weights.
HERMITE = np.polynomial.hermite_e.hermegauss(201)


def funnel(scale, location=lambda: 0.0, family=pm.Normal):
    """Five groups, 22 rows: the model, and the groups and outcomes of rows."""
    rng = np.random.default_rng(7)
    group = np.concatenate([np.arange(5), rng.integers(0, 5, 17)])
    y = rng.integers(0, 2, 22)
    with pm.Model() as model:
        effects = family("a", mu=location(), sigma=scale(), shape=5)
        pm.Bernoulli("y", logit_p=effects[group], observed=y)
    return model, group, y


def share_below(limit, group, y, written, locations=((1.0, np.zeros(5)),), points=HERMITE):
    """Posterior probability of a smaller logarithm of the scale, by quadrature.

    `locations` are those of the groups, with the prior probability of each; `points` stand for the
    distribution of the effects, with a scale of one.
    """
    points, weights = points
    logs = np.linspace(-9.0, 7.0, 1601)
    log_p = norm.logpdf(logs, 0.0, 1.5)
    if written in UNIFORM:
        log_p = UNIFORM[written].logpdf(np.exp(logs)) + logs
    distances, total = np.exp(logs)[:, None] * points, np.zeros(len(logs))
    for probability, location in locations:
        product = np.full(len(logs), probability)
        for g in range(5):
            n, k = np.sum(group == g), np.sum(y[group == g])
            effects = location[g] + distances
            product *= np.exp(k * effects - n * np.logaddexp(0.0, effects)) @ weights
        total += product
    p = np.exp(log_p) * total
    return p[logs < limit].sum() / p.sum()


def assert_is_share(found, expected):
    """Compare a share of the draws, within its error, which what was missed is above."""
    error = np.sqrt(expected * (1.0 - expected) / float(az.ess(found)))
    assert abs(found.mean() - expected) < 4.0 * error
    assert 4.0 * error < MISSED * expected


@pytest.mark.slow
@pytest.mark.parametrize("written", WRITTEN)
def test_scales_that_are_computed_become_small(written):
    """Where they were not found a third at most of what belongs below exp(-3) was there."""
    model, group, y = funnel(WRITTEN[written])
    idata = sample(model, step_of(model, FireflyHMC), draws=4000, tune=500, chains=4)
    below = np.asarray(LOG_SCALE[written](idata.posterior)) < LOW
    assert_is_share(below, share_below(LOW, group, y, written))


@pytest.mark.slow
def test_effects_around_a_regression_become_small():
    """None of 16,000 draws was below exp(-3) before these locations were found."""
    levels = np.linspace(-1.0, 1.0, 5)
    model, group, y = funnel(
        lambda: pm.LogNormal("tau", 0.0, 1.5), lambda: 0.5 + pm.Normal("slope") * levels
    )
    idata = sample(model, step_of(model, FireflyHMC), draws=4000, tune=500, chains=4)
    below = np.log(idata.posterior["tau"].to_numpy()) < LOW
    slopes, weights = np.polynomial.hermite_e.hermegauss(21)
    locations = zip(weights, 0.5 + slopes[:, None] * levels, strict=True)
    assert_is_share(below, share_below(LOW, group, y, "exp", locations))


@pytest.mark.slow
@pytest.mark.parametrize("family", SKEWED)
def test_skewed_effects_become_small(family):
    """Of skew-normal ones none of the smallest 0.5 % were there before they had moves."""
    in_pymc, in_scipy = SKEWED[family]
    model, group, y = funnel(WRITTEN["exp"], family=in_pymc)
    idata = sample(model, step_of(model, FireflyHMC), draws=4000, tune=500, chains=4)
    below = idata.posterior["log_tau"].to_numpy() < LOW
    quantiles = in_scipy.ppf((np.arange(2000) + 0.5) / 2000)
    points = quantiles, np.full(2000, 1.0 / 2000)
    assert_is_share(below, share_below(LOW, group, y, "exp", points=points))


@pytest.mark.slow
@pytest.mark.parametrize("walk", [False, True], ids=["sum of zero", "random walk"])
def test_effects_that_are_not_independent_become_small(walk):
    """Three, of two dimensions: a sum of zero, or the steps from a first one that is known."""
    rng = np.random.default_rng(3)
    group, y = np.repeat(np.arange(3), 4), rng.integers(0, 2, 12)
    with pm.Model() as model:
        tau = pm.LogNormal("tau", 0.0, 1.5)
        if walk:
            first = pm.Normal.dist(0.0, 1e-4)
            effects = pm.GaussianRandomWalk("a", sigma=tau, init_dist=first, steps=2)
            basis = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
        else:
            effects = pm.ZeroSumNormal("a", sigma=tau, shape=3)
            basis = np.array([[1.0, 1.0], [-1.0, 1.0], [0.0, -2.0]]) / np.sqrt([2.0, 6.0])
        pm.Bernoulli("y", logit_p=effects[group], observed=y)
    idata = sample(model, step_of(model, FireflyHMC), draws=4000, tune=500, chains=4)
    below = np.log(idata.posterior["tau"].to_numpy()) < LOW
    points, weights = np.polynomial.hermite_e.hermegauss(61)
    grid = np.stack(np.meshgrid(points, points, indexing="ij")).reshape(2, -1)
    logs = np.linspace(-9.0, 7.0, 801)
    eta = np.exp(logs)[:, None, None] * (basis @ grid)[group]
    likelihood = np.exp(np.sum(y[:, None] * eta - np.logaddexp(0.0, eta), axis=1))
    p = norm.pdf(logs, 0.0, 1.5) * (likelihood @ np.outer(weights, weights).ravel())
    expected = p[logs < LOW].sum() / p.sum()
    assert_is_share(below, expected)


@pytest.mark.slow
def test_scales_that_are_products_become_small():
    """A horseshoe, centred, of a coefficient and one that the data hardly know: by NUTS."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(60, 2))
    y = rng.random(60) < expit(1.5 * X[:, 0])

    def shares(centred, step_of_model):
        with pm.Model() as model:
            scale = pm.HalfCauchy("tau", 1.0) * pm.HalfCauchy("local", 1.0, shape=2)
            if centred:
                beta = pm.Normal("beta", 0.0, scale)
            else:
                beta = pm.Deterministic("beta", scale * pm.Normal("z", shape=2))
            pm.Bernoulli("y", logit_p=X @ beta, observed=y.astype(int))
        posterior = sample(model, step_of_model(model), draws=20_000, tune=1500, chains=4).posterior
        seldom = (
            posterior["tau"] < np.exp(-2.5),
            posterior["local"][..., 1] < np.exp(-3.0),
            posterior["local"][..., 1] > np.exp(3.0),
            abs(posterior["beta"][..., 1]) < 0.02,
        )
        found = np.stack([np.asarray(each, float) for each in seldom], axis=-1)
        return found.mean(axis=(0, 1)), az.ess(found)

    ours, n_ours = shares(True, lambda model: step_of(model, FireflyHMC))
    others, n_others = shares(False, lambda model: pm.NUTS(target_accept=0.98, model=model))
    p = 0.5 * (ours + others)
    error = np.sqrt(p * (1.0 - p) * (1.0 / n_ours + 1.0 / n_others))
    assert np.all(np.abs(ours - others) < 4.0 * error)


@pytest.mark.slow
def test_correlated_effects_become_small():
    """As those that are written without a centre, whose scales are free: by NUTS."""
    rng = np.random.default_rng(5)
    group, x, y = np.repeat(np.arange(6), 4), rng.normal(size=24), rng.integers(0, 2, 24)

    def small(centred, step_of_model):
        with pm.Model() as model:
            chol, *_ = pm.LKJCholeskyCov("c", n=2, eta=2.0, sd_dist=pm.HalfNormal.dist(1.0))
            if centred:
                effects = pm.MvNormal("a", 0.0, chol=chol, shape=(6, 2))
            else:
                effects = pm.Normal("z", 0.0, 1.0, shape=(6, 2)) @ chol.T
            eta = effects[:, 0][group] + effects[:, 1][group] * x
            pm.Bernoulli("y", logit_p=eta, observed=y)
        idata = sample(model, step_of_model(model), draws=10_000, tune=1000, chains=4)
        found = idata.posterior["c_stds"].to_numpy() < np.exp(-2.0)
        return found.mean(axis=(0, 1)), [float(az.ess(found[..., k])) for k in range(2)]

    ours, n_ours = small(True, lambda model: step_of(model, FireflyHMC))
    others, n_others = small(False, lambda model: pm.NUTS(target_accept=0.95, model=model))
    p = 0.5 * (ours + others)
    error = np.sqrt(p * (1.0 - p) * (1.0 / np.array(n_ours) + 1.0 / np.array(n_others)))
    assert np.all(np.abs(ours - others) < 4.0 * error)
    # Of the second scale, without moves of its own, hardly half as many were below, or twice.
    assert np.all(4.0 * error < 0.5 * p)


@pytest.mark.slow
@pytest.mark.parametrize("found", [True, False])
def test_a_chain_that_misses_small_scales_says_so(found, caplog):
    # Effects around a positive variable are left out.
    not_found = funnel(WRITTEN["exp"], lambda: pm.HalfNormal("m", 1e-3))[0]
    model = random_intercepts(True, 5, 22)[0] if found else not_found
    step = step_of(model, FireflyHMC, transitions=2)
    idata = sample(model, step, draws=2000, tune=500, chains=4)
    said = [each for each in caplog.messages if "tau" in each and "is smallest, its" in each]
    assert bool(said) != found
    assert np.isfinite(idata.sample_stats["rescaling_acceptance_probability"]).all() == found
