"""Random intercepts by quadrature, and against NUTS."""

import numpy as np
import pymc as pm
import pytest
from scipy.special import log_ndtr, logsumexp
from scipy.stats import poisson

from pymc_flymc import FireflyHMC, FireflyMH, JaakkolaJordan, Taylor
from pymc_flymc.bounds import TaylorInParts
from tests.support.comparison import assert_matches, quadrature
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


def random_intercepts(centred, n_groups, n, family="logistic", sure=False):
    rng = np.random.default_rng(7)
    group = np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, n - n_groups)])
    uniform, eta = rng.random(n), 1.2 * rng.normal(size=n_groups)[group]
    y = (uniform < np.exp(log_sigmoid(eta))).astype(int)
    if family == "poisson":
        y = poisson.ppf(uniform, np.exp(eta)).astype(int)
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
        return log_l - 0.5 * z**2

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
    log_tau, z = draws[..., :1], draws[..., 1:]
    if centred:
        z = z * np.exp(-log_tau)
    for k, reference in enumerate(intercepts_reference(group, y)):
        assert_matches(np.concatenate([log_tau, z[..., k : k + 1]], axis=2), reference)


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
    log_tau, z = draws[..., :1], draws[..., 1:]
    if centred:
        z = z * np.exp(-log_tau)
    for k, reference in enumerate(intercepts_reference(group, y)):
        assert_matches(np.concatenate([log_tau, z[..., k : k + 1]], axis=2), reference)


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
