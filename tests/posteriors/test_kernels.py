"""Each kernel on each family by quadrature, and against NUTS."""

import numpy as np
import pymc as pm
import pytest
from scipy.special import log_softmax

from pymc_flymc import (
    ImplicitResampling,
    JaakkolaJordan,
    Taylor,
)
from tests.support.comparison import assert_matches, quadrature, reference_from_draws
from tests.support.data import load_data, logistic_rows, standardised
from tests.support.models import logistic_model, logistic_posterior, student_t
from tests.support.steps import STEPS, drive, step_of_kind

#: Transitions of a draw that leave neighbouring draws of two parameters nearly independent.
TRANSITIONS = {"hmc": 4, "hmc-diagonal": 6, "mala": 20, "slice": 6, "slice-random": 12}


def logistic():
    X, y = logistic_rows(30, [-0.5, 1.0], seed=1)
    reference = quadrature(logistic_posterior(X, y, 2.0), [-12.0, -12.0], [12.0, 12.0])
    return logistic_model(X, y, 2.0), reference


def softmax():
    """Three classes, the last one of reference."""
    y = np.random.default_rng(2).integers(0, 3, 25)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.5, shape=2)
        logits = pm.math.concatenate([beta, np.zeros(1)])[None, :]
        pm.Categorical("y", logit_p=np.ones((25, 1)) @ logits, observed=y)

    def log_density(points):
        eta = np.column_stack([points, np.zeros(len(points))])
        counts = np.bincount(y, minlength=3)
        return log_softmax(eta, axis=1) @ counts - 0.5 * np.sum((points / 1.5) ** 2, axis=1)

    return model, quadrature(log_density, [-9.0, -9.0], [9.0, 9.0])


def robust():
    model, log_density = student_t()
    return model, quadrature(log_density, [-10.0, -6.0], [10.0, 4.0])


FAMILIES = {"logistic": logistic, "softmax": softmax, "robust": robust}


@pytest.fixture(scope="module")
def problems():
    return {name: make() for name, make in FAMILIES.items()}


@pytest.mark.parametrize(
    ("kind", "family"),
    [
        pytest.param(
            kind, family, marks=pytest.mark.slow if "-" in kind and family != "logistic" else ()
        )
        for kind in STEPS
        for family in FAMILIES
    ],
)
def test_posterior_by_quadrature(problems, kind, family):
    model, reference = problems[family]
    step = step_of_kind(kind, model, transitions=TRANSITIONS[kind])
    draws, drawn = drive(step, model.initial_point(), tune=300, draws=4000, chains=2)
    assert_matches(draws, reference)
    assert drawn["likelihood_queries"].mean() > 0.0


@pytest.mark.parametrize("bound", [Taylor(), JaakkolaJordan(slack=0.0), None])
def test_other_bounds_by_quadrature(problems, bound):
    """A radius shared by all rows, walls between rows, and all rows bright."""
    model, reference = problems["logistic"]
    step = step_of_kind("hmc", model, bound=bound, transitions=6)
    draws, _ = drive(step, model.initial_point(), tune=300, draws=4000, chains=2, seed=1)
    assert_matches(draws, reference)


@pytest.mark.parametrize("brightness", [ImplicitResampling(ratio=1.0, sweeps=3)])
def test_several_sweeps_by_quadrature(problems, brightness):
    model, reference = problems["logistic"]
    step = step_of_kind("mala", model, brightness=brightness, transitions=20)
    draws, _ = drive(step, model.initial_point(), tune=300, draws=4000, chains=2, seed=2)
    assert_matches(draws, reference)


def nuts_models():
    """Models of real data, and their free variables."""
    mnist = load_data("mnist_7v9_pca50")
    X, y = standardised(mnist["X"][:4000, :20]), mnist["y"][:4000]
    binary = logistic_model(X, y)
    letter = load_data("letter")
    chosen = np.flatnonzero(letter["y"] < 4)[:1500]
    X = standardised(letter["X"][chosen][:, :6])
    with pm.Model() as classes:
        weights = pm.Normal("beta", 0.0, 1.0, shape=(X.shape[1], 4))
        pm.Categorical("y", logit_p=X @ weights, observed=letter["y"][chosen])
    houses = load_data("california_housing")
    X, y = standardised(houses["X"][:2000]), houses["y"][:2000]
    with pm.Model() as robust:
        beta = pm.Normal("beta", 0.0, 2.0, shape=X.shape[1])
        nu, sigma = pm.Gamma("nu", 2.0, 0.1), pm.HalfNormal("sigma", 2.0)
        pm.StudentT("y", nu=nu, mu=X @ beta, sigma=sigma, observed=(y - y.mean()) / y.std())
    return {"logistic": binary, "softmax": classes, "robust": robust}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_real_data_against_nuts(family):
    model = nuts_models()[family]
    options = dict(model=model, chains=2, cores=2, progressbar=False, random_seed=4)

    def draws(idata):
        parts = [idata.posterior[rv.name].to_numpy() for rv in model.free_RVs]
        return np.concatenate([p.reshape(*p.shape[:2], -1) for p in parts], axis=2)

    reference = reference_from_draws(
        draws(pm.sample(tune=1500, draws=5000, nuts_sampler="pymc", **options))
    )
    for kind in STEPS:
        ours = pm.sample(step=step_of_kind(kind, model), tune=1000, draws=10_000, **options)
        assert_matches(draws(ours), reference)
