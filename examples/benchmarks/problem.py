"""The problems that all methods solve: regressions with weakly informative priors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from examples.benchmarks.noise import NOISE
from examples.benchmarks.simulation import above_zero, levels

LIKELIHOODS = (
    "logistic",
    "normal",
    "probit",
    "binomial",
    "durations",
    "weibull",
    "gamma",
    "softmax",
    "ordered",
    "robust",
    "quantile",
    "poisson",
    "negative-binomial",
    "zero-inflated",
    "hurdle",
    "hurdle-negative-binomial",
    "beta",
    "beta-binomial",
    "groups",
    "groups-poisson",
    "groups-probit",
    "slopes",
    *NOISE,
)
#: Classes of the softmax regression, if nothing else is said.
CLASSES = 3
#: Cutpoints between ordered levels.
CUTPOINTS = (-1.5, -0.5, 0.5, 1.5)
#: Shape of durations, known or free, and the time at which they are censored.
SHAPE, END = 1.5, 2.0
#: Chance of a count that is not a zero for a reason of its own; alpha of counts behind a hurdle.
PSI, ALPHA = 0.6, 2.0
#: nu of shares.
NU = 8.0
#: Those whose effects have a total variance of 1/4.
COUNTS = (
    "poisson",
    "negative-binomial",
    "zero-inflated",
    "hurdle",
    "hurdle-negative-binomial",
)
#: Trials of a row in a binomial regression; groups in one with random intercepts, by default.
TRIALS, GROUPS = 10, 1000


@dataclass(frozen=True)
class Problem:
    """Design with its intercept column, shape (N, D), float64, and outcomes, shape (N,).

    With random intercepts ("groups") and correlated slopes of the second column ("slopes"), also
    the group of each row.
    """

    X: np.ndarray
    y: np.ndarray
    likelihood: str = "logistic"
    group: np.ndarray | None = None

    @property
    def n_bytes(self) -> int:
        """Memory of all arrays."""
        return sum(a.nbytes for a in (self.X, self.y, self.group) if a is not None)

    def save(self, folder: Path) -> None:
        """Write all arrays to a folder."""
        np.save(folder / "X.npy", self.X)
        np.save(folder / "y.npy", self.y)
        if self.group is not None:
            np.save(folder / "group.npy", self.group)
        (folder / "likelihood").write_text(self.likelihood)

    @classmethod
    def load(cls, folder: Path) -> Problem:
        """Read what `save` has written."""
        arrays = np.load(folder / "X.npy"), np.load(folder / "y.npy")
        group = folder / "group.npy"
        likelihood = (folder / "likelihood").read_text()
        return cls(*arrays, likelihood, np.load(group) if group.exists() else None)

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
            if self.likelihood == "ordered":
                # Cutpoints are intercepts: in the place of the first column.
                beta = pm.Normal("beta", 0, 1, shape=n_columns - 1)
                ordered = pm.distributions.transforms.ordered
                cutpoints = pm.Normal("cutpoints", CUTPOINTS, 2, transform=ordered)
                eta = self.X[:, 1:] @ beta
                pm.OrderedLogistic("y", eta, cutpoints, observed=self.y, compute_p=False)
                return model
            beta = pm.Normal("beta", 0, 1, shape=n_columns)
            if self.likelihood in NOISE:
                NOISE[self.likelihood].observe(self.X @ beta, self.X, self.y)
            elif self.likelihood == "robust":
                nu, sigma = pm.Gamma("nu", 2, 0.1), pm.HalfNormal("sigma", 2)
                pm.StudentT("y", nu=nu, mu=self.X @ beta, sigma=sigma, observed=self.y)
            elif self.likelihood == "normal":
                sigma = pm.HalfNormal("sigma", 2)
                pm.Normal("y", mu=self.X @ beta, sigma=sigma, observed=self.y)
            elif self.likelihood == "durations":
                distribution = pm.Weibull.dist(SHAPE, pm.math.exp(self.X @ beta))
                pm.Censored("y", distribution, lower=None, upper=END, observed=self.y)
            elif self.likelihood == "weibull":
                distribution = pm.Weibull.dist(pm.HalfNormal("k", 2), pm.math.exp(self.X @ beta))
                pm.Censored("y", distribution, lower=None, upper=END, observed=self.y)
            elif self.likelihood == "gamma":
                k = pm.HalfNormal("k", 2)
                pm.Gamma("y", alpha=k, beta=k / pm.math.exp(self.X @ beta), observed=self.y)
            elif self.likelihood == "quantile":
                b = pm.HalfNormal("b", 2)
                pm.AsymmetricLaplace("y", q=0.75, mu=self.X @ beta, b=b, observed=self.y)
            elif self.likelihood == "poisson":
                pm.Poisson("y", mu=pm.math.exp(self.X @ beta), observed=self.y)
            elif self.likelihood == "negative-binomial":
                alpha = pm.Gamma("alpha", 2, 0.5)
                mu = pm.math.exp(self.X @ beta)
                pm.NegativeBinomial("y", mu=mu, alpha=alpha, observed=self.y)
            elif self.likelihood in ("zero-inflated", "hurdle", "hurdle-negative-binomial"):
                psi, mu = pm.Beta("psi", 1, 1), pm.math.exp(self.X @ beta)
                if self.likelihood == "zero-inflated":
                    pm.ZeroInflatedPoisson("y", psi, mu, observed=self.y)
                elif self.likelihood == "hurdle":
                    pm.HurdlePoisson("y", psi, mu, observed=self.y)
                else:
                    pm.HurdleNegativeBinomial("y", psi, mu=mu, alpha=ALPHA, observed=self.y)
            elif self.likelihood == "beta":
                nu, mu = pm.Exponential("nu", 0.1), pm.math.sigmoid(self.X @ beta)
                pm.Beta("y", mu=mu, nu=nu, observed=self.y)
            elif self.likelihood == "beta-binomial":
                nu, mu = pm.Exponential("nu", 0.1), pm.math.sigmoid(self.X @ beta)
                pm.BetaBinomial("y", n=TRIALS, alpha=nu * mu, beta=nu * (1 - mu), observed=self.y)
            elif self.likelihood == "binomial":
                pm.Binomial("y", n=TRIALS, logit_p=self.X @ beta, observed=self.y)
            elif self.likelihood == "probit":
                pm.Bernoulli("y", p=pm.math.invprobit(self.X @ beta), observed=self.y)
            elif self.group is not None:
                eta = self.X @ beta + self._effects()
                if self.likelihood == "groups-poisson":
                    pm.Poisson("y", mu=pm.math.exp(eta), observed=self.y)
                elif self.likelihood == "groups-probit":
                    pm.Bernoulli("y", p=pm.math.invprobit(eta), observed=self.y)
                else:
                    pm.Bernoulli("y", logit_p=eta, observed=self.y)
            else:
                pm.Bernoulli("y", logit_p=self.X @ beta, observed=self.y)
        return model

    def _effects(self) -> Any:
        """Add intercepts of groups to the model, or correlated intercepts and slopes."""
        import pymc as pm

        group = self.group
        assert group is not None
        n_groups = levels(group)
        if self.likelihood != "slopes":
            sigma = pm.HalfNormal("sigma", 1)
            return pm.Normal("effect", 0, sigma, shape=n_groups)[group]
        scales = pm.HalfNormal.dist(1, shape=2)
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=scales)
        effects = pm.Normal("z", 0, 1, shape=(n_groups, 2)) @ chol.T
        return effects[group, 0] + effects[group, 1] * self.X[:, 1]


def synthetic(
    n_rows: int,
    n_columns: int,
    seed: int,
    likelihood: str = "logistic",
    classes: int = CLASSES,
    groups: int = GROUPS,
) -> Problem:
    """Simulate normal predictors, the first replaced by ones.

    The effects have a total variance of 9 in a logistic regression, of 4 in each class of a
    softmax regression, of 1/4 for counts, and of 1 else.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns))
    X[:, 0] = 1
    y: np.ndarray
    if likelihood == "softmax":
        eta = X @ (rng.normal(size=(n_columns, classes)) * 2 / np.sqrt(n_columns))
        y = np.argmax(eta + rng.gumbel(size=eta.shape), axis=1).astype(np.int8)
        return Problem(X, y, likelihood)
    sd = {"logistic": 3.0} | dict.fromkeys(COUNTS, 0.5)
    eta = X @ (rng.normal(size=n_columns) * sd.get(likelihood, 1.0) / np.sqrt(n_columns))
    group = None
    if likelihood in NOISE:
        y = NOISE[likelihood].simulate(eta, X, rng)
    elif likelihood in ("robust", "quantile"):
        y = eta + 0.7 * rng.standard_t(4, size=n_rows)
    elif likelihood == "normal":
        y = eta + 0.7 * rng.normal(size=n_rows)
    elif likelihood == "gamma":
        y = np.exp(eta) * rng.gamma(SHAPE, 1 / SHAPE, size=n_rows)
    elif likelihood in ("durations", "weibull"):
        y = np.minimum(np.exp(eta) * rng.weibull(SHAPE, size=n_rows), END)
    elif likelihood == "poisson":
        y = rng.poisson(np.exp(eta))
    elif likelihood == "negative-binomial":
        y = rng.poisson(np.exp(eta) * rng.gamma(2.0, 0.5, size=n_rows))
    elif likelihood == "zero-inflated":
        y = rng.poisson(np.exp(eta)) * (rng.random(n_rows) < PSI)
    elif likelihood.startswith("hurdle"):
        mu = np.exp(eta)
        plain = likelihood == "hurdle"
        distribution = stats.poisson(mu) if plain else stats.nbinom(ALPHA, ALPHA / (ALPHA + mu))
        y = above_zero(distribution, rng) * (rng.random(n_rows) < PSI)
    elif likelihood in ("beta", "beta-binomial"):
        mean = 1 / (1 + np.exp(-eta))
        # A share so near to one that it is rounded to it has no density.
        y = np.clip(rng.beta(NU * mean, NU * (1 - mean)), 1e-6, 1 - 1e-6)
        y = rng.binomial(TRIALS, y) if likelihood == "beta-binomial" else y
    elif likelihood == "binomial":
        y = rng.binomial(TRIALS, 1 / (1 + np.exp(-eta)))
    elif likelihood == "probit":
        y = (eta + rng.normal(size=n_rows) > 0).astype(np.int8)
    elif likelihood == "ordered":
        latent = X[:, 1:] @ (rng.normal(size=n_columns - 1) / np.sqrt(n_columns))
        latent += rng.logistic(size=n_rows)
        y = np.searchsorted(CUTPOINTS, latent).astype(np.int8)
    elif likelihood.startswith("groups"):
        group = rng.integers(groups, size=n_rows)
        eta = eta + 0.7 * rng.normal(size=groups)[group]
        if likelihood == "groups-poisson":
            y = rng.poisson(np.exp(eta))
        elif likelihood == "groups-probit":
            y = (eta + rng.normal(size=n_rows) > 0).astype(np.int8)
        else:
            y = (rng.random(n_rows) < 1 / (1 + np.exp(-eta))).astype(np.int8)
    elif likelihood == "slopes":
        group = rng.integers(groups, size=n_rows)
        a, b = np.array([[0.8, 0.0], [0.2, 0.35]]) @ rng.normal(size=(2, groups))
        eta = eta + a[group] + b[group] * X[:, 1]
        y = (rng.random(n_rows) < 1 / (1 + np.exp(-eta))).astype(np.int8)
    else:
        y = (rng.random(n_rows) < 1 / (1 + np.exp(-eta))).astype(np.int8)
    return Problem(X, y, likelihood, group)


def from_file(path: Path) -> Problem:
    """Read the arrays X and y of an npz file: columns standardised, constant ones dropped.

    With two labels in y the regression is logistic, with more softmax.
    """
    with np.load(path) as arrays:
        X, y = arrays["X"].astype(np.float64), arrays["y"]
    labels, y = np.unique(y, return_inverse=True)
    if not 2 <= len(labels) <= 100:
        raise SystemExit(f"{path}: y must have two labels or some more, it has {len(labels)}")
    X = X[:, X.std(axis=0) > 0]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    X = np.column_stack([np.ones(len(X)), X])
    return Problem(X, y.astype(np.int8), "logistic" if len(labels) == 2 else "softmax")
