"""Probabilities that a model keeps off 0 and 1, as Bambi does: sampled where it cannot matter."""

from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.special import expit

from pymc_flymc import UnsupportedModelError, weighted
from pymc_flymc.agreement.guarded_rows import check_guards
from pymc_flymc.graphs.tools import free_inputs
from pymc_flymc.likelihoods.links import guards_of, without_guards
from pymc_flymc.steps.setup import read
from tests.support.observing import guarded

N = 2500
RNG = np.random.default_rng(4)
ROWS = RNG.normal(size=N)
NOISE = RNG.logistic(size=N)
BINARY = (ROWS + NOISE > 0.0).astype(int)
LINKS = {
    "logit": pm.math.sigmoid,
    "probit": lambda eta: 0.5 + 0.5 * pt.erf(eta / np.sqrt(2.0)),
    "cloglog": lambda eta: 1.0 - pt.exp(-pt.exp(eta)),
}


def binary(x, y, link="logit"):
    p = guarded(LINKS[link](pm.Normal("a") + pm.Normal("b", 0.0, 5.0) * x))
    pm.Bernoulli("y", p=p, observed=y)


def with_weights(x, y):
    p = guarded(pm.math.sigmoid(pm.Normal("b", 0.0, 5.0) * x))
    weighted("y", pm.Bernoulli.dist(p=p), weights=np.full(len(x), 0.5), observed=y)


def counts(x, y):
    p = guarded(pm.math.sigmoid(pm.Normal("b", 0.0, 5.0) * x))
    pm.Binomial("y", n=400, p=p, observed=400 * y // 2 + 100)


def shares(x, y):
    mean = guarded(pm.math.sigmoid(pm.Normal("b", 0.0, 5.0) * x))
    pm.Beta("y", mu=mean, nu=3.0, observed=0.2 + 0.6 * y)


def levels(x, y):
    c = pm.Normal("c", [-1.0, 1.0], transform=pm.distributions.transforms.ordered)
    p = guarded(pm.math.sigmoid(c - (pm.Normal("b", 0.0, 5.0) * x)[:, None]))
    p = pt.concatenate([p[:, :1], p[:, 1:] - p[:, :-1], 1.0 - p[:, -1:]], axis=1)
    pm.Categorical("y", p=p, observed=2 * y)


def zeros_and_counts(x, y):
    psi = guarded(pm.math.sigmoid(1.0 + 0.5 * pm.Normal("d") * x))
    p = guarded(pm.math.sigmoid(pm.Normal("b", 0.0, 5.0) * x))
    pm.ZeroInflatedBinomial("y", psi=psi, n=9, p=p, observed=1 + 7 * y)


OTHERS = [with_weights, counts, shares, levels, zeros_and_counts]


def with_outliers(write, x, y, copies=1, **options):
    """A model of rows of which some have the less likely outcome far out."""
    with pm.Model() as model:
        write(np.append(ROWS, [x] * copies), np.append(BINARY, [y] * copies), **options)
    return read(model, None, None, None, "auto")


def test_the_link_is_found_inside():
    eta = pt.vector("eta")
    p = guarded(pm.math.sigmoid(eta))
    assert len(guards_of(p)) == 2
    without = without_guards(p)
    assert not guards_of(without)
    assert free_inputs([without]) == [eta]
    far = np.array([-900.0, 0.5, 900.0])
    np.testing.assert_allclose(without.eval({eta: far}), expit(far), rtol=1e-14)


def test_a_guard_of_a_prior():
    """Priors may have guards of their own: these are not the rows'."""
    with pm.Model():
        b = pm.Normal("b", guarded(pm.math.sigmoid(pm.Normal("a"))), 1.0)
        y = pm.Bernoulli("y", logit_p=b * ROWS, observed=BINARY)
    assert not guards_of(y)
    assert len(guards_of(b)) == 2


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.slow_cases("probit")
def test_rows_that_stay_near(link):
    """Wrong, and not so far out that it would be given up."""
    found = with_outliers(binary, 2.0, 0, link=link)
    assert found.problems[0].likelihood.name == f"bernoulli-{link}"


@pytest.mark.parametrize("write", OTHERS)
@pytest.mark.slow_cases("shares", "with_weights")
def test_other_families(write):
    with_outliers(write, 2.0, 0)


@pytest.mark.parametrize(
    ("x", "y", "link", "copies"),
    [
        (60.0, 0, "logit", 1),
        (-1000.0, 1, "logit", 1),
        (1000.0, 0, "logit", 10),  # they hide one another
        (20.0, 0, "probit", 1),
        (60.0, 0, "cloglog", 1),
    ],
)
def test_rows_that_may_be_given_up(x, y, link, copies):
    message = rf"the probabilities of 'y' off 0 and 1.* row {N:,}, one of {copies}:"
    with pytest.raises(UnsupportedModelError, match=message):
        with_outliers(binary, x, y, copies, link=link)


@pytest.mark.parametrize("write", OTHERS)
def test_rows_of_other_families_that_may_be_given_up(write):
    with pytest.raises(UnsupportedModelError, match="keeps the probabilities of 'y' off 0 and 1"):
        with_outliers(write, 1000.0, 0)


def test_rows_without_weight_are_counted():
    """The message has the number of the observed value."""
    with pm.Model() as model:
        p = guarded(pm.math.sigmoid(pm.Normal("b", 0.0, 5.0) * np.append(ROWS, 1000.0)))
        dist, weights = pm.Bernoulli.dist(p=p), np.append(np.arange(N) % 2, 1)
        weighted("y", dist, weights=weights, observed=np.append(BINARY, 0))
    with pytest.raises(UnsupportedModelError, match=rf" row {N:,}, one of 1:"):
        read(model, None, None, None, "auto")


def test_rows_that_agree_stay():
    """However far out."""
    with_outliers(binary, 1000.0, 1)
    with_outliers(levels, 1000.0, 1)


def test_rows_out_of_core():
    """Nobody knows which of them may be given up."""
    stored = SimpleNamespace(design=SimpleNamespace(stored=object()))
    with pm.Model():
        y = pm.Bernoulli("y", p=guarded(pm.math.sigmoid(pm.Normal("b") * ROWS)), observed=BINARY)
    with pytest.raises(UnsupportedModelError, match=r"of 'y' are kept off 0 and 1.*rows of data="):
        check_guards(y, [stored], [None], [None])


@pytest.mark.parametrize(
    "floor",
    [
        lambda p: pt.switch(p < 1e-15, 1e-15, p),
        lambda p: pt.switch(p > 1.0 - 1e-15, 1.0 - 1e-15, p),
        lambda p: 4e-16 + (1.0 - 8e-16) * p,
    ],
)
def test_other_floors_are_refused(floor):
    """What is left of them is less than rounding where predictors are of a usual size."""
    with pm.Model() as model:
        eta = pm.Normal("b", 0.0, 5.0) * ROWS
        pm.Bernoulli("y", p=floor(pm.math.sigmoid(eta)), observed=BINARY)
    with pytest.raises(UnsupportedModelError, match="its p is not the logistic function"):
        read(model, None, None, None, "auto")


@pytest.mark.parametrize(
    "link",
    [
        lambda v: pt.exp(v) / (1.0 + pt.exp(v)),
        lambda v: 1.0 - 1.0 / (1.0 + pt.exp(v)),
        lambda v: 0.5 * (1.0 + pt.tanh(0.5 * v)),
        lambda v: pt.switch(v > 0.0, 1.0 / (1.0 + pt.exp(-v)), pt.exp(v) / (1.0 + pt.exp(v))),
    ],
)
def test_what_rounding_does_is_no_floor(link):
    with pm.Model() as model:
        pm.Bernoulli("y", p=link(pm.Normal("b", 0.0, 5.0) * ROWS), observed=BINARY)
    read(model, None, None, None, "auto")


def test_floors_of_ordered_levels_are_refused():
    with pm.Model() as model:
        c = pm.Normal("c", [-1.0, 1.0], transform=pm.distributions.transforms.ordered)
        p = pm.math.sigmoid(c - (pm.Normal("b", 0.0, 5.0) * ROWS)[:, None])
        p = pt.concatenate([p[:, :1], p[:, 1:] - p[:, :-1], 1.0 - p[:, -1:]], axis=1)
        pm.Categorical("y", p=pt.clip(p, 1e-14, 1.0), observed=2 * BINARY)
    with pytest.raises(UnsupportedModelError):
        read(model, None, None, None, "auto")
