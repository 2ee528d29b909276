"""Random intercepts by quadrature, and against NUTS."""

from functools import partial

import arviz as az
import numpy as np
import pymc as pm
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import log_ndtr, logsumexp
from scipy.stats import poisson

from pymc_flymc import FireflyHMC, FireflyMH, JaakkolaJordan, Taylor
from pymc_flymc.bounds import TaylorInParts
from pymc_flymc.sampling import choice
from tests.support.comparison import N_ERRORS, assert_matches, quadrature
from tests.support.data import log_sigmoid
from tests.support.nuts import assert_match_nuts
from tests.support.steps import drive

LOG_TAU = np.linspace(-12.0, 2.0, 561)
Z = np.linspace(-8.0, 8.0, 641)
#: Standard deviation of log tau under a prior that leaves no funnel.
SURE = 0.3


def log_likelihood(family, y, eta):
    """Log-likelihoods, but for what depends on y alone."""
    if family == "poisson":
        return y * eta - np.exp(eta)
    log_link = log_sigmoid if family == "logistic" else log_ndtr
    return y * log_link(eta) + (1 - y) * log_link(-eta)


def random_intercepts(centred, n_groups, n, family="logistic", sure=False, empty=0):
    """Model, groups and outcomes; so many groups without rows come first."""
    rng = np.random.default_rng(7)
    group = np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, n - n_groups)])
    uniform, eta = rng.random(n), 1.2 * rng.normal(size=n_groups)[group]
    y = (uniform < np.exp(log_sigmoid(eta))).astype(int)
    if family == "poisson":
        y = poisson.ppf(uniform, np.exp(eta)).astype(int)
    group, n_groups = group + empty, n_groups + empty
    with pm.Model() as model:
        tau = pm.LogNormal("tau", 0.0, SURE) if sure else pm.HalfNormal("tau", 1.0)
        if centred:
            effects = pm.Normal("a", 0.0, tau, shape=n_groups)
        else:
            effects = tau * pm.Normal("z", 0.0, 1.0, shape=n_groups)
        if family == "poisson":
            pm.Poisson("y", mu=pm.math.exp(effects[group]), observed=y)
        elif family == "probit":
            pm.Bernoulli("y", p=pm.math.invprobit(effects[group]), observed=y)
        else:
            pm.Bernoulli("y", logit_p=effects[group], observed=y)
    return model, group, y


def intercepts_reference(group, y, family="logistic", sure=False):
    """References for (log tau, z) of each group: given tau the groups are independent."""
    n_groups = int(group.max()) + 1

    def log_terms(z, log_tau, k):
        effect, (values, counts) = z * np.exp(log_tau), np.unique(y[group == k], return_counts=True)
        log_l = sum(
            count * log_likelihood(family, value, effect)
            for value, count in zip(values, counts, strict=True)
        )
        return log_l - 0.5 * z**2 + 0.0 * effect  # of no row, too, for each scale

    log_z = [logsumexp(log_terms(Z[:, None], LOG_TAU, k), axis=0) for k in range(n_groups)]

    def make(k):
        others = np.sum([each for i, each in enumerate(log_z) if i != k], axis=0)

        def log_density(points):
            log_tau, z = points.T
            prior = log_tau - 0.5 * np.exp(2.0 * log_tau)  # half-normal, with the Jacobian
            if sure:
                prior = -0.5 * (log_tau / SURE) ** 2
            return prior + log_terms(z, log_tau, k) + np.interp(log_tau, LOG_TAU, others)

        return log_density

    return [quadrature(make(k), [-12.0, -8.0], [2.0, 8.0]) for k in range(n_groups)]


def check_intercepts(draws, centred, group, y):
    """The scale, and each effect over it, have their distributions by quadrature."""
    log_tau, z = draws[..., :1], draws[..., 1:]
    if centred:
        z = z * np.exp(-log_tau)
    for k, reference in enumerate(intercepts_reference(group, y)):
        assert_matches(np.concatenate([log_tau, z[..., k : k + 1]], axis=2), reference)


@pytest.mark.slow
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("many", [False, True])
def test_random_intercepts_by_quadrature(centred, many, request):
    """Free scale; with the group effects in one dense factor, and wide."""
    if many:
        request.getfixturevalue("structured")
    model, group, y = random_intercepts(centred, 5, 150)
    with model:
        step = FireflyMH(transitions=200)
    assert len(step.target.geometry.diagonal) == 5 * many
    draws, _ = drive(step, model.initial_point(), tune=300, draws=2000, chains=2)
    check_intercepts(draws, centred, group, y)


@pytest.mark.slow
@pytest.mark.parametrize("centred", [True, False])
def test_local_sweeps_by_quadrature(centred):
    """Of few rows, and groups of three to seven: effects are held back by what is bright."""
    model, group, y = random_intercepts(centred, 5, 22)
    with model:
        bound = JaakkolaJordan(xi=3.0, slack=0.5)  # touches far out: more rows are bright
        step = FireflyMH(kernel="local", bound=bound, transitions=25)
    assert set(np.bincount(group)) >= {3, 7}
    draws, stats = drive(step, model.initial_point(), tune=300, draws=2500, chains=2)
    assert stats["n_bright"].mean() > 2.0
    # Steps as long as this are accepted only if forces are the gradient.
    assert stats["leapfrog_step_size"].min() > 0.5 < stats["acceptance_probability"].mean()
    check_intercepts(draws, centred, group, y)


@pytest.mark.slow
@pytest.mark.parametrize("centred", [True, False])
def test_local_sweeps_as_chosen_by_quadrature(centred, monkeypatch):
    """With groups without rows: a scale hardly moves while the effects of these stay."""
    monkeypatch.setattr(choice, "MANY_GROUPS", 3)
    model, group, y = random_intercepts(centred, 5, 22, empty=4)
    with model:
        step = FireflyMH(transitions=25)
    assert step.target.spec.name == "local"
    draws, _ = drive(step, model.initial_point(), tune=300, draws=6000, chains=2)
    check_intercepts(draws, centred, group, y)


#: Levels of quantiles of a scale, with tails that few draws are in.
LEVELS = np.array([0.001, 0.01, 0.05, 0.5, 0.95, 0.99, 0.999])
#: Mean of effects that do not differ.
MEAN = 0.4


def effects_that_do_not_differ(n_groups, seed, mean):
    """Many groups of three rows: where the scale of effects is large its density falls steeply."""
    group = np.arange(3 * n_groups) % n_groups
    y = np.random.default_rng(seed).binomial(1, 1.0 / (1.0 + np.exp(-MEAN)), len(group))
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1.0)
        a = pm.Normal("a", mean(), tau, shape=n_groups)
        pm.Bernoulli("y", logit_p=a[group], observed=y)
        step = FireflyMH(kernel="local", transitions=3)
    return model, step, np.bincount(group, y)


@pytest.mark.slow
def test_scale_of_effects_that_do_not_differ_by_quadrature():
    """With such a scale, effects might be rounded to their mean, which is given here."""
    model, step, successes = effects_that_do_not_differ(1500, 10, lambda: MEAN)
    draws, _ = drive(step, model.initial_point(), tune=500, draws=20_000, chains=2)
    log_tau, (nodes, weights) = draws[..., 0], hermegauss(61)
    eta = MEAN + np.exp(LOG_TAU)[:, None] * nodes
    log_density = LOG_TAU - 0.5 * np.exp(2.0 * LOG_TAU)
    for k, n in zip(*np.unique(successes, return_counts=True), strict=True):
        log_l = k * log_sigmoid(eta) + (3.0 - k) * log_sigmoid(-eta)
        log_density += n * np.log(np.exp(log_l) @ weights)
    p = np.exp(log_density - log_density.max())
    ends = np.interp(LEVELS, (np.cumsum(p) - 0.5 * p) / p.sum(), LOG_TAU)
    below = (log_tau[..., None] <= ends).astype(float)
    # Of few draws in a tail the variance among draws says little, and what it would be is known.
    ess = np.fmin(az.ess(below), az.ess(log_tau))
    z = (below.mean((0, 1)) - LEVELS) / np.sqrt(LEVELS * (1.0 - LEVELS) / ess)
    assert np.all(np.abs(z) < N_ERRORS), z


def effects_of_known_scale(noise, n_groups=12):
    """Of a row each under Laplace noise, and no other parameter; a step and density on a grid."""
    with pm.Model() as model:
        a = pm.Normal("a", 0.2, 1.5, shape=n_groups)
        pm.Laplace("y", a[np.arange(n_groups)], noise, observed=np.zeros(n_groups))
        step = FireflyMH(kernel="local", transitions=4)
    grid = np.linspace(-40.0 * noise, 40.0 * noise, 40_001)
    return model, step, grid, -np.abs(grid) / noise - 0.5 * ((grid - 0.2) / 1.5) ** 2


@pytest.mark.slow
@pytest.mark.parametrize("noise", [1.0, 0.03])
def test_effects_of_known_scale_by_quadrature(noise):
    """With little noise a bound touches the peak, and is far narrower than the posterior.

    Effects that went out in small steps stayed within the posterior's sd.
    """
    model, step, grid, log_p = effects_of_known_scale(noise)
    draws, _ = drive(step, model.initial_point(), tune=200, draws=2000, chains=2)
    effects = draws.transpose(0, 2, 1).reshape(-1, 2000)  # of independent chains, all alike
    p = np.exp(log_p - log_p.max())
    ends = np.interp(LEVELS, (np.cumsum(p) - 0.5 * p) / p.sum(), grid)
    below = (effects[..., None] <= ends).astype(float)
    ess = np.array([az.ess(below[..., i]) for i in range(len(LEVELS))])
    z = (below.mean((0, 1)) - LEVELS) / np.sqrt(LEVELS * (1.0 - LEVELS) / ess)
    assert np.all(np.abs(z) < N_ERRORS), z


@pytest.mark.slow
def test_a_chain_leaves_the_upper_tail_of_a_scale():
    """Which a draw in ten thousand is in. With steps that fit all else it stayed for hundreds."""
    mean = partial(pm.Normal, "mu")
    model, step, _ = effects_that_do_not_differ(5000, 1, mean)
    drive(step, model.initial_point(), tune=1000, draws=1)
    rng, names = np.random.default_rng(3), list(model.initial_point())
    assert names == ["tau_log__", "mu", "a"]
    start = np.r_[np.log(0.33), np.full(1 + 5000, MEAN)]
    for _ in range(12):
        step.chain.start_at(rng, start)
        step.chain.advance(rng, 100, 0.0)
        assert step.chain.state.theta[0] != start[0]


@pytest.mark.slow
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("family", ["poisson", "probit"])
def test_a_radius_for_each_part_by_quadrature(family, many, request):
    """The Taylor bound of effects, for few rows: under a Poisson likelihood many are bright.

    In a funnel conditional moves are slow under this bound, whose gaps grow with cubed distances.
    """
    if many:
        request.getfixturevalue("structured")
    model, group, y = random_intercepts(False, 5, 60, family, sure=True)
    with model:
        step = FireflyMH(kernel="metropolis", bound=Taylor(), transitions=300)
    assert isinstance(step.bounds[0], TaylorInParts)
    draws, stats = drive(step, model.initial_point(), tune=300, draws=8000, chains=2)
    assert stats["n_bright"].mean() > 0.1
    for k, reference in enumerate(intercepts_reference(group, y, family, sure=True)):
        assert_matches(draws[..., [0, k + 1]], reference)


@pytest.mark.slow
@pytest.mark.parametrize("centred", [True, False])
def test_many_random_intercepts_against_nuts(centred):
    """More groups than one dense factor holds, and slopes."""
    rng = np.random.default_rng(8)
    n_groups, n = 400, 8000
    group, x = rng.integers(0, n_groups, n), rng.normal(size=(n, 3))
    eta = 0.5 + rng.normal(size=n_groups)[group] + x @ [1.0, -0.5, 0.0]
    y = (rng.random(n) < np.exp(log_sigmoid(eta))).astype(int)
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0.0, 1.0), pm.HalfNormal("tau", 1.0)
        beta = pm.Normal("beta", 0.0, 1.0, shape=3)
        if centred:
            a = pm.Normal("a", mu, tau, shape=n_groups)
        else:
            z = pm.Normal("z", 0.0, 1.0, shape=n_groups)
            a = pm.Deterministic("a", mu + tau * z)
        pm.Bernoulli("y", logit_p=a[group] + x @ beta, observed=y)
        step = FireflyHMC()
    names = ["mu", "tau", "beta", "a"]
    assert_match_nuts(model, step, tune=1500, draws=15_000, nuts=dict(draws=6000), names=names)
