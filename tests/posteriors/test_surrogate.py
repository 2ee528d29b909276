"""Surrogate moves: the density that they follow, and the exact posteriors that they sample."""

import functools

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import FireflyMH, Taylor
from pymc_flymc.kernels.layout import POWERS
from pymc_flymc.sampling.adaptation import SURROGATE, SurrogateAdaptation
from pymc_flymc.sampling.chain import FireflyChain
from pymc_flymc.sampling.tuning import Tuning
from pymc_flymc.steps.setup import read
from pymc_flymc.target.resampling import ImplicitResampling
from pymc_flymc.target.target import build_target
from tests.support.comparison import assert_matches, quadrature
from tests.support.data import log_sigmoid, logistic_rows
from tests.support.models import logistic_model, logistic_posterior, softmax_model
from tests.support.patches import no_row_kept_bright

SCHEME = ImplicitResampling()


def skewed():
    """One coefficient, few ones: far from normal."""
    X, y = 0.5 + np.random.default_rng(20).random((30, 1)), np.arange(30) < 1
    return logistic_model(X, y, 2.0), logistic_posterior(X, y, 2.0), 20.0


def regular():
    X, y = logistic_rows(300, [-1.0, 1.5], seed=20)
    return logistic_model(X, y, 2.0), logistic_posterior(X, y, 2.0), 20.0


def with_scale(prior, log_prior):
    """A coefficient that is a free scale times a normal variable: a funnel where data are few."""
    x, y = logistic_rows(40, [0.0, 0.7], seed=3)
    signed = x[:, 1] * (2.0 * y - 1.0)
    with pm.Model() as model:
        scale, z = prior("scale"), pm.Normal("z", 0.0, 1.0)
        pm.Bernoulli("y", logit_p=x[:, 1] * (scale * z), observed=y)

    def log_density(points):
        log_scale, z = points.T
        rows = log_sigmoid(np.outer(np.exp(log_scale) * z, signed)).sum(axis=1)
        return rows + log_prior(log_scale) - 0.5 * z**2

    return model, log_density, 20.0


def hierarchical():
    def log_prior(log_scale):
        return log_scale - 0.5 * np.exp(2.0 * log_scale)

    return with_scale(lambda name: pm.HalfNormal(name, 1.0), log_prior)


def horseshoe():
    def log_prior(log_scale):
        return log_scale - np.log1p(np.exp(2.0 * log_scale))

    return with_scale(lambda name: pm.HalfCauchy(name, 1.0), log_prior)


PROBLEMS = [skewed, regular, hierarchical, horseshoe]


@functools.cache
def problem_of(build):
    """The model as a step reads it, and its posterior by quadrature."""
    model, log_density, reach = build()
    reading = read(model, None, None, None, "auto")
    box = np.full(len(reading.theta), reach)
    return reading, quadrature(log_density, -box, box)


def target_of(reading, n_exact):
    (problem,) = reading.problems
    with no_row_kept_bright():
        return build_target(reading.graph, [problem], [Taylor()], SCHEME, 0, SURROGATE, n_exact)


def started(target, seed, repeats=2):
    chain = FireflyChain(target, SCHEME, SurrogateAdaptation().begin(target))
    chain.kernel_parameters.repeats[:] = repeats
    rng = np.random.default_rng(seed)
    assert chain.start_dispersed(rng)
    return chain, rng


def test_start_comes_in():
    """From where all rows are bright, with a weight that no proposal from there can match."""
    reading, _ = problem_of(regular)
    target = target_of(reading, 0)
    chain, rng = started(target, 1)
    chain.start(rng, np.full(2, 40.0))
    assert chain.is_far_out
    SurrogateAdaptation().started(chain, rng, dispersed=False)
    assert not chain.is_far_out


@pytest.mark.slow
def test_start_comes_in_with_moves_of_scales():
    """These are conditional, and give a chain a weight: not before it has come in."""
    X, y = logistic_rows(300, [-1.0, 1.5], seed=20)
    with pm.Model():
        z = pm.Normal("z", 0.0, 1.0, shape=2)
        pm.Bernoulli("y", logit_p=X @ (pm.HalfCauchy("tau", 1.0) * z), observed=y)
        step = FireflyMH(kernel="surrogate")
    step.setup_chain(np.random.default_rng(4), 0, 1)
    chain, rng = step.chain, np.random.default_rng(5)
    scales = chain.target.graph.scales
    theta = chain.state.theta.copy()
    theta[scales.scale], theta[scales.effects] = np.log(20.0), 20.0
    chain.start(rng, theta)
    assert chain.is_far_out
    SurrogateAdaptation().started(chain, rng, dispersed=False)
    assert not chain.is_far_out


def test_start_where_powers_are_infinite():
    """The rates of rows that are treated exactly are zero all the same."""
    x = np.linspace(-0.1, 0.1, 200)
    x[:2] = 10.0, -10.0
    with pm.Model() as model:
        a, b = pm.Normal("a", 0.0, 100.0), pm.Normal("b", 0.0, 100.0)
        pm.Poisson("y", pm.math.exp(a + b * x), observed=np.full(200, 2))
    target = target_of(read(model, None, None, None, "auto"), 6)
    chain = FireflyChain(target, SCHEME, SurrogateAdaptation().begin(target))
    # The first row's predictor stays where it is, those of most others are about -500.
    log_density = chain.start_at(np.random.default_rng(1), np.array([-500.0, 50.0]))
    assert np.isfinite(log_density)
    assert chain.state.w[-1] == np.inf


def test_given_start_stays():
    """One that was drawn is led on, for a few proposals; but not what somebody chose."""
    reading, _ = problem_of(regular)
    chain, rng = started(target_of(reading, 0), 1)
    at = chain.state.v.copy()
    SurrogateAdaptation().started(chain, rng, dispersed=False)
    np.testing.assert_array_equal(chain.state.v, at)
    SurrogateAdaptation().started(chain, rng, dispersed=True)
    assert np.all(chain.state.v != at)


def sample(target, seed, each, tune=300, draws=4000):
    chain, rng = started(target, seed)
    adaptation, tuning = SurrogateAdaptation(), Tuning(tune, each, 1, each, False)
    out = np.empty((draws, len(chain.state.v)))
    for _ in range(tune):
        chain.advance(rng, each, tuning.gain())
        window = tuning.record(chain.state.v, chain.n_bright)
        if window is not None:
            adaptation.end_window(chain, window[0], tuning.is_over)
    adaptation.end_tuning(chain)
    for i in range(draws):
        chain.advance(rng, each, 0.0)
        out[i] = chain.state.theta
    return out


@pytest.mark.parametrize(
    ("build", "share"),
    [
        # A horseshoe's trajectories are long, and mutants are caught by enumeration. All and no
        # rows treated exactly are for the slow suite.
        pytest.param(
            build,
            share,
            marks=() if share == 0.1 and build is not horseshoe else pytest.mark.slow,
        )
        for build in PROBLEMS
        for share in (0.0, 0.1, 1.0)
    ],
)
def test_matches_quadrature(build, share):
    reading, reference = problem_of(build)
    # Tails heavier than the surrogate's take their time, and a horseshoe's take a trajectory's.
    each = 60 if build is horseshoe else 15 if build is skewed and share < 1.0 else 5
    target = target_of(reading, int(share * reading.problems[0].design.n_rows))
    assert_matches(np.stack([sample(target, seed, each) for seed in (1, 2)]), reference)


def softmax():
    rng = np.random.default_rng(4)
    X = np.column_stack([np.ones(50), rng.normal(size=(50, 2))])
    return softmax_model(X, rng.integers(0, 3, 50), 3, reference=True)


def log_posterior_of(model, reading):
    """The model's own log density, as PyMC has it."""
    log_density = model.compile_logp()
    return lambda theta: float(log_density(reading.layout.unravel(theta)))


@pytest.mark.parametrize("n_exact", [0, 7, 50])
def test_surrogate_and_remainders_make_the_posterior(n_exact):
    """By hand: log q plus the remainders of all rows outside S is the log posterior."""
    model = softmax()
    reading = read(model, None, None, None, "auto")
    (problem,) = reading.problems
    target, whole = target_of(reading, n_exact), target_of(reading, 50)
    exact = log_posterior_of(model, reading)
    exact_rows = target.data.rows.constants[:, 0] == 0.0
    assert exact_rows.sum() == n_exact
    rng = np.random.default_rng(5)
    for _ in range(5):
        v = 0.7 * rng.standard_normal(len(reading.theta))
        chain, of_whole = (
            FireflyChain(t, SCHEME, SurrogateAdaptation().begin(t)) for t in (target, whole)
        )
        log_q, log_all = chain.start(rng, v), of_whole.start(rng, v)
        theta = chain.geometry.unstandardise(v)
        # With all rows in S, q is the posterior itself.
        np.testing.assert_allclose(log_all, exact(theta), rtol=1e-12)
        eta, at = (
            problem.design.predictor(w).T for w in (chain.state.w[: -len(POWERS)], problem.own.w)
        )
        value, first, second, *_ = problem.derivatives(at, problem.y)
        u = eta - at
        expansion = value + (first * u).sum(0) + 0.5 * np.einsum("ikn,in,kn->n", second, u, u)
        remainder = problem.derivatives(eta, problem.y)[0] - expansion
        np.testing.assert_allclose(log_q + remainder[~exact_rows].sum(), log_all, rtol=1e-11)


@pytest.mark.parametrize("n_exact", [0, 7])
def test_force_is_that_of_the_present_state(n_exact):
    """Else trajectories would not be reversible; after walks, trajectories, rejections alike."""
    reading = read(softmax(), None, None, None, "auto")
    chain, rng = started(target_of(reading, n_exact), 6)
    kept = []
    for _ in range(40):
        chain.advance(rng, 3, 0.0)
        force = chain.kernel_parameters.kept_force.copy()
        kept.append((force, chain.state.log_density[0], chain.state.v.copy()))
        chain.start(rng, chain.state.v.copy())  # evaluates all again
        again = chain.kernel_parameters.kept_force
        np.testing.assert_allclose(again, kept[-1][0], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(chain.state.log_density[0], kept[-1][1], rtol=1e-12)
    assert len(np.unique([v[0] for *_, v in kept])) > 10


def test_step_by_name():
    """``FireflyMH(kernel="surrogate")`` samples, and its chains can be told by their statistics."""
    X, y = logistic_rows(300, [-1.0, 1.5], seed=20)
    with logistic_model(X, y, 2.0):
        idata = pm.sample(
            step=FireflyMH(kernel="surrogate"),
            draws=200,
            tune=200,
            chains=1,
            cores=1,
            random_seed=1,
            progressbar=False,
        )
    stats = idata.sample_stats
    # Hardly ever all updates of a transition are random walks: all but the walks, 5 %, and four sds
    # of them.
    assert np.mean(stats["n_leapfrog_steps"] > 0) > 0.89
    assert np.all(stats["leapfrog_step_size"] > 0.0)
    assert np.all(np.isnan(stats["pcn_scale"]))
