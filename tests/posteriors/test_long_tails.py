"""A parameter that the data do not limit on one side: its tail is longer than a normal one."""

import arviz as az
import numpy as np
import pymc as pm
import pytest
from scipy.special import expit, logit

from pymc_flymc import FireflyMH

#: Beyond it, in log odds of psi, are some per cent of the posterior.
FAR = 4.0


def counts_without_excess_zeros():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=240), rng.integers(0, 2, 240)])
    rng.integers(0, 2, 240), rng.standard_t(4, size=240)  # with these counts it was found
    return X, rng.poisson(np.exp(0.3 * X[:, 0]))


def share_beyond(X, y):
    """Posterior probability of log odds beyond FAR, by quadrature."""
    odds, first, second = np.linspace(-6, 16, 221), np.linspace(-0.5, 1, 61), np.linspace(-1, 1, 61)
    psi, zero = expit(odds), y == 0
    eta = X @ np.stack(np.meshgrid(first, second, indexing="ij")).reshape(2, -1)
    log_density = (y[:, None] * eta - np.exp(eta))[~zero].sum(axis=0)
    log_density = log_density - 0.5 * np.add.outer(first**2, second**2).ravel()
    # A Beta(2, 2) prior, and its Jacobian; psi of each count that is not zero.
    of_odds = (np.sum(~zero) + 2) * np.log(psi) + 2 * np.log1p(-psi)
    total = np.array(
        [
            np.log((1 - p) + p * np.exp(-np.exp(eta[zero]))).sum(axis=0) + log_density + each
            for p, each in zip(psi, of_odds, strict=True)
        ]
    )
    probability = np.exp(total - total.max()).sum(axis=1)
    return probability[odds > FAR].sum() / probability.sum()


def odds_of_psi(draws, **settings):
    X, y = counts_without_excess_zeros()
    with pm.Model():
        psi, beta = pm.Beta("psi", 2, 2), pm.Normal("beta", shape=2)
        pm.ZeroInflatedPoisson("y", psi, pm.math.exp(X @ beta), observed=y)
        step = FireflyMH(**settings)
        idata = pm.sample(draws, chains=4, cores=1, step=step, random_seed=1, progressbar=False)
    return step, logit(idata["posterior"]["psi"].to_numpy())


@pytest.mark.slow
def test_the_default_has_all_of_the_tail():
    """It reads all rows: conditional and surrogate moves seldom come there."""
    step, odds = odds_of_psi(2000)
    assert not step.target.subsamples
    expected = share_beyond(*counts_without_excess_zeros())
    error = np.sqrt(expected * (1.0 - expected) / float(az.ess(odds > FAR)))
    assert abs(np.mean(odds > FAR) - expected) < 4.0 * error


@pytest.mark.slow
def test_conditional_moves_warn(caplog):
    """They hardly cross into the tail, and R-hat is good; a warning names the parameter."""
    _, odds = odds_of_psi(4000, kernel="metropolis")
    expected, found = share_beyond(*counts_without_excess_zeros()), np.mean(odds > FAR)
    # The error that the diagnostics say: of so many independent draws.
    error = np.sqrt(expected * (1.0 - expected) / float(az.ess(odds)))
    print(f"{found:.4f} of the draws, {expected:.4f} of the posterior, error {error:.4f}")
    assert "psi_logodds__ is largest, its proposals were accepted" in caplog.text
