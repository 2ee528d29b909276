"""Posteriors of ordered outcomes by quadrature, and against NUTS."""

import numpy as np
import pymc as pm
import pytest
from scipy.special import expit

from pymc_flymc import FireflyHMC, FireflyMH, FireflySlice, JaakkolaJordan, Taylor
from tests.likelihoods.test_ordered import TRUE, X, Y, ordered
from tests.support.comparison import assert_matches, quadrature
from tests.support.data import load_data, standardised
from tests.support.nuts import assert_match_nuts
from tests.support.steps import drive, step_of


def log_likelihood(eta, cuts, y):
    """Of all rows, for predictors (M, N) and cutpoints (M, K - 1), by differences."""
    ends = np.full((len(cuts), 1), np.inf)
    edges = np.hstack([-ends, cuts, ends])
    up, low = edges[:, y + 1] - eta, edges[:, y] - eta
    # Differences of whichever tails are smaller.
    flip = low > 0
    up, low = np.where(flip, -low, up), np.where(flip, -up, low)
    return np.log(expit(up) - expit(low)).sum(axis=1)


def slope_and_shift():
    """A coefficient and an intercept, cutpoints given."""
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.0, shape=2)
        pm.OrderedLogistic("y", beta[0] + X[:, 0] * beta[1], TRUE, observed=Y)

    def log_density(points):
        eta = points[:, :1] + points[:, 1:] * X[:, 0]
        cuts = np.broadcast_to(TRUE, (len(points), 3))
        return log_likelihood(eta, cuts, Y) - 0.5 * np.sum((points / 2.0) ** 2, axis=1)

    return model, quadrature(log_density, [-6.0, -6.0], [6.0, 6.0])


def free_cutpoints():
    """Two cutpoints, as their transform has them: the first, and the logarithm of the step."""
    y = np.minimum(Y[:25], 2)
    with pm.Model() as model:
        c = pm.Normal("c", [-1.0, 1.0], 2.0, shape=2, transform=ordered)
        pm.OrderedLogistic("y", X[:25, 0], c, observed=y)

    def log_density(points):
        cuts = np.column_stack([points[:, 0], points[:, 0] + np.exp(points[:, 1])])
        prior = -0.5 * np.sum(((cuts - [-1.0, 1.0]) / 2.0) ** 2, axis=1)
        eta = np.broadcast_to(X[:25, 0], (len(points), 25))
        return log_likelihood(eta, cuts, y) + prior + points[:, 1]

    return model, quadrature(log_density, [-6.0, -6.0], [6.0, 4.0])


PROBLEMS = {"given": slope_and_shift, "free": free_cutpoints}


@pytest.fixture(scope="module")
def problems():
    return {name: make() for name, make in PROBLEMS.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "settings", "transitions"),
    [
        (FireflyMH, {}, 20),
        (FireflyMH, {"bound": Taylor()}, 20),
        (FireflyMH, {"bound": JaakkolaJordan()}, 20),
        (FireflyHMC, {}, 6),
        (FireflyHMC, {"bound": Taylor(order=3)}, 6),
        (FireflySlice, {}, 8),
    ],
)
@pytest.mark.parametrize("name", PROBLEMS)
def test_posterior_by_quadrature(problems, name, kind, settings, transitions):
    model, reference = problems[name]
    step = step_of(model, kind, transitions=transitions, **settings)
    draws, _ = drive(step, model.initial_point(), tune=300, draws=3000, chains=2)
    assert_matches(draws, reference)


@pytest.mark.slow
def test_real_data_against_nuts():
    """Cuts of diamonds, of five levels, by their measures."""
    diamonds = load_data("diamonds")
    chosen = np.random.default_rng(0).choice(len(diamonds["X"]), 3000, replace=False)
    is_cut = diamonds["feature_names"] == "cut"
    rows = standardised(diamonds["X"][chosen][:, ~is_cut])[:, 1:]
    y = diamonds["X"][chosen][:, is_cut].ravel().astype(int)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=rows.shape[1])
        c = pm.Normal("c", np.linspace(-2.0, 2.0, 4), 2.0, shape=4, transform=ordered)
        pm.OrderedLogistic("y", rows @ beta, c, observed=y, compute_p=False)
    steps = (step_of(model, kind) for kind in (FireflyMH, FireflyHMC))
    assert_match_nuts(model, *steps, nuts=dict(tune=1500, draws=5000))
