"""The draws follow the posterior: quadrature, brightness given theta, joint test, long NUTS."""

import functools
import itertools
from dataclasses import replace
from typing import NamedTuple

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from conftest import (
    assert_matches,
    drive,
    log_sigmoid,
    logistic_posterior,
    quadrature,
    reference_from_draws,
    standardised,
)
from scipy import stats

from pymc_flymc import ExplicitResampling, FireflyMH, ImplicitResampling, JaakkolaJordan
from pymc_flymc.bounds import row_factor
from pymc_flymc.graphs.compilation import compile_log_factor
from pymc_flymc.kernels.geometry import dense_geometry
from pymc_flymc.kernels.metropolis import new_moves
from pymc_flymc.kernels.native import read_only
from pymc_flymc.kernels.rows import Rows
from pymc_flymc.likelihoods import LIKELIHOODS
from pymc_flymc.reading.flat import DensityGraph
from pymc_flymc.regression.quadratic import QuadraticStatistics, quadratic_size
from pymc_flymc.sampling.chain import FireflyChain
from pymc_flymc.sampling.choice import mixture
from pymc_flymc.target.data import Data
from pymc_flymc.target.resampling import Levels
from pymc_flymc.target.target import Target, TargetPart

SCHEMES = {
    "implicit-by-row": ImplicitResampling(),
    "implicit-single-q": ImplicitResampling(q=0.1),
    "with-replacement": ExplicitResampling(fraction=0.1, scheme="with_replacement"),
    "without-replacement": ExplicitResampling(fraction=0.1, scheme="without_replacement"),
    "cycle": ExplicitResampling(fraction=0.1, scheme="cycle"),
}
BOUNDS = {
    "untuned": JaakkolaJordan(xi=1.5, slack=0.0),
    "tuned": JaakkolaJordan(slack=0.0),
    "tuned-slack": JaakkolaJordan(),
}
PROPOSALS = ["auto", "random_walk", "pcn"]


# --- (a) quadrature ---------------------------------------------------------------------------


class Problem(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    prior_sd: float


def make_problem(name):
    rng = np.random.default_rng(20)
    if name == "skewed":  # one coefficient, few ones
        return Problem(0.5 + rng.random((30, 1)), np.arange(30) < 1, 2.0)
    if name == "separable":  # the prior alone keeps the slope finite
        x = np.sort(rng.normal(size=30))
        return Problem(np.column_stack([np.ones(30), x]), x > 0.1, 2.0)
    X = np.column_stack([np.ones(300), rng.normal(size=300)])
    y = rng.random(300) < np.exp(log_sigmoid(X @ [-1.0, 1.5]))
    return Problem(X, y, 2.0)


PROBLEMS = ["skewed", "separable", "regular"]


@pytest.fixture(scope="module")
def problems():
    """Each problem with its quadrature."""
    made = {name: make_problem(name) for name in PROBLEMS}
    out = {}
    for name, problem in made.items():
        box = np.full(problem.X.shape[1], 10.0 * problem.prior_sd)
        out[name] = problem, quadrature(logistic_posterior(*problem), -box, box)
    return out


@pytest.mark.parametrize("name", ["skewed", "separable"])
def test_skewed_problem_is_skewed(problems, name):
    """A normal law with the right mean and sd would fail the tests below."""
    values = problems[name][1].values
    off = [
        (values[level] - values["mean"]) / values["sd"] - stats.norm.ppf(level)
        for level in (0.05, 0.95)
    ]
    # A quantile's error at 5,000 effective draws is sqrt(0.05 * 0.95 / 5000) / 0.103 = 0.03 sd.
    assert np.max(np.abs(off)) > 4 * 0.03


@pytest.fixture(scope="module")
def sampled(problems):
    """``sampled(name, bound, scheme, proposal, ...)`` draws; a step is built once per bound."""

    @functools.cache
    def built(name, bound):
        X, y, prior_sd = problems[name][0]
        with pm.Model() as model:
            beta = pm.Normal("beta", 0.0, prior_sd, shape=X.shape[1])
            pm.Bernoulli("y", logit_p=X @ beta, observed=y)
            step = FireflyMH(bound=None if bound is None else BOUNDS[bound])
        return step, model.initial_point(), step.target.data.levels

    def draw(name, bound, scheme, proposal, seed, transitions):
        step, point, levels = built(name, bound)
        # What the constructor would do with brightness=, proposal= and transitions=.
        step.brightness, step._proposal, step._transitions = SCHEMES[scheme], proposal, transitions
        step._mixture = mixture(step.target, proposal)
        if bound is not None:
            q = getattr(SCHEMES[scheme], "q", None)
            n_rows = len(problems[name][0].y)
            step.target.data.levels = levels if q is None else Levels.single(q, n_rows)
        return drive(step, point, tune=200, draws=4000, chains=2, seed=seed)[0]

    return draw


# Every scheme meets every bound, every proposal every problem; the rest rotates. Only pCN is spared
# the skewed problem, whose tail is heavier than the Laplace approximation's: there it moves too
# rarely for 2,000 effective draws (its exactness is tested jointly below, and within "auto").
COMBINATIONS = [
    (PROBLEMS[(j + k) % 3], scheme, bound, "auto")
    for (j, scheme), (k, bound) in itertools.product(enumerate(SCHEMES), enumerate(BOUNDS))
] + [
    (name, list(SCHEMES)[(2 * i + 3 * j) % 5], list(BOUNDS)[(i + 2 * j) % 3], proposal)
    for (i, name), (j, proposal) in itertools.product(enumerate(PROBLEMS), enumerate(PROPOSALS[1:]))
    if (name, proposal) != ("skewed", "pcn")
]


@pytest.mark.parametrize(("name", "scheme", "bound", "proposal"), COMBINATIONS)
def test_posterior_by_quadrature(problems, sampled, name, scheme, bound, proposal):
    transitions = 40 if name == "regular" else 100  # a bound that touches is a wall to few rows
    draws = sampled(name, bound, scheme, proposal, seed=1, transitions=transitions)
    assert_matches(draws, problems[name][1])


@pytest.mark.parametrize(("name", "proposal"), list(zip(PROBLEMS, PROPOSALS, strict=True)))
def test_posterior_by_quadrature_without_bound(problems, sampled, name, proposal):
    draws = sampled(name, None, "implicit-by-row", proposal, seed=2, transitions=20)
    assert_matches(draws, problems[name][1])


# --- (b) brightness given theta -----------------------------------------------------------------

N_SWEEPS = 40_000
ALPHA = 1e-4


@pytest.fixture(scope="module")
def frozen():
    """A step on 40 rows, and a theta away from its anchor: all rows often bright, often dark."""
    rng = np.random.default_rng(3)
    X = np.column_stack([np.ones(40), 0.5 * rng.normal(size=40)])
    y = rng.random(40) < 0.5
    with pm.Model():
        beta = pm.Normal("beta", 0.0, 1.0, shape=2)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
        step = FireflyMH(bound=JaakkolaJordan(xi=0.5, slack=1.0))
    return step, X, y, np.array([3.5, 0.8])


def lagged_one(scheme, q, odds, n_rows):
    """Lag-one autocorrelation of each row's brightness from sweep to sweep."""
    if isinstance(scheme, ImplicitResampling):  # 1 - P(bright -> dark) - P(dark -> bright)
        return 1.0 - np.minimum(1.0, q / odds) - np.minimum(q, odds)
    size = scheme.fraction * n_rows
    missed = (1.0 - 1.0 / n_rows) ** size if scheme.scheme == "with_replacement" else 0.9
    return np.full(n_rows, missed)  # a Gibbs update forgets, so only rows not visited correlate


@pytest.mark.parametrize("name", SCHEMES)
def test_bright_frequencies(frozen, name):
    step, X, y, theta = frozen
    scheme, n_rows = SCHEMES[name], len(y)
    target, by_row = step.target, step.target.data.levels
    eta = X @ theta
    a, b, c = step.bounds[0].coefficients(np.full(n_rows, 0.5), y.astype(float), 0.0)
    log_likelihood = log_sigmoid(np.where(y, eta, -eta))
    # The slack is read off the second constant of each row, where the bound's own part is known.
    slack = (
        target.data.rows.constants[:, 1]
        - step.bounds[0].constants(np.full(n_rows, 0.5), y.astype(float), np.zeros(n_rows))[:, 1]
    )
    gap = log_likelihood - (c + b * eta - a * eta**2 - slack)
    p = -np.expm1(-gap)  # 1 - B/L
    q = by_row.q[by_row.level] if getattr(scheme, "q", None) is None else scheme.q
    moves = new_moves(2, np.array([1.0, 0.0, 0.0]))
    moves.log_scale[
        :
    ] = -np.inf  # a random walk of scale zero: theta is proposed to stay, and stays
    try:
        if getattr(scheme, "q", None) is not None:
            target.data.levels = Levels.single(scheme.q, n_rows)
        chain = FireflyChain(target, scheme, moves)
    finally:
        target.data.levels = by_row
    rng = np.random.default_rng(4)
    chain.start_at(rng, theta)
    z = np.zeros((N_SWEEPS, n_rows), bool)
    for t in range(N_SWEEPS):
        chain.advance(rng, 1, 0.0)
        z[t, chain.bright.index[: chain.n_bright]] = True
    np.testing.assert_allclose(chain.state.theta, theta, rtol=1e-14)

    if name == "cycle":  # each row is drawn afresh every ten sweeps, and independently
        effective = np.full(n_rows, N_SWEEPS / 10)
    else:
        rho = lagged_one(scheme, q, np.expm1(gap), n_rows)
        effective = N_SWEEPS * (1.0 - rho) / (1.0 + rho)
    assert np.min(effective * p * (1.0 - p)) > 100, "too few for a normal approximation"
    score = (z.mean(axis=0) - p) / np.sqrt(p * (1.0 - p) / effective)
    assert np.max(np.abs(score)) < stats.norm.isf(ALPHA / 2 / n_rows)
    # Rows are independent given theta: two-sided chi-square of the scores.
    total = stats.chi2(n_rows)
    assert total.ppf(ALPHA / 2) < np.sum(score**2) < total.isf(ALPHA / 2)
    if name.startswith("implicit"):
        # The moves are made at the rates of the algorithm, not just in the right proportion.
        darkened = np.sum(z[:-1] & ~z[1:], axis=0)
        tried = np.sum(z[:-1], axis=0)
        rate = np.minimum(1.0, q / np.expm1(gap))
        surprise = (darkened - tried * rate) / np.sqrt(np.maximum(tried * rate * (1 - rate), 1e-9))
        certain = rate == 1.0
        np.testing.assert_array_equal(darkened[certain], tried[certain])
        assert np.all(np.abs(surprise[~certain]) < stats.norm.isf(ALPHA / 2 / n_rows))


# --- (c) long NUTS runs -------------------------------------------------------------------------


def named_draws(idata, names):
    posterior = idata.posterior
    parts = [posterior[name].values for name in names]
    return np.concatenate([p.reshape(*p.shape[:2], -1) for p in parts], axis=2)


def compare_with_nuts(model, names, firefly, nuts, seed=5):
    shared = dict(model=model, cores=2, progressbar=False, random_seed=seed)
    with model:
        step = FireflyMH(**firefly.pop("step", {}))
    ours = pm.sample(step=step, chains=2, **firefly, **shared)
    theirs = pm.sample(nuts_sampler="pymc", chains=2, **nuts, **shared)
    assert_matches(named_draws(ours, names), reference_from_draws(named_draws(theirs, names)))


@pytest.mark.slow
@pytest.mark.parametrize("centred", [False, True])
def test_hierarchical_prior_against_nuts(centred):
    rng = np.random.default_rng(6)
    group = rng.integers(0, 6, 1500)
    Z, x = np.eye(6)[group], rng.normal(size=1500)
    effect = 0.8 * rng.normal(size=6)
    y = rng.random(1500) < np.exp(log_sigmoid(-0.5 + effect[group] + 0.7 * x))
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1.0)
        sigma = pm.HalfNormal("sigma", 1.0)
        slope = pm.Normal("slope", 0.0, 1.0)
        if centred:
            a = pm.Normal("a", mu, sigma, shape=6)
        else:
            raw = pm.Normal("raw", 0.0, 1.0, shape=6)
            a = pm.Deterministic("a", mu + sigma * raw)
        pm.Bernoulli("y", logit_p=Z @ a + slope * x, observed=y)
    compare_with_nuts(
        model,
        ["mu", "sigma", "slope", "a"],
        dict(tune=1500, draws=4000, step=dict(transitions=1000)),
        dict(tune=1500, draws=8000, target_accept=0.95),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["skin", "adult"])
def test_real_data_against_nuts(data, name):
    arrays = data(name)
    rows = slice(None) if name == "skin" else slice(3000)
    X, y = standardised(arrays["X"][rows]), arrays["y"][rows]
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=X.shape[1])
        pm.Bernoulli("y", logit_p=pm.math.dot(X, beta), observed=y)
    # A dense mass matrix for NUTS: with a diagonal one, 8,000 draws of "adult" are worth 700.
    compare_with_nuts(
        model,
        ["beta"],
        dict(tune=1000, draws=8000 if name == "skin" else 4000),
        dict(tune=1500, draws=4000, init="jitter+adapt_full"),
    )


# --- (d) joint test -------------------------------------------------------------------------

N_SIMULATIONS = 5000
N_ROWS = 8
JOINT_LEVEL = 1e-5
JOINT_CASES = list(itertools.product(["random_walk", "pcn"], SCHEMES))
JOINT_X = np.column_stack([np.ones(N_ROWS), np.linspace(-2.0, 2.5, N_ROWS)])
JOINT_XI = np.linspace(0.0, 3.0, N_ROWS)
JOINT_SLACK = np.linspace(0.0, 0.5, N_ROWS)


@pytest.fixture(scope="module")
def joint_target():
    """``joint_target(y)``: prior N(0, I), one graph and one compilation for all data sets."""
    theta = pt.vector("theta", shape=(2,), dtype="float64")
    others = pt.vector("others", shape=(0,), dtype="float64")
    graph = DensityGraph(theta, others, -0.5 * pt.sum(theta**2), (theta,), (2,))
    bound, (likelihood,) = (
        JaakkolaJordan(xi=JOINT_XI),
        (family for family in LIKELIHOODS if family.name == "bernoulli-logit"),
    )
    factor = compile_log_factor(row_factor(likelihood, bound))
    part = TargetPart(likelihood, bound, np.zeros(quadratic_size(None, 2)), N_ROWS, factor)
    template = Target(
        graph,
        (part,),
        0,
        dense_geometry(np.array([0.3, -0.2]), np.array([[0.8, 0.0], [0.3, 0.6]])),
        Data(Rows(JOINT_X, np.empty((0, 1)), 0, np.zeros((N_ROWS, 2))), None),
    )

    def make(y, scheme, tilt=0.0):
        statistics = QuadraticStatistics(np.array([0.1, 0.2]))
        a, b, c = bound.coefficients(JOINT_XI, y, 0.0)
        statistics.add(JOINT_X, JOINT_X @ statistics.centre, a * (1.0 + tilt), b, c - JOINT_SLACK)
        rows = Rows(
            read_only(JOINT_X),
            read_only(np.empty((0, 1))),
            0,
            read_only(bound.constants(JOINT_XI, y, JOINT_SLACK)),
        )
        q = getattr(scheme, "q", None)
        levels = (
            Levels.by_row(np.linspace(0.05, 0.9, N_ROWS)) if q is None else Levels.single(q, N_ROWS)
        )
        target = object.__new__(Target)  # the compiled functions of the template are kept
        target.__dict__ |= template.__dict__ | {
            "parts": (replace(part, statistics=statistics.pack()),),
            "data": Data(rows, levels),
        }
        return target

    return make


def joint_p_values(joint_target, proposal, scheme, tilt=0.0):
    """P-values of: theta after a few transitions has the law of the prior, jointly with y.

    theta ~ prior, y | theta, z | theta, y; then 12 transitions that ought to keep the law of
    (theta, y). All simulations are independent: the tests have the level that they state.
    """
    moves = new_moves(
        2, np.array([1.0, 0.0, 0.0] if proposal == "random_walk" else [0.0, 1.0, 0.0])
    )
    moves.log_scale[:] = np.log([1.5, 0.8])
    rng = np.random.default_rng(7)

    def simulate():
        theta = rng.standard_normal(2)
        return theta, (rng.random(N_ROWS) < np.exp(log_sigmoid(JOINT_X @ theta))).astype(float)

    def summary(theta, y):
        fit = np.sum(log_sigmoid((2.0 * y - 1.0) * (JOINT_X @ theta)))
        return *theta, fit, *(theta * (JOINT_X.T @ (y - 0.5)))

    fresh, after = [], []
    for _ in range(N_SIMULATIONS):
        theta, y = simulate()
        chain = FireflyChain(joint_target(y, scheme, tilt), scheme, moves)
        chain.start_at(rng, theta)
        chain.advance(rng, 12, 0.0)
        after.append(summary(chain.state.theta, y))
        fresh.append(summary(*simulate()))
    fresh, after = np.array(fresh), np.array(after)
    exact = [stats.kstest(after[:, d], "norm").pvalue for d in range(2)]
    return exact + [stats.ks_2samp(fresh[:, i], after[:, i]).pvalue for i in range(2, 5)]


@pytest.mark.parametrize(("proposal", "scheme"), JOINT_CASES)
def test_joint_law_is_kept(joint_target, proposal, scheme):
    p_values = joint_p_values(joint_target, proposal, SCHEMES[scheme])
    assert min(p_values) > JOINT_LEVEL / len(JOINT_CASES) / len(p_values)


def test_joint_test_has_power(joint_target):
    """Statistics whose curvature is 20 % off are found out: the level above leaves power."""
    p_values = joint_p_values(joint_target, "random_walk", SCHEMES["implicit-by-row"], tilt=0.2)
    assert min(p_values) < JOINT_LEVEL / len(JOINT_CASES) / len(p_values)


# --- (e) few rows -----------------------------------------------------------------------------


def bright_rows_on_mnist(data, bound, transitions, tune, draws):
    arrays = data("mnist_7v9_pca50")
    X = np.column_stack([np.ones(len(arrays["X"])), arrays["X"]]).astype(np.float64)
    y = arrays["y"]
    with pm.Model():
        beta = pm.Normal("beta", 0.0, 1.0, shape=51)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
        step = FireflyMH(bound=bound, transitions=transitions)
    rng = np.random.default_rng(8)
    geometry = step.target.geometry
    # From the Laplace approximation: the burn-in from an overdispersed start would cost too much.
    start = geometry.centre + geometry.factor @ rng.standard_normal(51)
    draws, drawn = drive(step, {"beta": start}, tune=tune, draws=draws)
    return X, y, step, draws, drawn


def mean_and_error(x):
    return x.mean(), float(az.mcse(np.atleast_2d(x), method="mean"))


def weighted_bright(X, y, geometry, xi, n=6000):
    """Posterior and Laplace means of the bright rows, with errors, by importance sampling."""
    v = np.random.default_rng(9).standard_normal((n, X.shape[1]))
    thetas = geometry.centre + v @ geometry.factor.T
    log_p = logistic_posterior(X, y, 1.0)
    log_weight = np.concatenate([log_p(part) for part in np.array_split(thetas, n // 50)])
    log_weight += 0.5 * np.sum(v**2, axis=1)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    assert 1.0 / np.sum(weight**2) > 2000
    bright = expected_bright(X, y, thetas, xi)
    mean = weight @ bright
    error = np.sqrt(np.sum((weight * (bright - mean)) ** 2))
    return mean, error, bright.mean(), bright.std() / np.sqrt(n)


@pytest.mark.parametrize("xi", [None, 1.5])
def test_few_rows_on_mnist(data, xi):
    transitions, tune, draws = (100, 200, 1500) if xi is None else (20, 100, 300)
    bound = JaakkolaJordan(xi=xi, slack=0.0)
    X, y, step, draws, drawn = bright_rows_on_mnist(data, bound, transitions, tune, draws)
    touches = np.abs(X @ step.target.geometry.centre) if xi is None else np.full(len(y), xi)
    posterior, posterior_error, laplace, laplace_error = weighted_bright(
        X, y, step.target.geometry, touches
    )
    # The trial's figures hold over the Laplace approximation. They are rounded (1 % of 54), and the
    # trial's search may have ended anywhere within a fraction of a posterior sd of our anchor: 3 %.
    trial = 54 if xi is None else 6040
    assert abs(laplace - trial) < 4 * laplace_error + 0.03 * trial
    # What the package predicts takes each row's gap as normal to second order; the mean gap is
    # exact at three nodes, 1 - exp(-gap) is not (Jensen): an estimate to a few per cent.
    assert step.target.parts[0].expected_bright == pytest.approx(laplace, rel=0.05)
    # The chain itself, against the exact posterior: nothing but Monte Carlo error.
    mean, error = mean_and_error(drawn["n_bright"])
    assert abs(mean - posterior) < 4 * np.hypot(error, posterior_error)
    # And z against its law given the very theta of each draw.
    mean, error = mean_and_error(drawn["n_bright"] - expected_bright(X, y, draws[0], touches))
    assert abs(mean) < 4 * error
    assert error < 0.02 * trial
    if xi is None:
        assert drawn["likelihood_queries"].sum() / drawn["transitions"].sum() < 120


def expected_bright(X, y, thetas, xi):
    """Sum over rows of 1 - B/L at each theta."""
    a, b, c = JaakkolaJordan().coefficients(xi, y.astype(float), 0.0)
    out = []
    for part in np.array_split(thetas, max(1, len(thetas) // 50)):
        eta = part @ X.T
        gap = log_sigmoid(np.where(y == 1, eta, -eta)) - (c + b * eta - a * eta**2)
        out.append(-np.expm1(-np.maximum(gap, 0.0)).sum(axis=1))
    return np.concatenate(out)
