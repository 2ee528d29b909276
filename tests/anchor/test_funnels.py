"""Funnels into which no move of a scale leads are warned of, however their priors are written."""

import re
import warnings

import numpy as np
import pymc as pm
import pytest

from pymc_flymc.steps import setup

EFFECTS = np.random.default_rng(1).normal(size=8)


def autoregression(s):
    return pm.AR("a", rho=[0.5], sigma=s, init_dist=pm.Normal.dist(), shape=8)


def walk_with_drift(s):
    return pm.GaussianRandomWalk("a", 0.1, s, init_dist=pm.Normal.dist(), steps=7)


def prior_of_a_potential(s):
    a = pm.Flat("a", shape=8)
    pm.Potential("prior", pm.logp(pm.Normal.dist(0.0, s), a).sum())
    return a


def frailties(s):
    return pm.math.log(pm.Gamma("a", mu=1.0, sigma=s, shape=8))


def shares_of_a_variance(s):
    return pm.Normal("a", 0.0, pm.math.sqrt(s * pm.Dirichlet("phi", np.full(8, 0.5))))


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Without what compiles."""
    monkeypatch.setattr(setup, "check_agreement", lambda *arguments: None)


def scale_itself(s):
    """None of the smallest 0.5 % were drawn with 500 rows, 100 for each effect."""
    return pm.Normal("a", 0.0, pm.HalfNormal("bare", 1.0, default_transform=None), shape=8)


def warned_of(write, n_rows):
    """What a step warns of in a model of eight levels with effects that `write` makes."""
    level = np.arange(n_rows) % 8
    y = np.random.default_rng(2).random(n_rows) < 1.0 / (1.0 + np.exp(-EFFECTS[level]))
    with pm.Model() as model:
        effects = write(pm.LogNormal("s", -0.5, 1.0))
        pm.Bernoulli("y", logit_p=effects[level], observed=y.astype(int))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        setup.read(model, None, None, None, None)
    return [str(each.message) for each in caught if "chains may miss" in str(each.message)]


@pytest.mark.parametrize(
    ("write", "name"),
    [
        (autoregression, "s"),
        pytest.param(walk_with_drift, "s", marks=pytest.mark.slow),  # as an autoregression is
        (prior_of_a_potential, "s"),
        pytest.param(frailties, "s", marks=pytest.mark.slow),
        pytest.param(shares_of_a_variance, "phi", marks=pytest.mark.slow),
        (scale_itself, "bare"),
    ],
)
@pytest.mark.slow_cases("autoregression-s")
def test_few_rows_are_warned_of(write, name):
    (message,) = warned_of(write, 48)
    assert re.search(rf"values of '{name}[_'].* a(_log__)?\[\d\] has", message)


@pytest.mark.parametrize(
    "write",
    [
        scale_itself,
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in (
                autoregression,
                walk_with_drift,
                prior_of_a_potential,
                frailties,
                shares_of_a_variance,
            )
        ),
    ],
)
def test_many_rows_are_not_warned_of(write):
    """With them the scale is known, and no chain comes where it is small."""
    assert warned_of(write, 48_000) == []


@pytest.mark.parametrize(
    "write",
    [
        lambda s: pm.Normal("a", 0.0, s, shape=8),
        lambda s: s * pm.Normal("z", shape=8),
        lambda s: pm.Normal("a", s, 1.0, shape=8),
        lambda s: pm.Normal("a", s * np.linspace(-1.0, 1.0, 8), 10.0),
        lambda s: pm.math.exp(pm.Normal("m", 0.0, 3.0)) * np.ones(8),
    ],
)
def test_others_are_not(write):
    assert warned_of(write, 48) == []
