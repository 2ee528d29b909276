"""Posteriors without an integral are refused by name, and no other."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.special import expit

from pymc_flymc import FireflyMH
from tests.support.data import log_sigmoid, logistic_rows

N = 400
LEVELS = np.arange(N) % 5
NO_EFFECT = "has no effect on the likelihood"
TOGETHER = "as they move together, in the proportions"
RISES = "rises for ever along"


X, Y = logistic_rows(N, [-0.5, 1.0, 0.5])
# Of the rows of some levels all outcomes agree.
AGREEING = np.where(LEVELS == 3, 1, np.where(LEVELS == 4, 0, Y))
COLUMNS = {
    "zero": np.zeros(N),
    "again": X[:, 1],
    "intercept": np.full(N, 3.0),
    "sum": X[:, 1] + 2.0 * X[:, 2],
    "ones": 1e3 * (LEVELS == 3),
}
PRIORS = {
    "flat": lambda name, n: pm.Flat(name, shape=n),
    "normal": lambda name, n: pm.Normal(name, 0.0, 100.0, shape=n),
    "vague": lambda name, n: pm.Normal(name, 0.0, 1e6, shape=n),
    "cauchy": lambda name, n: pm.Cauchy(name, 0.0, 2.5, shape=n),
    "hierarchical": lambda name, n: pm.Normal(name, 0.0, pm.HalfNormal("tau", 5.0), shape=n),
}


def with_column(column, prior, y=AGREEING):
    with pm.Model() as model:
        beta, last = pm.Flat("beta", shape=3), PRIORS[prior]("last", 1)
        pm.Bernoulli("y", logit_p=X @ beta + COLUMNS[column][:, None] @ last, observed=y)
    return model


def refused(model, message, **settings):
    with model, pytest.raises(ValueError, match=message):
        FireflyMH(**settings)


def assert_at_mode(anchor, design, y):
    """The score of a logistic regression under a flat prior is zero, to a few posterior sds."""
    geometry = anchor.geometry
    score = design.T @ (y - expit(design @ geometry.centre))
    assert np.linalg.norm(geometry.factor.T @ score) < 0.05


@pytest.mark.parametrize(
    ("column", "proper", "message"),
    [
        ("zero", "vague", rf"improper: last\[0\] {NO_EFFECT} of 'y', and its prior is flat"),
        ("again", "vague", rf"improper: beta\[1\], last\[0\] have flat .* {TOGETHER} 1, -1\. "),
        (
            "intercept",
            "normal",
            rf"improper: beta\[0\], last\[0\] have flat .* {TOGETHER} 1, -0\.333\. ",
        ),
        (
            "sum",
            "cauchy",
            rf"improper: beta\[1\], beta\[2\], last\[0\] have .* {TOGETHER} 1, 2, -1\. ",
        ),
        ("ones", "hierarchical", rf"{RISES} last\[0\], and the prior is flat.*Give it a proper"),
    ],
)
def test_columns(searches, column, proper, message):
    """Refused under a flat prior, and not under a proper one."""
    refused(with_column(column, "flat"), message)
    searches(with_column(column, proper))


def test_given_anchor():
    values = {"beta": np.array([0.0, 1.0, 0.0])}
    refused(with_column("zero", "flat"), NO_EFFECT, anchor=values)


def test_nearly_improper_posteriors_pass(searches):
    """Columns that differ a little, one outcome that disagrees a little, and a wall."""
    rng = np.random.default_rng(1)
    for last in (X[:, 1] + 1e-6 * rng.normal(size=N), COLUMNS["ones"] - 1e-3 * (LEVELS == 4)):
        y, design = np.where(LEVELS == 4, 1, AGREEING), np.column_stack([X, last])
        with pm.Model() as model:
            beta = pm.Flat("beta", shape=4)
            pm.Bernoulli("y", logit_p=design @ beta, observed=y)
        assert_at_mode(searches(model), design, y)
    model = with_column("zero", "flat")
    with model:
        pm.Potential("wall", pt.switch(pt.abs(model["last"][0]) < 10.0, 0.0, -np.inf))
    assert abs(searches(model).geometry.centre[-1]) < 10.0


@pytest.mark.parametrize("seed", range(3))
def test_small_data_pass(searches, seed):
    """A skewed likelihood is no reason to refuse it."""
    rng = np.random.default_rng(seed)
    design = np.column_stack([np.ones(25), rng.normal(size=25)])
    y = (rng.random(25) < np.exp(log_sigmoid(design @ [0.5, 1.0]))).astype(int)
    with pm.Model() as model:
        beta = pm.Flat("beta", shape=2)
        pm.Bernoulli("y", logit_p=design @ beta, observed=y)
    assert_at_mode(searches(model), design, y)


def test_flat_priors_cost_no_pass(searches, rows_read):
    with pm.Model() as model:
        beta = pm.Flat("beta", shape=3)
        pm.Bernoulli("y", logit_p=X @ beta, observed=Y)
    anchor = searches(model)
    assert anchor.passes == sum(rows_read) / N


def test_half_flat():
    with pm.Model() as model:
        beta, last = pm.Flat("beta", shape=3), pm.HalfFlat("last")
        pm.Bernoulli("y", logit_p=X @ beta + COLUMNS["zero"] * last, observed=Y)
    refused(model, r"no posterior mode found: last_log__ grows for ever.*proper prior")


# --- effects of groups ----------------------------------------------------------------------------


def by_level(levels, y, n, intercept=False):
    with pm.Model() as model:
        a, beta = pm.Flat("a", shape=n), pm.Flat("beta", shape=2)
        eta = a[levels] + X[:, 1:] @ beta
        pm.Bernoulli("y", logit_p=pm.Flat("mu") + eta if intercept else eta, observed=y)
    return model


def test_levels(searches):
    searches(by_level(LEVELS, Y, 5))
    refused(by_level(LEVELS, Y, 6), rf"improper: a\[5\] {NO_EFFECT}")
    refused(by_level(LEVELS, AGREEING, 5), rf"{RISES} a\[3\], a\[4\].*Give them proper priors")
    # Dummy variables without that of the first level, of which all outcomes agree.
    dummies = np.eye(5)[LEVELS][:, 1:]
    with pm.Model() as model:
        beta = pm.Flat("beta", shape=5)
        design = np.column_stack([np.ones(N), dummies])
        pm.Bernoulli("y", logit_p=design @ beta, observed=np.where(LEVELS == 0, 1, Y))
    refused(model, rf"{RISES} beta\[0\], beta\[1\], beta\[2\], beta\[3\] and 1 more")
    refused(by_level(LEVELS, Y, 5, True), rf"a\[0\], .* and 2 more have .* {TOGETHER} 1, 1, 1, 1")


def test_many_levels(searches):
    """So many that no matrix of all parameters is made."""
    n, size = 400, 6000
    levels, y = np.arange(size) % n, np.arange(size) // n % 2
    x = np.random.default_rng(2).normal(size=size)

    def model(levels, y, intercept=False, prior=pm.Flat):
        with pm.Model() as model:
            a, slope = prior("a", shape=n), pm.Flat("slope")
            eta = a[levels] + slope * x
            pm.Bernoulli("y", logit_p=pm.Flat("mu") + eta if intercept else eta, observed=y)
        return model

    agreeing = np.where(levels == 17, 1, np.where(levels == 18, 0, y))
    # The intercept comes last.
    refused(model(levels, y, True), rf"a\[0\], a\[1\].* and 397 more have .* {TOGETHER} 1, 1, 1")
    refused(model(np.where(levels == 20, 21, levels), y), rf"improper: a\[20\] {NO_EFFECT}")
    refused(model(levels, agreeing), rf"{RISES} a\[17\], a\[18\], and")
    searches(model(levels, y))
    searches(model(levels, agreeing, True, lambda name, shape: pm.Normal(name, 0, 50, shape=shape)))


# --- other likelihoods ----------------------------------------------------------------------------


def test_counts_without_a_one():
    counts = np.where(LEVELS == 3, 0, np.random.default_rng(3).poisson(1.0, N))
    with pm.Model() as model:
        a = pm.Flat("a", shape=5)
        pm.Poisson("y", mu=pt.exp(a[LEVELS]), observed=counts)
    refused(model, rf"{RISES} a\[3\], and")


def test_classes_without_a_reference(searches):
    y = np.random.default_rng(4).integers(0, 3, N)
    with pm.Model() as model:
        pm.Categorical("y", logit_p=X @ pm.Flat("W", shape=(3, 3)), observed=y)
    refused(
        model, rf"W\[0, 0\], W\[0, 1\], W\[0, 2\] have .* {TOGETHER} 1, 1, 1\.|W\[\d, 0\].*1, 1, 1"
    )
    with pm.Model() as model:
        logits = X @ pm.Flat("W", shape=(3, 2))
        pm.Categorical("y", logit_p=pt.concatenate([np.zeros((N, 1)), logits], axis=1), observed=y)
    searches(model)
