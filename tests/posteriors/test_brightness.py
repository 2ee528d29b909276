"""Brightness given the parameters has its conditional distribution."""

import numpy as np
import pytest
from scipy import stats

from pymc_flymc import ImplicitResampling, JaakkolaJordan
from pymc_flymc.kernels.metropolis import new_proposal_mixture
from pymc_flymc.sampling.chain import FireflyChain
from pymc_flymc.target.resampling import Levels
from tests.support.data import log_sigmoid
from tests.support.models import logistic_model
from tests.support.steps import SCHEMES, step_of

N_SWEEPS = 40_000
ALPHA = 1e-4


@pytest.fixture(scope="module")
def frozen():
    """A step on 40 rows, and a theta away from its anchor: all rows often bright, often dark."""
    rng = np.random.default_rng(3)
    X = np.column_stack([np.ones(40), 0.5 * rng.normal(size=40)])
    y = rng.random(40) < 0.5
    step = step_of(logistic_model(X, y), bound=JaakkolaJordan(xi=0.5, slack=1.0))
    return step, X, y, np.array([3.5, 0.8])


def lagged_one(scheme, q, odds, n_rows):
    """Lag-one autocorrelation of each row's brightness from sweep to sweep."""
    if isinstance(scheme, ImplicitResampling):  # 1 - P(bright -> dark) - P(dark -> bright)
        return 1.0 - np.minimum(1.0, q / odds) - np.minimum(q, odds)
    size = scheme.fraction * n_rows
    missed = (1.0 - 1.0 / n_rows) ** size if scheme.scheme == "with_replacement" else 0.9
    return np.full(n_rows, missed)  # a Gibbs update forgets, so only rows not visited correlate


@pytest.mark.parametrize("name", SCHEMES)
def test_bright_frequencies(frozen, name):
    step, X, y, theta = frozen
    scheme, n_rows = SCHEMES[name], len(y)
    target, by_row = step.target, step.target.data.levels
    eta = X @ theta
    a, b, c = step.bounds[0].coefficients(np.full(n_rows, 0.5), y.astype(float), 0.0)
    log_likelihood = log_sigmoid(np.where(y, eta, -eta))
    # The slack is read off the second constant of each row, where the bound's own part is known.
    slack = (
        target.data.rows.constants[:, 1]
        - step.bounds[0].constants(np.full(n_rows, 0.5), y.astype(float), np.zeros(n_rows))[:, 1]
    )
    gap = log_likelihood - (c + b * eta - a * eta**2 - slack)
    p = -np.expm1(-gap)  # 1 - B/L
    q = by_row.q[by_row.level] if getattr(scheme, "q", None) is None else scheme.q
    moves = new_proposal_mixture(2, np.array([1.0, 0.0, 0.0]))
    moves.log_scale[
        :
    ] = -np.inf  # a random walk of scale zero: theta is proposed to stay, and stays
    try:
        if getattr(scheme, "q", None) is not None:
            target.data.levels = Levels.single(scheme.q, n_rows)
        chain = FireflyChain(target, scheme, moves)
    finally:
        target.data.levels = by_row
    rng = np.random.default_rng(4)
    chain.start_at(rng, theta)
    z = np.zeros((N_SWEEPS, n_rows), bool)
    for t in range(N_SWEEPS):
        chain.advance(rng, 1, 0.0)
        z[t, chain.bright.index[: chain.n_bright]] = True
    np.testing.assert_allclose(chain.state.theta, theta, rtol=1e-14)

    if name == "cycle":  # each row is drawn afresh every ten sweeps, and independently
        effective = np.full(n_rows, N_SWEEPS / 10)
    else:
        rho = lagged_one(scheme, q, np.expm1(gap), n_rows)
        effective = N_SWEEPS * (1.0 - rho) / (1.0 + rho)
    assert np.min(effective * p * (1.0 - p)) > 100, "too few for a normal approximation"
    score = (z.mean(axis=0) - p) / np.sqrt(p * (1.0 - p) / effective)
    assert np.max(np.abs(score)) < stats.norm.isf(ALPHA / 2 / n_rows)
    # Rows are independent given theta: two-sided chi-square of the scores.
    total = stats.chi2(n_rows)
    assert total.ppf(ALPHA / 2) < np.sum(score**2) < total.isf(ALPHA / 2)
    if name.startswith("implicit"):
        # The moves are made at the rates of the algorithm, not just in the right proportion.
        darkened = np.sum(z[:-1] & ~z[1:], axis=0)
        tried = np.sum(z[:-1], axis=0)
        rate = np.minimum(1.0, q / np.expm1(gap))
        surprise = (darkened - tried * rate) / np.sqrt(np.maximum(tried * rate * (1 - rate), 1e-9))
        certain = rate == 1.0
        np.testing.assert_array_equal(darkened[certain], tried[certain])
        assert np.all(np.abs(surprise[~certain]) < stats.norm.isf(ALPHA / 2 / n_rows))
