"""Posterior mode and the covariance there, which many of the methods start from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from examples.comparison.clock import clock
from examples.comparison.problem import Problem


@dataclass(frozen=True)
class Laplace:
    """Gaussian approximation to the posterior.

    Attributes
    ----------
    mode : shape (D,).
    factor : Cholesky factor of the covariance, shape (D, D): coordinates v with
        theta = mode + factor v are nearly standard normal.
    rows, seconds : that the search has taken.
    """

    mode: np.ndarray
    factor: np.ndarray
    rows: int
    seconds: float


def log_densities(problem: Problem, thetas: np.ndarray) -> np.ndarray:
    """Log posterior densities, up to a constant, of the columns of `thetas` (D, B)."""
    out = log_priors(thetas)
    for start in range(0, len(problem.y), 512):
        eta = problem.X[start : start + 512] @ thetas
        out += problem.y[start : start + 512] @ eta
        out -= softplus(eta).sum(axis=0)
    return out


def softplus(eta: np.ndarray) -> np.ndarray:
    """Return log(1 + exp(eta)), in place, for eta below 500; `log1p` takes longer."""
    np.exp(np.minimum(eta, 500, out=eta), out=eta)
    eta += 1
    return np.log(eta, out=eta)


def log_priors(thetas: np.ndarray) -> np.ndarray:
    """Log prior densities of the columns of `thetas` (D, B)."""
    return -(np.abs(thetas) + 2 * np.log1p(np.exp(-np.abs(thetas)))).sum(axis=0)


def laplace(problem: Problem) -> Laplace:
    """Damped Newton steps; the prior takes part as rows."""
    began = clock()
    X, y = problem.with_prior_as_rows()
    theta, passes = np.zeros(X.shape[1]), 1
    value = log_densities(problem, theta[:, None])[0]
    while True:
        p = 1 / (1 + np.exp(-(X @ theta)))
        precision = X.T @ (X * (p * (1 - p))[:, None])
        step = np.linalg.solve(precision, X.T @ (y - p))
        passes += 1
        if step @ precision @ step < 1e-8:
            factor = np.linalg.cholesky(np.linalg.inv(precision))
            return Laplace(theta, factor, passes * len(problem.y), clock() - began)
        scale, new = 2.0, -np.inf
        while new < value and scale > 1e-6:
            scale /= 2
            new = log_densities(problem, (theta + scale * step)[:, None])[0]
            passes += 1
        theta, value = theta + scale * step, new
