"""Advice on columns that make rows bright: right where something is off, silent elsewhere."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import FireflyHMC, FireflyMH, Taylor

N = 20_000
rng = np.random.default_rng(0)
NORMAL = rng.standard_normal((N, 4))
RARE = rng.random(N) < 0.001
HEAVY = np.random.default_rng(1).standard_t(1.5, size=N)


def with_column(column):
    """Normal columns, the second one replaced and standardised."""
    X = NORMAL.copy()
    X[:, 1] = (column - column.mean()) / column.std()
    return X


def said(caplog, X, y, step=FireflyMH, **settings):
    with pm.Model(), caplog.at_level("INFO", logger="pymc.flymc"):
        alpha = pm.Normal("alpha", 0.0, 2.0)
        beta = pm.Normal("beta", 0.0, 1.0, shape=4)
        pm.Bernoulli("y", logit_p=alpha + X @ beta, observed=y.astype(np.int8))
        step(**settings)
    return [each for each in caplog.messages if "values far out" in each]


JOINT = {"kernel": "joint"}


@pytest.mark.parametrize(
    ("column", "advice"),
    [
        (np.exp(2.0 * NORMAL[:, 1]), "beta[1] (skewed: take logarithms)"),
        (-np.exp(2.0 * NORMAL[:, 1]), "beta[1] (skewed to the left: "),
        (HEAVY, "beta[1] (look for errors, or limit the range)"),
        (np.arange(N) < 5, "beta[1] (rare levels: put them together"),
    ],
    ids=["right", "left", "both", "level"],
)
@pytest.mark.slow_cases("right")
def test_columns_that_make_rows_bright_are_named(caplog, column, advice):
    (line,) = said(caplog, with_column(column.astype(float)), RARE, **JOINT)
    assert line.startswith("FireflyMH: about ") and " of 20,000 rows of 'y' are bright" in line
    assert line.endswith(advice) or advice in line
    assert line.count("beta[") == 1


@pytest.mark.parametrize(
    "column",
    [NORMAL[:, 1], np.exp(0.3 * NORMAL[:, 1]), (NORMAL[:, 1] > 0.5), np.ones(N)],
    ids=["normal", "a little skewed", "level", "constant"],
)
@pytest.mark.parametrize("y", [RARE, NORMAL[:, 0] > 0], ids=["rare", "common"])
def test_healthy_columns_are_not(caplog, column, y):
    X = NORMAL.copy()
    X[:, 1] = column
    assert not said(caplog, X, y, **JOINT)


@pytest.mark.parametrize(
    ("step", "settings"), [(FireflyHMC, {"bound": Taylor()}), (FireflyMH, {"kernel": "metropolis"})]
)
@pytest.mark.slow_cases("FireflyHMC-settings0")
def test_moves_given_brightness(caplog, step, settings):
    settings = settings | {"bound": Taylor()}
    (line,) = said(caplog, with_column(np.exp(2.0 * NORMAL[:, 1])), RARE, step, **settings)
    assert line.endswith("beta[1] (skewed: take logarithms)")


def test_all_rows_are_explained(caplog):
    """By their number, where there are few; nothing is said of columns then."""
    X = np.random.default_rng(2).standard_normal((400, 100))
    with pm.Model(), caplog.at_level("INFO", logger="pymc.flymc"):
        beta = pm.Normal("beta", 0.0, 3.0, shape=100)
        pm.Bernoulli("y", logit_p=X @ beta, observed=(X[:, 0] > 0).astype(np.int8))
        FireflyMH()
    assert any("there are few rows for each parameter (4)" in each for each in caplog.messages)
    assert not any("far out" in each for each in caplog.messages)
