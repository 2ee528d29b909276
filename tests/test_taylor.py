"""The Taylor bound and the joint kernel: laws of the bound, of its brightness, of its draws."""

from dataclasses import replace

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from conftest import (
    assert_matches,
    drive,
    from_python,
    logistic_posterior,
    quadrature,
    reference_from_draws,
    standardised,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pymc_flymc import FireflyMH, ImplicitResampling, JaakkolaJordan, Taylor
from pymc_flymc.bounds import row_factor
from pymc_flymc.graphs.compilation import compile_log_factor
from pymc_flymc.kernels.native import read_only
from pymc_flymc.kernels.poisson import SPARE, AliasTables, alias_table, draw_bright, sort
from pymc_flymc.kernels.rows import Rows
from pymc_flymc.likelihoods import BernoulliLogit
from pymc_flymc.target.target import _alias_tables

draw_bright, sort = from_python(draw_bright), from_python(sort)

draw_bright, sort = from_python(draw_bright), from_python(sort)


def derivative(order, eta):
    """Third and fourth derivatives of -log(1 + exp(eta)), from p = sigmoid(eta)."""
    p, q = 1.0 / (1.0 + np.exp(-eta)), 1.0 / (1.0 + np.exp(eta))
    return -p * q * (q - p) if order == 3 else -p * q * (1.0 - 6.0 * p * q)


@given(order=st.sampled_from([3, 4]), a=st.floats(-20, 20), width=st.floats(0, 30))
def test_derivative_bound_is_the_supremum(order, a, width):
    grid = np.linspace(a, a + width, 4001)
    largest = np.max(np.abs(derivative(order, grid)))
    bound = float(BernoulliLogit().derivative_bound(order, a, a + width, np.zeros(1)))
    # The grid may miss the supremum by its spacing, squared, times a derivative below one.
    assert largest <= bound * (1 + 1e-12) + 1e-16
    assert bound <= largest + (width / 4000) ** 2 + 1e-12


def build(X, y, bound, prior_sd=1.0, **settings):
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, prior_sd, shape=X.shape[1])
        pm.Bernoulli("y", logit_p=pm.math.dot(X, beta), observed=y)
        return model, FireflyMH(bound=bound, **settings)


def simulated(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, d - 1))])
    theta = rng.normal(size=d) * 1.5 / np.sqrt(d)
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-X @ theta))).astype(int)


def gaps(step, X, y, theta):
    """Gaps of all rows at theta from the definition, with the bound's own constants."""
    target = step.target
    w = np.empty(X.shape[1] + 3)
    log_density = target.density(theta, target.statistics, w)
    power, far, rate = w[-3:]
    near, beyond, labels, anchor = target.data.rows.constants.T
    np.testing.assert_array_equal(labels, y)
    u, p = X @ theta - anchor, 1.0 / (1.0 + np.exp(-anchor))
    at = y * anchor - np.logaddexp(0.0, anchor)
    expansion = at + (y - p) * u - 0.5 * p * (1.0 - p) * u**2
    if step.bounds[0].order == 3:
        expansion += derivative(3, anchor) * u**3 / 6.0
    kappa = beyond if far else near
    eta = X @ theta
    log_likelihood = y * eta - np.logaddexp(0.0, eta)
    log_bound = expansion - kappa * power
    # Rounding errors of the terms that are subtracted.
    rounding = 16 * np.finfo(float).eps * (1 + np.abs(eta) + np.abs(anchor) + u**2 + np.abs(u) ** 3)
    return log_likelihood - log_bound, log_bound, rounding, log_density, kappa.sum() * power, rate


@pytest.fixture(scope="module", params=[2, 3])
def prepared(request):
    X, y = simulated(500, 4)
    return build(X, y, Taylor(request.param))[1], X, y


@settings(max_examples=200)
@given(v=st.lists(st.floats(-1, 1), min_size=4, max_size=4), scale=st.floats(0.0, 300.0))
def test_bound_is_below_the_likelihood_and_collapses(prepared, v, scale):
    step, X, y = prepared
    geometry = step.target.geometry
    theta = geometry.centre + scale * (geometry.factor @ np.array(v))
    gap, log_bound, rounding, log_density, total, rate = gaps(step, X, y, theta)
    assert np.all(gap >= -rounding)
    prior = np.sum(stats.norm.logpdf(theta))
    size = np.abs(prior) + np.sum(np.abs(log_bound)) + total
    assert log_density == pytest.approx(prior + np.sum(log_bound), abs=1e-10 * size)
    assert rate == pytest.approx(total, rel=1e-10)


def test_bound_touches_at_the_anchor(prepared):
    step, X, y = prepared
    gap, _, rounding, *_ = gaps(step, X, y, step.target.geometry.centre)
    assert np.all(np.abs(gap) <= rounding + 1e-12)


DATA = [
    ("mnist_7v9_pca50", None),
    ("skin", 60_000),
    ("adult", None),
    ("covtype_92k", 40_000),
    ("kddcup99_10pct", 60_000),
    ("flights_pnw", 60_000),
]


@pytest.mark.slow
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize(("name", "rows"), DATA)
def test_no_gap_is_negative_on_real_data(data, name, rows, order):
    arrays = data(name)
    X, y = standardised(arrays["X"][:rows]), arrays["y"][:rows]
    if name == "covtype_92k":
        y = (y == 1).astype(int)
    if name == "flights_pnw":
        y = (y > 15).astype(int)
    _, step = build(X, y, Taylor(order))
    geometry, rng = step.target.geometry, np.random.default_rng(0)
    for scale in (0.1, 1.0, 1.0, 3.0, 30.0):
        theta = geometry.centre + scale * (geometry.factor @ rng.standard_normal(X.shape[1]))
        gap, _, rounding, *_ = gaps(step, X, y, theta)
        assert np.all(gap >= -rounding)


# --- brightness -------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", ["uneven", "with zeros", "all zero"])
def test_alias_table_has_the_right_law(weights):
    w = np.random.default_rng(1).exponential(size=400) ** 3
    if weights == "with zeros":
        w[::3] = 0.0
    if weights == "all zero":
        w[:] = 0.0
    threshold, alias = np.empty(len(w)), np.empty(len(w), np.int32)
    alias_table(w, threshold, alias)
    # Probability of each row, from the table: its own threshold and what others leave to it.
    law = threshold.copy()
    np.add.at(law, alias, 1.0 - threshold)
    expected = w / w.sum() if w.sum() > 0 else np.full(len(w), 1.0 / len(w))
    np.testing.assert_allclose(law / len(w), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("n", [0, 1, 2, 5, 1000])
def test_rows_drawn_are_sorted(n):
    drawn = np.random.default_rng(n).integers(0, 1 + n // 2, n + 4).astype(np.int32)
    expected = drawn.copy()
    expected[2 : 2 + n].sort()
    sort(drawn, 2, 2 + n)
    np.testing.assert_array_equal(drawn, expected)


@pytest.mark.parametrize("power", [0.02, 3.0])
@pytest.mark.parametrize("far", [0.0, 1.0])
def test_rows_are_bright_with_the_right_probability(power, far):
    """Heavy rows, rows drawn by Poisson counts, and (power 3) the visit to all rows."""
    rng = np.random.default_rng(2)
    n, draws = 60, 40_000
    near = rng.exponential(size=n) ** 2
    near[:4] = 60.0
    constants = np.column_stack([near, 1.5 * near, np.zeros((n, 2))])
    tables = _alias_tables(constants, (-np.expm1(-near * 0.02)).astype(np.float32))
    assert len(tables.heavy) == 4
    assert isinstance(tables, AliasTables) and len(tables.drawn) == n + SPARE
    rows = Rows(read_only(np.zeros((n, 1))), read_only(np.empty((0, 1))), 0, read_only(constants))
    kappa = constants[:, 1 if far else 0]
    shared = np.array([power, far, kappa.sum() * power])
    counts, pairs = np.zeros(n), 0
    for _ in range(draws):
        count = draw_bright(rng, tables, rows, shared)
        members = tables.drawn[:count]
        assert len(set(members.tolist())) == count
        counts[members] += 1
        pairs += count**2
    p = -np.expm1(-kappa * power)
    score = (counts / draws - p) / np.sqrt(p * (1 - p) / draws)
    score = score[(p * draws > 20) & ((1 - p) * draws > 20)]
    assert np.max(np.abs(score)) < stats.norm.isf(1e-5 / len(score))
    np.testing.assert_array_equal(counts[p > 1 - 1e-12], draws)
    # Independence: the variance of the number of bright rows is the sum of the rows' variances.
    variance = pairs / draws - (counts.sum() / draws) ** 2
    assert variance == pytest.approx(np.sum(p * (1 - p)), rel=6 * np.sqrt(2 / draws))


# --- draws ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def problems():
    rng = np.random.default_rng(20)
    skewed = 0.5 + rng.random((30, 1)), (np.arange(30) < 1).astype(int)
    out = {}
    for name, (X, y) in {"skewed": skewed, "regular": simulated(400, 2)}.items():
        box = np.full(X.shape[1], 20.0)
        out[name] = X, y, quadrature(logistic_posterior(X, y, 2.0), -box, box)
    return out


# Independent proposals alone are spared the skewed problem: its tails are heavier than theirs.
CASES = [("skewed", p) for p in ("auto", "pcn", "random_walk")]
CASES += [("regular", p) for p in ("auto", "independent", "pcn", "random_walk")]


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize(("name", "proposal"), CASES)
def test_posterior_by_quadrature(problems, name, proposal, order):
    X, y, reference = problems[name]
    transitions = {"auto": 5, "independent": 10, "pcn": 20, "random_walk": 40}[proposal]
    if name == "skewed":
        transitions *= 4  # thirty rows: far from normal
    model, step = build(
        X, y, Taylor(order), prior_sd=2.0, proposal=proposal, transitions=transitions
    )
    draws, drawn = drive(step, model.initial_point(), tune=200, draws=4000, chains=2)
    assert_matches(draws, reference)
    assert np.all(drawn["n_bright"] <= len(y))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adult", "covtype_92k"])
def test_joint_moves_against_nuts(data, name):
    """Quantitative predictors only: with rare categories joint moves are not what "auto" takes."""
    arrays = data(name)
    X, y = arrays["X"], arrays["y"]
    X = standardised(X[:, [len(np.unique(column)) > 10 for column in X.T]])
    model, step = build(X, (y == 1).astype(int), Taylor())
    options = dict(model=model, chains=2, cores=2, progressbar=False, random_seed=3)
    ours = pm.sample(step=step, tune=500, draws=6000, **options)
    theirs = pm.sample(
        tune=700, draws=2500, nuts_sampler="pymc", init="jitter+adapt_full", **options
    )
    assert_matches(
        ours.posterior["beta"].to_numpy(), reference_from_draws(theirs.posterior["beta"].to_numpy())
    )


@pytest.mark.parametrize("proposal", ["independent", "pcn", "random_walk"])
def test_odds_that_overflow_are_not_accepted(proposal):
    """From an infinite weight no chain would ever come back."""
    X, y = simulated(400, 2)
    model, step = build(X, y, Taylor(), proposal=proposal)
    target, (part,) = step.target, step.target.parts
    odds = row_factor(part.likelihood, part.bound)
    eta = odds.predictors[0]
    odds.value = pt.switch(pt.tensor_from_scalar(eta) > 0.5, np.inf, odds.value)
    target.parts = (replace(part, log_factor=compile_log_factor(odds)),)
    step.setup_chain(np.random.default_rng(1), 0, 1)
    moved, point = set(), model.initial_point()
    for _ in range(300):
        point, _ = step.step(point)
        chain = step._chain
        moved.add(float(point["beta"][0]))
        assert np.isfinite(chain.state.log_weight[0])
        assert np.all(np.isfinite(chain.bright.log_odds[: chain.n_bright]))
    assert len(moved) > 30


# --- choice -----------------------------------------------------------------------------------


def test_joint_moves_where_the_posterior_is_concentrated():
    X, y = simulated(20_000, 5)
    model, step = build(X, y, "auto")
    assert isinstance(step.bounds[0], Taylor)
    draws, drawn = drive(step, model.initial_point(), tune=300, draws=2000, chains=1)
    # Few rows: a pass over the data would read 20,000.
    assert drawn["likelihood_queries"].mean() < 50
    assert az.ess(draws).min() > 0.7 * 2000


def test_conditional_moves_where_it_is_not():
    X, y = simulated(400, 100)
    assert isinstance(build(X, y, "auto", prior_sd=3.0)[1].bounds[0], JaakkolaJordan)


def test_conditional_moves_for_rare_categories():
    """Indicators of a few rows, all of one outcome: skewed tails, where joint moves stick."""
    X, y = simulated(20_000, 4)
    rare = np.zeros((20_000, 20))
    for j in range(20):
        rare[10 * j : 10 * j + 8, j] = 1.0
    y[:200] = 1
    assert isinstance(
        build(np.column_stack([X, rare]), y, "auto", prior_sd=5.0)[1].bounds[0], JaakkolaJordan
    )


def test_conditional_moves_for_a_funnel():
    X, y = simulated(20_000, 6)
    with pm.Model():
        sigma = pm.HalfNormal("sigma", 1.0)
        raw = pm.Normal("raw", 0.0, 1.0, shape=6)
        pm.Bernoulli("y", logit_p=X @ (sigma * raw), observed=y)
        assert isinstance(FireflyMH().bounds[0], JaakkolaJordan)


def test_settings_are_checked():
    X, y = simulated(50, 2)
    with pytest.raises(ValueError, match="order must be 2 or 3"):
        Taylor(order=4)
    with pytest.raises(ValueError, match="bound must be a bound"):
        build(X, y, "taylor")
    with pytest.raises(ValueError, match="proposal must be one of"):
        build(X, y, "auto", proposal="nuts")
    with pytest.raises(ValueError, match="brightness= is for conditional moves"):
        build(X, y, Taylor(), brightness=ImplicitResampling())
    with pytest.raises(ValueError, match="transitions must be a positive integer"):
        build(X, y, "auto", transitions=0)
    with pytest.raises(ValueError, match="needs joint moves"):
        build(X, y, JaakkolaJordan(), proposal="independent")
    with pytest.raises(ValueError, match=r"anchor names \['bet'\]"):
        build(X, y, "auto", anchor={"bet": 0.0})
    with pytest.raises(ValueError, match=r"anchor\['beta'\] has shape \(3,\)"):
        build(X, y, "auto", anchor={"beta": np.zeros(3)})
    with pytest.raises(ValueError, match="xi has 49 values for 50 rows"):
        build(X, y, JaakkolaJordan(xi=np.ones(49)))
