"""Pólya-Gamma Gibbs sampling of a logistic regression with random intercepts.

Given omega_n ~ PG(1, eta_n) the log-likelihood is quadratic in the predictors (Polson, Scott &
Windle 2013). So the mean, the slopes and all intercepts are drawn together from a normal
distribution, at a cost in proportion to rows and groups. The scale of the intercepts is drawn
twice, given the intercepts and given the standardised intercepts (interweaving: Yu & Meng 2011).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg, stats

from examples.benchmarks.simulation import levels

__all__ = ["sample"]

#: Standard deviations of the priors of `examples.benchmarks.hierarchies.intercepts`.
PRIOR_MU, PRIOR_BETA, PRIOR_TAU = 2.0, 1.0, 1.0


class _State(NamedTuple):
    mu: float
    beta: np.ndarray
    a: np.ndarray
    tau: float


def sample(
    X: np.ndarray, group: np.ndarray, y: np.ndarray, rng: np.random.Generator, tune: int, draws: int
) -> dict[str, np.ndarray]:
    """Draw from the posterior.

    Parameters
    ----------
    X : ndarray, shape (N, P)
    group : ndarray, shape (N,)
        Group of each row, from 0 to G - 1.
    y : ndarray, shape (N,)
        Zeros and ones.
    rng : Generator
    tune, draws : int
        Draws that are dropped, and those that are kept.

    Returns
    -------
    dict
        Draws of mu, beta, a and tau, each of shape (1, draws, ...).
    """
    from polyagamma import random_polyagamma

    n_groups = levels(group)
    kappa = y - 0.5
    state = _State(0.0, np.zeros(X.shape[1]), np.zeros(n_groups), 1.0)
    kept: list[_State] = []
    for i in range(tune + draws):
        omega = random_polyagamma(1.0, X @ state.beta + state.a[group], random_state=rng)
        sums = _Sums(X, group, kappa, omega, n_groups)
        mu, beta, a = _draw_effects(sums, state.tau, rng)
        tau = _draw_scale(state.tau, float(np.sum((a - mu) ** 2)), n_groups, rng)
        standard = (a - mu) / tau
        tau = _draw_scale_of_standardised(sums, mu, beta, standard, rng)
        state = _State(mu, beta, mu + tau * standard, tau)
        if i >= tune:
            kept.append(state)
    return {name: np.array([getattr(each, name) for each in kept])[None] for name in _State._fields}


class _Sums:
    """Sums over rows of a log-likelihood that is quadratic in predictors, by groups and of all."""

    def __init__(
        self,
        X: np.ndarray,
        group: np.ndarray,
        kappa: np.ndarray,
        omega: np.ndarray,
        n_groups: int,
    ) -> None:
        weighted = X * omega[:, None]
        self.information = weighted.T @ X
        self.slope = X.T @ kappa
        self.coupling = np.stack([np.bincount(group, w, n_groups) for w in weighted.T], axis=1)
        self.weight = np.bincount(group, omega, n_groups)
        self.kappa = np.bincount(group, kappa, n_groups)


def _draw_effects(
    sums: _Sums, tau: float, rng: np.random.Generator
) -> tuple[float, np.ndarray, np.ndarray]:
    """Draw mean, slopes and intercepts: the former with all intercepts integrated out."""
    n_groups, p = sums.coupling.shape
    precision = sums.weight + tau**-2  # of intercepts, given all else
    coupling = np.column_stack([np.full(n_groups, -(tau**-2)), sums.coupling])
    own = np.zeros((1 + p, 1 + p))
    own[0, 0] = PRIOR_MU**-2 + n_groups * tau**-2
    own[1:, 1:] = sums.information + PRIOR_BETA**-2 * np.eye(p)
    scaled = coupling / precision[:, None]
    linear = np.concatenate([[0.0], sums.slope]) - scaled.T @ sums.kappa
    factor = linalg.cholesky(own - scaled.T @ coupling, lower=True)
    standardised = linalg.solve_triangular(factor, linear, lower=True) + rng.standard_normal(1 + p)
    shared = linalg.solve_triangular(factor, standardised, lower=True, trans="T")
    mean = (sums.kappa - coupling @ shared) / precision
    a = mean + rng.standard_normal(n_groups) / np.sqrt(precision)
    return float(shared[0]), shared[1:], a


def _draw_scale(tau: float, squares: float, n_groups: int, rng: np.random.Generator) -> float:
    """Update tau given the intercepts by slice sampling of its logarithm (Neal 2003)."""

    def log_density(x: float) -> float:
        v = np.exp(2.0 * x)
        return float((1.0 - n_groups) * x - 0.5 * squares / v - 0.5 * v / PRIOR_TAU**2)

    x = np.log(tau)
    level = log_density(x) - rng.exponential()
    low = x - rng.random()
    high = low + 1.0
    while log_density(low) > level:
        low -= 1.0
    while log_density(high) > level:
        high += 1.0
    while True:
        proposed = rng.uniform(low, high)
        if log_density(proposed) > level:
            return float(np.exp(proposed))
        low, high = (proposed, high) if proposed < x else (low, proposed)


def _draw_scale_of_standardised(
    sums: _Sums, mu: float, beta: np.ndarray, standard: np.ndarray, rng: np.random.Generator
) -> float:
    """Draw tau given standardised intercepts: from a normal distribution, cut off at zero."""
    precision = float(standard**2 @ sums.weight) + PRIOR_TAU**-2
    linear = float(standard @ (sums.kappa - sums.coupling @ beta - mu * sums.weight))
    sd = precision**-0.5
    mean = linear / precision
    return float(stats.truncnorm.rvs(-mean / sd, np.inf, mean, sd, random_state=rng))
