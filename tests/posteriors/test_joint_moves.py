"""Joint moves by quadrature, and against NUTS."""

from dataclasses import replace

import numpy as np
import pytensor.tensor as pt
import pytest

from pymc_flymc import Taylor
from pymc_flymc.bounds import row_factor
from pymc_flymc.graphs.compilation import compile_log_factor
from tests.support.comparison import assert_matches, quadrature
from tests.support.data import logistic_rows, standardised
from tests.support.models import logistic_posterior
from tests.support.nuts import assert_match_nuts
from tests.support.steps import drive, logistic_step


@pytest.fixture(scope="module")
def problems():
    rng = np.random.default_rng(20)
    skewed = 0.5 + rng.random((30, 1)), (np.arange(30) < 1).astype(int)
    out = {}
    for name, (X, y) in {"skewed": skewed, "regular": logistic_rows(400, 2)}.items():
        box = np.full(X.shape[1], 20.0)
        out[name] = X, y, quadrature(logistic_posterior(X, y, 2.0), -box, box)
    return out


# Independent proposals alone are spared the skewed problem: its tails are heavier than theirs.
CASES = [("skewed", p) for p in ("auto", "pcn", "random_walk")]
CASES += [("regular", p) for p in ("auto", "independent", "pcn", "random_walk")]
# Walks and pCN mix slowly in the skewed problem; "auto" has both of them. The quick suite has three
# cases of the seven.
CASES = [
    pytest.param(*case, marks=pytest.mark.slow if case in (*CASES[1:3], *CASES[4:6]) else ())
    for case in CASES
]


@pytest.mark.parametrize("order", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "proposal"), CASES)
def test_posterior_by_quadrature(problems, name, proposal, order):
    X, y, reference = problems[name]
    transitions = {"auto": 5, "independent": 10, "pcn": 20, "random_walk": 40}[proposal]
    if name == "skewed":
        transitions *= 4  # thirty rows: far from normal
    model, step = logistic_step(
        X, y, 2.0, bound=Taylor(order), proposal=proposal, transitions=transitions
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
    model, step = logistic_step(X, (y == 1).astype(int), bound=Taylor())
    nuts = dict(tune=700, draws=2500, init="jitter+adapt_full")
    assert_match_nuts(model, step, tune=500, draws=6000, nuts=nuts)


@pytest.mark.parametrize("proposal", ["independent", "pcn", "random_walk"])
def test_odds_that_overflow_are_not_accepted(proposal):
    """From an infinite weight no chain would ever come back."""
    X, y = logistic_rows(400, 2)
    model, step = logistic_step(X, y, bound=Taylor(), proposal=proposal)
    target, (part,) = step.target, step.target.parts
    odds = row_factor(part.likelihood, part.bound)
    eta = odds.predictors[0]
    odds.value = pt.switch(pt.tensor_from_scalar(eta) > 0.5, np.inf, odds.value)
    target.parts = (replace(part, log_factor=compile_log_factor(odds)),)
    step.setup_chain(np.random.default_rng(1), 0, 1)
    moved, point = set(), model.initial_point()
    for _ in range(300):
        point, _ = step.step(point)
        chain = step.chain
        moved.add(float(point["beta"][0]))
        assert np.isfinite(chain.state.log_weight[0])
        assert np.all(np.isfinite(chain.bright.log_factor[: chain.n_bright]))
    assert len(moved) > 30
