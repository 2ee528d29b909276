"""Two logistic regressions that all methods solve: a tall one and an awkward one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

#: Rows by default and with `--full`.
TALL, TALLER = 100_000, 1_000_000
AWKWARD, MORE_AWKWARD = 50_000, 500_000


@dataclass(frozen=True)
class Problem:
    """Logistic regression; each coefficient has the prior Logistic(0, 1), with sd 1.8.

    The density of that prior is the likelihood of two rows, one of each label, whose predictors
    are zero but for a one: methods that know of rows only can have it, too.

    Attributes
    ----------
    name : of the problem, as in file names.
    title : what it is, in words.
    X : design with its intercept column, float64, shape (N, D).
    y : labels, float64, shape (N,).
    """

    name: str
    title: str
    X: np.ndarray
    y: np.ndarray

    def with_prior_as_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Design and labels, shapes (N + 2 D, D) and (N + 2 D,): the prior comes last."""
        one = np.eye(self.X.shape[1])
        labels = np.repeat([0.0, 1.0], len(one))
        return np.concatenate([self.X, one, one]), np.concatenate([self.y, labels])

    def model(self) -> Any:
        """Build the PyMC model, as a user writes it."""
        import pymc as pm

        with pm.Model() as model:
            beta = pm.Logistic("beta", 0, 1, shape=self.X.shape[1])
            pm.Bernoulli("y", logit_p=self.X @ beta, observed=self.y.astype(np.int8))
        return model


def tall(n_rows: int = TALL, seed: int = 0) -> Problem:
    """Ten normal predictors and an intercept; effects of total variance 9."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 11))
    X[:, 0] = 1
    y = _labels(X @ (rng.normal(size=11) * 3 / np.sqrt(11)), rng)
    return Problem("tall", f"simulated, N = {n_rows:,}, D = 11", X, y)


def awkward(n_rows: int = AWKWARD, seed: int = 0) -> Problem:
    """Rare categories and one per cent of positive labels.

    Six correlated predictors, twenty indicators that are one in 10 to 0.05 per cent of the rows,
    and an intercept. Among the rows of the rarest indicators few have a positive label, or none.
    """
    rng = np.random.default_rng(seed)
    normal = rng.normal(size=(n_rows, 6)) + rng.normal(size=(n_rows, 1))
    rare = rng.random((n_rows, 20)) < np.geomspace(0.1, 0.0005, 20)
    X = np.column_stack([np.ones(n_rows), normal, rare])
    eta = X @ np.concatenate([[0.0], rng.normal(size=6) * 0.4, rng.normal(size=20) * 0.8])
    low, high = -20.0, 0.0
    for _ in range(40):  # the intercept that makes one per cent of the labels positive
        middle = (low + high) / 2
        if np.mean(1 / (1 + np.exp(-eta - middle))) < 0.01:
            low = middle
        else:
            high = middle
    title = f"simulated, N = {n_rows:,}, D = {X.shape[1]}, rare categories, 1 % positive"
    return Problem("awkward", title, X, _labels(eta + low, rng))


def adult(folder: Path) -> Problem:
    """Read the census data from `adult.npz`: numbers standardised, indicators as they are."""
    with np.load(folder / "adult.npz") as arrays:
        X, y = arrays["X"].astype(np.float64), arrays["y"].astype(np.float64)
    numeric = np.any((X != 0) & (X != 1), axis=0)
    X[:, numeric] = (X[:, numeric] - X[:, numeric].mean(axis=0)) / X[:, numeric].std(axis=0)
    X = np.column_stack([np.ones(len(X)), X])
    title = f"census (adult), N = {len(X):,}, D = {X.shape[1]}, {100 * y.mean():.0f} % positive"
    return Problem("awkward", title, X, y)


def _labels(eta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (rng.random(len(eta)) < 1 / (1 + np.exp(-eta))).astype(np.float64)
