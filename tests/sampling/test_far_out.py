"""Tails that are longer than those of an expansion, looked at before moves are selected."""

import numpy as np
import pymc as pm
import pytest
from pytensor.raise_op import Assert

from pymc_flymc import FireflyMH, JaakkolaJordan, Tangent, Taylor
from pymc_flymc.sampling.proposal_weights import (
    FAR_SDS,
    HEAVY,
    LogDensity,
    heavier_than_normal,
    places_far_out,
    rows_in_heavy_tails,
)
from tests.support.data import logistic_rows

NONE, GIVEN_Z = np.empty(0), {"kernel": "metropolis", "proposal": "pcn"}


def sampler_of(limit=np.inf, **settings):
    X, y = logistic_rows(200, [-0.5])
    with pm.Model():
        b = pm.Normal("b", 0.0, 1.0)
        if np.isfinite(limit):
            pm.Potential("potential", Assert("b is too large")(0.0 * b, b < limit))
        pm.Bernoulli("y", logit_p=X[:, 0] * b, observed=y)
        return FireflyMH(**(settings or {"kernel": "surrogate"})).sampler


def noise(dist, **settings):
    """Build a step for two coefficients of twelve outcomes, two of which lie far from the rest."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=12)
    y = 0.2 + 0.7 * x + rng.laplace(size=12)
    y[[x.argmin(), x.argmax()]] = y[[x.argmax(), x.argmin()]]
    with pm.Model():
        b = pm.Normal("b", 0.0, 10.0, shape=2)
        dist("y", b[0] + b[1] * x, observed=y)
        return FireflyMH(**GIVEN_Z | settings)


def test_a_concentrated_posterior_has_none():
    assert rows_in_heavy_tails(sampler_of(), NONE, np.inf) is None


def test_what_the_graph_raises_there_is_not_raised():
    """No draw need come there."""
    assert rows_in_heavy_tails(sampler_of(limit=0.05), NONE, np.inf) is None


def test_moves_that_are_asked_for_warn(caplog):
    """A likelihood that is bounded from below: the posterior has the prior's tails."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=20), rng.vonmises(0.0, 0.8, size=20)
    with pm.Model():
        b = pm.Normal("b", 0.0, 5.0)
        pm.VonMises("y", b * x, 0.8, observed=y)
        FireflyMH(kernel="joint", proposal="independent")
    assert "much heavier than the expansion" in caplog.text


def test_moves_that_are_asked_for_do_not_warn_elsewhere(caplog):
    sampler_of()
    assert "much heavier" not in caplog.text


@pytest.mark.parametrize(
    ("dist", "bound"),
    [
        (lambda *a, **k: pm.Laplace(*a, 1.0, **k), Tangent(slack=0.0)),
        (lambda *a, **k: pm.Cauchy(*a, 0.5, **k), Tangent()),
        (lambda name, mu, **k: pm.StudentT(name, nu=3, mu=mu, sigma=0.5, **k), None),
    ],
    ids=["Laplace", "Cauchy", "Student t"],
)
def test_pcn_given_brightness_warns_of_long_tails(caplog, dist, bound):
    """Whatever the bound is: the posterior is what proposals do not follow."""
    noise(dist, bound=bound)
    assert HEAVY in caplog.text and "normal density that pCN proposals" in caplog.text


def test_other_moves_of_the_same_model_do_not(caplog, monkeypatch):
    """The default mixes in a random walk, and takes no look."""
    look = "pymc_flymc.sampling.proposal_weights.heavier_than_normal"
    monkeypatch.setattr(look, lambda *arguments: pytest.fail("rows were read"))
    noise(lambda *a, **k: pm.Laplace(*a, 1.0, **k), proposal="auto")
    noise(lambda *a, **k: pm.Laplace(*a, 1.0, **k), proposal="random_walk")
    assert HEAVY not in caplog.text


@pytest.mark.parametrize("bound", ["auto", Taylor(), None], ids=["auto", "Taylor", "None"])
def test_pcn_given_brightness_does_not_warn_of_a_concentrated_posterior(caplog, bound):
    sampler_of(bound=bound, **GIVEN_Z)
    assert HEAVY not in caplog.text


def test_pcn_given_brightness_does_not_warn_of_normal_tails(caplog):
    noise(lambda *a, **k: pm.Normal(*a, 1.0, **k))
    assert HEAVY not in caplog.text


def test_what_the_graph_raises_there_is_not_raised_given_brightness():
    target = sampler_of(limit=0.05, **GIVEN_Z).target
    assert not heavier_than_normal(target, NONE, np.inf)


def test_rows_read_given_brightness_are_limited():
    """Each look reads all rows, so that one at the centre and one elsewhere are the least."""
    step = noise(lambda *a, **k: pm.Laplace(*a, 1.0, **k))
    assert heavier_than_normal(step.target, NONE, 5 * 12)
    assert not heavier_than_normal(step.target, NONE, 2 * 12 - 1)


@pytest.mark.parametrize(
    "bound", [JaakkolaJordan(), Taylor(), None], ids=["JaakkolaJordan", "Taylor", "None"]
)
def test_the_density_that_is_looked_at_is_the_models(bound, monkeypatch):
    """Summed over the brightness of all rows, some at a time."""
    monkeypatch.setattr("pymc_flymc.sampling.proposal_weights.AT_A_TIME", 7)
    X, y = logistic_rows(40, [-0.5, 1.0])
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=2)
        pm.Bernoulli("y", logit_p=X @ b, observed=y)
        target = FireflyMH(bound=bound, **GIVEN_Z).target
    points = np.random.default_rng(2).normal(size=(4, 2)) * 2.0
    logp, density = model.compile_logp(), LogDensity(target, NONE)
    expected = [float(logp({"b": target.geometry.unstandardise(v)})) for v in points]
    found = [density(v) for v in points]
    assert np.ptp(expected) > 10.0
    np.testing.assert_allclose(np.diff(found), np.diff(expected), rtol=1e-9)


def test_each_parameter_is_looked_at_on_both_sides():
    """So many of its own sds away, whatever the others' correlation with it."""
    geometry = noise(
        lambda *a, **k: pm.Laplace(*a, 1.0, **k), bound=Tangent()
    ).sampler.target.geometry
    shifts = [geometry.unstandardise(v) - geometry.centre for v in places_far_out(geometry)]
    sds = np.linalg.norm(geometry.factor, axis=1)
    expected = [sign * FAR_SDS * sd for sd in sds for sign in (1.0, -1.0)]
    np.testing.assert_allclose([shift[i // 2] for i, shift in enumerate(shifts)], expected)
