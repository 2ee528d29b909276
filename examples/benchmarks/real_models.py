"""Models on real data, and four of simulated data, that a default must not lose on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm

from examples.benchmarks.simulation import levels, yes_or_no

__all__ = ["MODELS", "SIMULATED"]


def with_intercept(X: np.ndarray) -> np.ndarray:
    """Standardise columns, but for indicators, and put an intercept before them."""
    X = X.astype(float)
    X = X[:, X.std(axis=0) > 0.0]
    numbers = ~np.all((X == 0.0) | (X == 1.0), axis=0)
    X[:, numbers] = (X[:, numbers] - X[:, numbers].mean(axis=0)) / X[:, numbers].std(axis=0)
    return np.column_stack([np.ones(len(X)), X])


def load(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray, Any]:
    """Load a set: design, outcomes, and all else that is in the file."""
    data = np.load(folder / f"{name}.npz")
    return with_intercept(data["X"]), data["y"], data


def logistic(X: np.ndarray, y: np.ndarray, sd: float = 1.0) -> pm.Model:
    """Logistic regression with N(0, sd^2) coefficients."""
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, sd, shape=X.shape[1])
        pm.Bernoulli("y", logit_p=X @ beta, observed=y.astype(int))
    return model


def softmax(X: np.ndarray, y: np.ndarray) -> pm.Model:
    """Softmax regression with N(0, 1) coefficients, the first class for reference."""
    classes, y = np.unique(y, return_inverse=True)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=(X.shape[1], len(classes) - 1))
        eta = pm.math.concatenate([np.zeros((len(X), 1)), X @ beta], axis=1)
        pm.Categorical("y", logit_p=eta, observed=y)
    return model


def robust(X: np.ndarray, y: np.ndarray) -> pm.Model:
    """Student t regression of a standardised outcome, scale and degrees of freedom free."""
    y = (y - np.median(y)) / y.std()
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=X.shape[1])
        sigma = pm.HalfNormal("sigma", 1.0)
        nu = pm.Gamma("nu", 2.0, 0.1)
        pm.StudentT("y", nu=nu, mu=X @ beta, sigma=sigma, observed=y)
    return model


def some_classes(n: int) -> Callable[[Path], pm.Model]:
    """Return a builder of the model of the first n letters."""

    def build(folder: Path) -> pm.Model:
        _, y, data = load(folder, "letter")
        few = y < n
        return softmax(with_intercept(data["X"][few]), y[few])

    return build


def flights(folder: Path) -> pm.Model:
    """Late arrivals, with effects of carriers and of airports."""
    data = np.load(folder / "flights_pnw.npz")
    column = dict(zip(data["feature_names"], data["X"].T, strict=True))
    numbers = [column[name] for name in ("month", "sched_dep_minute", "distance_miles", "source")]
    X, y = with_intercept(np.column_stack(numbers)), data["y"]
    groups = [np.unique(column[name], return_inverse=True)[1] for name in ("carrier", "dest")]
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=X.shape[1])
        eta = X @ beta
        for i, group in enumerate(groups):
            sigma = pm.HalfNormal(f"sigma_{i}", 1.0)
            raw = pm.Normal(f"raw_{i}", 0.0, 1.0, shape=levels(group))
            eta = eta + (sigma * raw)[group]
        pm.Bernoulli("y", logit_p=eta, observed=(y > 15).astype(int))
    return model


def simulated(n_rows: int, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a logistic regression."""
    rng = np.random.default_rng(20)
    X = np.column_stack([np.ones(n_rows), rng.normal(size=(n_rows, len(beta) - 1))])
    return X, yes_or_no(X @ beta, rng)


def horseshoe(centred: bool) -> Callable[[Path], pm.Model]:
    """Return a builder: three of thirty coefficients are not zero; the prior is a horseshoe."""

    def build(folder: Path) -> pm.Model:
        X, y = simulated(20_000, np.array([0.0, 1.0, -1.0, 0.5] + [0.0] * 27))
        with pm.Model() as model:
            tau = pm.HalfCauchy("tau", 0.1)
            local = pm.HalfCauchy("local", 1.0, shape=X.shape[1])
            if centred:
                beta = pm.Normal("beta", 0.0, tau * local, shape=X.shape[1])
            else:
                beta = tau * local * pm.Normal("z", 0.0, 1.0, shape=X.shape[1])
            pm.Bernoulli("y", logit_p=X @ beta, observed=y)
        return model

    return build


def rare_outcome(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """One row of a thousand has the outcome."""
    beta = 0.5 * np.random.default_rng(21).normal(size=22)
    beta[0] = -8.0
    return simulated(141_691, beta)


def random_slopes(folder: Path) -> pm.Model:
    """Build a model of 300 groups with intercepts and a slope, non-centred."""
    rng = np.random.default_rng(22)
    group = rng.integers(0, 300, 100_000)
    X, _ = simulated(100_000, np.zeros(6))
    effects = rng.normal(size=(300, 2)) * np.array([0.5, 0.3])
    eta = X @ (0.5 * rng.normal(size=6)) + effects[group, 0] + effects[group, 1] * X[:, 1]
    y = yes_or_no(eta, rng)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=6)
        sigma = pm.HalfNormal("sigma", 1.0, shape=2)
        raw = pm.Normal("raw", 0.0, 1.0, shape=(300, 2))
        of_rows = (sigma * raw)[group]
        pm.Bernoulli("y", logit_p=X @ beta + of_rows[:, 0] + of_rows[:, 1] * X[:, 1], observed=y)
    return model


def binary(
    name: str, positive: int | None = None
) -> Callable[[Path], tuple[np.ndarray, np.ndarray]]:
    """Return a reader of a set's design and outcomes; of one class against all others."""

    def read(folder: Path) -> tuple[np.ndarray, np.ndarray]:
        X, y, _ = load(folder, name)
        return X, y > 0 if positive is None else y == positive

    return read


def logistic_on(read: Callable[[Path], tuple[np.ndarray, np.ndarray]]) -> Callable[[Path], Any]:
    """Return a builder of the logistic regression on what is read."""
    return lambda folder: logistic(*read(folder))


#: Designs and outcomes of the logistic regressions: readers that take the folder of the data.
LOGISTIC: dict[str, Callable[[Path], tuple[np.ndarray, np.ndarray]]] = {
    "skin": binary("skin"),
    "covtype, one class against all": binary("covtype_92k", 1),
    "adult, all columns": binary("adult"),
    "kddcup99, normal or not": binary("kddcup99_10pct"),
    "mnist, 7 or 9, 50 components": binary("mnist_7v9_pca50"),
    "a rare outcome (simulated)": rare_outcome,
}
#: By name, as in the table of the page: builders that take the folder of the data.
MODELS: dict[str, Callable[[Path], pm.Model]] = {
    **{name: logistic_on(read) for name, read in LOGISTIC.items()},
    "mnist, 10 digits": lambda folder: softmax(*load(folder, "mnist10_14x14")[:2]),
    "letter, 4 classes": some_classes(4),
    "letter, 10 classes": some_classes(10),
    "letter, 26 classes": some_classes(26),
    "covtype, 7 classes": lambda folder: softmax(*load(folder, "covtype_92k")[:2]),
    "cifar, 3 classes": lambda folder: softmax(*load(folder, "cifar3")[:2]),
    "california, Student t": lambda folder: robust(*load(folder, "california_housing")[:2]),
    "diamonds, Student t": lambda folder: robust(*load(folder, "diamonds")[:2]),
    "cep, Student t": lambda folder: robust(*load(folder, "cep_opv_30k")[:2]),
    "flights, effects of carriers and airports": flights,
    "random slopes of 300 groups (simulated)": random_slopes,
    "horseshoe, centred (simulated)": horseshoe(centred=True),
    "horseshoe, non-centred": horseshoe(centred=False),
}
#: Those that need no files.
SIMULATED = (
    "a rare outcome (simulated)",
    "random slopes of 300 groups (simulated)",
    "horseshoe, centred (simulated)",
    "horseshoe, non-centred",
)
