"""Targets of models with effects of groups: all ways to write them are one."""

import numpy as np
import pymc as pm
import pytensor.sparse as ps
import pytest
from scipy import sparse

from pymc_flymc import FireflyMH, JaakkolaJordan, Tangent, Taylor
from tests.support.data import log_sigmoid
from tests.support.native import row_predictors
from tests.support.steps import drive


def simulated(n=400, n_groups=6, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, n_groups, n)
    group[:n_groups] = np.arange(n_groups)
    x = rng.normal(size=(n, 2))
    effects = rng.normal(size=(n_groups, 3)) * [0.8, 0.4, 0.4]
    eta = 0.3 + effects[group, 0] + np.sum((effects[group, 1:] + [0.5, -0.3]) * x, axis=1)
    return group, x, (rng.random(n) < np.exp(log_sigmoid(eta))).astype(int)


def slopes_model(way, family="logistic"):
    """Random intercepts and slopes, by index, as a sparse matrix, or written out."""
    group, x, y = simulated()
    indicators = np.eye(6)[group]
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1.0)
        beta = pm.Normal("beta", 0.0, 1.0, shape=2)
        z = pm.Normal("z", 0.0, 1.0, shape=6)
        slopes = pm.Normal("slopes", 0.0, 0.5, shape=(6, 2))
        if way == "index":
            eta = (0.7 * z)[group] + (slopes[group] * x).sum(axis=1)
        elif way == "sparse":
            eta = ps.dot(ps.as_sparse_variable(sparse.csr_matrix(indicators)), 0.7 * z)
            for j in range(2):
                column = sparse.csr_matrix(indicators * x[:, [j]])
                eta = eta + ps.dot(ps.as_sparse_variable(column), slopes[:, j])
        else:
            eta = indicators @ (0.7 * z)
            for j in range(2):
                eta = eta + (indicators * x[:, [j]]) @ slopes[:, j]
        eta = eta + mu + x @ beta
        if family == "logistic":
            pm.Bernoulli("y", logit_p=eta, observed=y)
        else:
            sigma = pm.HalfNormal("sigma", 1.0)
            pm.StudentT("y", nu=4.0, mu=eta, sigma=sigma, observed=y + x[:, 0])
    return model


AT = {"mu": 0.2, "beta": np.array([0.5, -0.2]), "z": np.linspace(-1, 1, 6), "slopes": 0.1}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "bound"),
    [("logistic", JaakkolaJordan(slack=0.0)), ("student-t", Tangent(slack=0.0))],
)
def test_all_ways_to_write_a_model_are_one(family, bound, request):
    """Predictors and posterior density agree, in the format of few coefficients and of many."""
    anchor = AT | ({"sigma": 0.8} if family == "student-t" else {})
    steps = {}
    for way in ("dense", "index", "sparse structured"):
        if way == "sparse structured":
            request.getfixturevalue("structured")
        with slopes_model(way.split()[0], family):
            steps[way] = FireflyMH(bound=bound, anchor=anchor)
    rng = np.random.default_rng(5)
    theta = 0.5 * rng.standard_normal(len(steps["dense"].target.geometry.centre))
    values = {}
    for way, step in steps.items():
        target = step.target
        design_width = target.graph.n_coefficients
        w = np.empty(design_width)
        density = target.density(theta, target.statistics, w)
        rows, eta = target.data.rows, np.empty((400, 1))
        row_predictors(rows, w, np.arange(400), 0, 400, eta, np.empty((0, 0)))
        odds = np.empty(400)
        nuisances = w[len(w) - len(target.parts[0].likelihood.nuisances) :].copy()
        target.parts[0].log_factor(eta, rows.constants, nuisances, odds)
        gaps = np.logaddexp(0.0, odds)
        # Where the tangent touches depends on the Laplace approximation, which integrates effects
        # out where it knows them; what the bounds leave is in the gaps.
        values[way] = density + gaps.sum(), eta
    for way in steps:
        assert (steps[way].target.data.rows.n_sparse > 0) == (way != "dense")
        np.testing.assert_allclose(values[way][0], values["dense"][0], rtol=1e-10)
        np.testing.assert_allclose(values[way][1], values["dense"][1], rtol=1e-10, atol=1e-10)


def collapsed_and_by_row(model, seed=1):
    """Collapsed sum of a step's log bounds at random parameters, and the sum over all rows."""
    with model:
        step = FireflyMH(bound=JaakkolaJordan())
    target = step.target
    rng = np.random.default_rng(seed)
    theta = target.geometry.centre + 0.3 * rng.standard_normal(len(target.geometry.centre))
    w = np.empty(target.graph.n_coefficients)
    density = target.density(theta, target.statistics, w)
    rows, n = target.data.rows, len(target.data.rows.X)
    eta = np.empty((n, 1))
    row_predictors(rows, w, np.arange(n), 0, n, eta, np.empty((0, 0)))
    odds = np.empty(n)
    target.parts[0].log_factor(eta, rows.constants, np.empty(0), odds)
    point = step._layout.unravel(theta)
    prior = model.compile_logp(vars=model.free_RVs)(point)
    log_l = model.compile_logp(vars=model.observed_RVs)(point)
    return density - prior, log_l - np.logaddexp(0.0, odds).sum(), step


def test_collapsed_sum_is_the_sum_over_rows(structured):
    collapsed, by_row, step = collapsed_and_by_row(slopes_model("index"))
    assert collapsed == pytest.approx(by_row, rel=1e-10)
    assert len(step.target.geometry.diagonal) == 18  # z and slopes


@pytest.mark.slow
def test_many_groups():
    """A thousand groups and slopes, free scales: no matrix of their size, and a sane anchor."""
    group, x, y = simulated(20_000, 1000, seed=2)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1.0)
        beta = pm.Normal("beta", 0.0, 1.0, shape=2)
        tau = pm.HalfNormal("tau", 1.0)
        sd = pm.HalfNormal("sd", 1.0, shape=2)
        a = pm.Normal("a", mu, tau, shape=1000)
        z = pm.Normal("z", 0.0, 1.0, shape=(1000, 2))
        eta = a[group] + x @ beta + ((z * sd)[group] * x).sum(axis=1)
        pm.Bernoulli("y", logit_p=eta, observed=y)
    collapsed, by_row, step = collapsed_and_by_row(model)
    assert collapsed == pytest.approx(by_row, rel=1e-10)
    target = step.target
    assert len(target.geometry.diagonal) == 3000
    held = [*target.geometry, target.statistics, *target.data.rows[:4]]
    assert sum(np.asarray(array).nbytes for array in held) < 3_000_000
    centre = step._layout.unravel(target.geometry.centre)
    # The scales behind the data are 0.8 and 0.4; posterior sds are about 0.03.
    assert np.exp(centre["tau_log__"]) == pytest.approx(0.8, abs=0.15)
    np.testing.assert_allclose(np.exp(centre["sd_log__"]), 0.4, atol=0.15)
    draws, stats = drive(step, model.initial_point(), tune=20, draws=5)
    assert np.all(np.isfinite(draws))
    assert np.all(stats["n_bright"] < 20_000)


def test_settings_that_do_not_work_are_explained(structured):
    model = slopes_model("index")
    with model, pytest.raises(ValueError, match="third-order Taylor bound has one radius for all"):
        FireflyMH(bound=Taylor(order=3))
