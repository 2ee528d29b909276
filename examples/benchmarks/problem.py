"""The problems that all methods solve: regressions with weakly informative priors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

LIKELIHOODS = ("logistic", "softmax", "robust", "poisson")
#: Classes of the softmax regression, if nothing else is said.
CLASSES = 3


@dataclass(frozen=True)
class Problem:
    """Design with its intercept column, shape (N, D), float64, and outcomes, shape (N,)."""

    X: np.ndarray
    y: np.ndarray
    likelihood: str = "logistic"

    def save(self, folder: Path) -> None:
        """Write both arrays to a folder."""
        np.save(folder / "X.npy", self.X)
        np.save(folder / "y.npy", self.y)
        (folder / "likelihood").write_text(self.likelihood)

    @classmethod
    def load(cls, folder: Path) -> Problem:
        """Read what `save` has written."""
        arrays = np.load(folder / "X.npy"), np.load(folder / "y.npy")
        return cls(*arrays, (folder / "likelihood").read_text())

    def model(self) -> Any:
        """Build the PyMC model: `beta` with D coefficients (of each class but one), prior sd 1."""
        import pymc as pm
        import pytensor.tensor as pt

        n_rows, n_columns = self.X.shape
        with pm.Model() as model:
            if self.likelihood == "softmax":
                beta = pm.Normal("beta", 0, 1, shape=(n_columns, int(self.y.max())))
                eta = pt.concatenate([np.zeros((n_rows, 1)), self.X @ beta], axis=1)
                pm.Categorical("y", logit_p=eta, observed=self.y)
                return model
            beta = pm.Normal("beta", 0, 1, shape=n_columns)
            if self.likelihood == "robust":
                nu, sigma = pm.Gamma("nu", 2, 0.1), pm.HalfNormal("sigma", 2)
                pm.StudentT("y", nu=nu, mu=self.X @ beta, sigma=sigma, observed=self.y)
            elif self.likelihood == "poisson":
                pm.Poisson("y", mu=pm.math.exp(self.X @ beta), observed=self.y)
            else:
                pm.Bernoulli("y", logit_p=self.X @ beta, observed=self.y)
        return model


def synthetic(
    n_rows: int, n_columns: int, seed: int, likelihood: str = "logistic", classes: int = CLASSES
) -> Problem:
    """Simulate normal predictors, the first replaced by ones.

    The effects have a total variance of 9 in a logistic regression, of 4 in each class of a
    softmax regression, of 1 in a robust and of 1/4 in a Poisson regression.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns))
    X[:, 0] = 1
    y: np.ndarray
    if likelihood == "softmax":
        eta = X @ (rng.normal(size=(n_columns, classes)) * 2 / np.sqrt(n_columns))
        y = np.argmax(eta + rng.gumbel(size=eta.shape), axis=1).astype(np.int8)
        return Problem(X, y, likelihood)
    sd = {"logistic": 3.0, "robust": 1.0, "poisson": 0.5}[likelihood]
    eta = X @ (rng.normal(size=n_columns) * sd / np.sqrt(n_columns))
    if likelihood == "robust":
        y = eta + 0.7 * rng.standard_t(4, size=n_rows)
    elif likelihood == "poisson":
        y = rng.poisson(np.exp(eta))
    else:
        y = (rng.random(n_rows) < 1 / (1 + np.exp(-eta))).astype(np.int8)
    return Problem(X, y, likelihood)


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
