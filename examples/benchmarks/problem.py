"""The problem that all methods solve: a logistic regression with standard normal priors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Problem:
    """Design with its intercept column, shape (N, D), float64, and labels, shape (N,), int8."""

    X: np.ndarray
    y: np.ndarray

    def save(self, folder: Path) -> None:
        """Write both arrays to a folder."""
        np.save(folder / "X.npy", self.X)
        np.save(folder / "y.npy", self.y)

    @classmethod
    def load(cls, folder: Path) -> Problem:
        """Read what `save` has written."""
        return cls(np.load(folder / "X.npy"), np.load(folder / "y.npy"))

    def model(self) -> Any:
        """Build the PyMC model: one vector `beta` of D coefficients, prior sd 1."""
        import pymc as pm

        with pm.Model() as model:
            beta = pm.Normal("beta", 0, 1, shape=self.X.shape[1])
            pm.Bernoulli("y", logit_p=self.X @ beta, observed=self.y)
        return model


def synthetic(n_rows: int, n_columns: int, seed: int) -> Problem:
    """Simulate normal predictors, the first replaced by ones; effects of total variance 9."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns))
    X[:, 0] = 1
    theta = rng.normal(size=n_columns) * 3 / np.sqrt(n_columns)
    y = rng.random(n_rows) < 1 / (1 + np.exp(-(X @ theta)))
    return Problem(X, y.astype(np.int8))


def from_file(path: Path) -> Problem:
    """Read the arrays X and y of an npz file: columns standardised, constant ones dropped."""
    with np.load(path) as arrays:
        X, y = arrays["X"].astype(np.float64), arrays["y"]
    labels = np.unique(y)
    if len(labels) != 2:
        raise SystemExit(f"{path}: y must have two values, it has {len(labels)}")
    X = X[:, X.std(axis=0) > 0]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    X = np.column_stack([np.ones(len(X)), X])
    return Problem(X, (y == labels[1]).astype(np.int8))
