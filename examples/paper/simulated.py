"""Simulated stand-ins of the shape of the paper's data, for a machine without them."""

from __future__ import annotations

import numpy as np

__all__ = ["SIMULATED"]


def mnist(n_rows: int = 12_214, n_columns: int = 50) -> tuple[np.ndarray, np.ndarray]:
    """Independent columns whose variances fall as those of MNIST's components, and two classes."""
    rng = np.random.default_rng(0)
    sd = 2.3 * np.arange(1, n_columns + 1) ** -0.5
    X = rng.normal(size=(n_rows, n_columns)) * sd
    beta = rng.normal(size=n_columns) * 0.6
    return X, (rng.logistic(size=n_rows) < X @ beta).astype(np.int8)


def cifar(n_rows: int = 18_000, n_columns: int = 256) -> tuple[np.ndarray, np.ndarray]:
    """Binary features and three classes that they tell apart with some 40 per cent of errors."""
    rng = np.random.default_rng(1)
    X = rng.integers(0, 2, size=(n_rows, n_columns)).astype(np.int8)
    eta = (X - 0.5) @ rng.normal(size=(n_columns, 3)) * 0.13
    return X, np.argmax(eta + rng.gumbel(size=eta.shape), axis=1).astype(np.int8)


def molecules(n_rows: int = 30_000, n_columns: int = 57) -> tuple[np.ndarray, np.ndarray]:
    """Correlated columns, few of which count, and Student t noise of four degrees of freedom."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n_rows, n_columns))
    X[:, 1:] += 0.8 * X[:, :-1]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    beta = rng.laplace(size=n_columns) * (rng.random(n_columns) < 0.3) * 0.3
    return X, X @ beta + 0.5 * rng.standard_t(4, size=n_rows)


SIMULATED = {"mnist": mnist, "cifar": cifar, "molecules": molecules}
