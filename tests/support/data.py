"""Rows: real data sets, and simulated ones."""

import os
from pathlib import Path

import numpy as np
import pytest

from pymc_flymc.regression.design import Design


def load_data(name):
    """Arrays of a real data set, as a dict; skip the test where the data folder is absent."""
    default = Path(__file__).resolve().parents[3] / "shared" / "data"
    path = Path(os.environ.get("PYMC_FLYMC_DATA", default)) / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"needs {name}.npz: set PYMC_FLYMC_DATA to the folder that holds it")
    with np.load(path, allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def standardised(X):
    """Float64 columns of mean 0 and sd 1, constant ones left at 0, after a column of ones."""
    X = np.asarray(X, dtype=np.float64)
    sd = X.std(axis=0)
    return np.column_stack([np.ones(len(X)), (X - X.mean(axis=0)) / np.where(sd > 0, sd, 1.0)])


def log_sigmoid(s):
    return -np.logaddexp(0.0, -s)


def logistic_rows(n, theta=(-0.5, 0.25, 1.0), seed=0, spread=None):
    """Design (n, D), its first column ones, and outcomes of a logistic regression.

    Where `theta` is a number of coefficients, they are drawn, with standard deviation `spread`,
    by default 1.5 for the sum of them all.
    """
    rng = np.random.default_rng(seed)
    d = theta if isinstance(theta, int) else len(theta)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, d - 1))])
    if isinstance(theta, int):
        theta = (spread or 1.5 / np.sqrt(d)) * rng.normal(size=d)
    return X, (rng.random(n) < np.exp(log_sigmoid(X @ theta))).astype(int)


def softmax_rows(n, d, k, seed=0):
    """Design (n, d), its first column ones, and classes of a softmax regression."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, d - 1))])
    eta = X @ rng.normal(size=(d, k))
    return X, np.argmax(eta + rng.gumbel(size=eta.shape), axis=1)


def exposed_rows(n, d, seed):
    """Generator of outcomes, design (n, d), its first column ones, and exposures (n,)."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, d - 1))])
    return rng, X, rng.uniform(0.5, 2.0, n)


def late_flights(n):
    """Design of some flights, and quarters of an hour by which they were late."""
    flights = load_data("flights_pnw")
    chosen = np.random.default_rng(0).choice(len(flights["y"]), n, replace=False)
    names = list(flights["feature_names"])
    columns = [names.index(name) for name in ("month", "dow", "sched_dep_minute", "distance_miles")]
    y = np.maximum(flights["y"][chosen], 0) // 15
    return standardised(flights["X"][chosen][:, columns]), y.astype(int)


def dense_rows(X):
    """Rows of a design without offset and intercept, as sums over them take them."""
    return Design(X, np.empty((0, 1)), False).matrix(slice(None))
