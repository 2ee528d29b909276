"""Small models that are calibrated, hierarchical ones among them, and the steps they are for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm

from pymc_flymc import FireflyHMC, FireflyMALA, FireflyMH, FireflySlice

__all__ = ["MODELS", "Calibrated"]

N = 60
_rng = np.random.default_rng(0)
X = np.column_stack([np.ones(N), _rng.normal(size=(N, 2))])
GROUP = np.arange(N) % 6
EXPOSURE = _rng.uniform(0.5, 2.0, N)
exp = pm.math.exp


@dataclass(frozen=True)
class Calibrated:
    """A model and how it is sampled.

    Attributes
    ----------
    write : callable
        Writes the model in a context; of outcomes that it is given as observed.
    step : callable
        Returns the step.
    outcomes : tuple of str
    """

    write: Callable[..., None]
    step: Callable[[], Any] = FireflyMH
    outcomes: tuple[str, ...] = ("y",)


def _coefficients() -> Any:
    return X @ pm.Normal("b", 0.0, 0.7, shape=3)


def _effects(centred: bool) -> Any:
    mu, tau = pm.Normal("mu", 0.0, 0.7), pm.LogNormal("tau", -0.7, 0.5)
    if centred:
        return pm.Normal("a", mu, tau, shape=6)[GROUP]
    return mu + tau * pm.Normal("z", 0.0, 1.0, shape=6)[GROUP]


def _logistic(y: Any = None) -> None:
    pm.Bernoulli("y", logit_p=_coefficients(), observed=y)


def _counts(y: Any = None) -> None:
    pm.Poisson("y", EXPOSURE * exp(_coefficients()), observed=y)


def _centred(y: Any = None) -> None:
    pm.Bernoulli("y", logit_p=_effects(True), observed=y)


def _non_centred(y: Any = None) -> None:
    pm.Poisson("y", exp(_effects(False)), observed=y)


def _slopes(y: Any = None) -> None:
    """Intercepts and slopes by group, and noise."""
    tau, omega = pm.LogNormal("tau", -0.7, 0.4), pm.LogNormal("omega", -0.7, 0.4)
    a, b = pm.Normal("a", 0.0, tau, shape=6), pm.Normal("b", 0.5, omega, shape=6)
    sigma = pm.LogNormal("sigma", -0.5, 0.4)
    pm.Normal("y", a[GROUP] + b[GROUP] * X[:, 1], sigma, observed=y)


def _shrunk(y: Any = None) -> None:
    """Coefficients of one scale."""
    tau = pm.LogNormal("tau", -1.0, 0.6)
    pm.Poisson("y", exp(0.5 + X[:, 1:] @ pm.Normal("b", 0.0, tau, shape=2)), observed=y)


def _dispersed(y: Any = None) -> None:
    alpha = pm.LogNormal("alpha", 0.5, 0.5)
    pm.NegativeBinomial("y", mu=exp(_coefficients()), alpha=alpha, observed=y)


def _robust(y: Any = None) -> None:
    sigma = pm.LogNormal("sigma", -0.3, 0.4)
    pm.StudentT("y", nu=4.0, mu=_coefficients(), sigma=sigma, observed=y)


def _ordered(y: Any = None) -> None:
    cut = pm.Normal("cut", -0.5, 0.5)
    slope = pm.Normal("b", 0.0, 0.8)
    cuts = pm.math.stack([cut, cut + 1.0])
    pm.OrderedLogistic("y", eta=X[:, 1] * slope, cutpoints=cuts, observed=y)


def _classes(y: Any = None) -> None:
    W = pm.Normal("W", 0.0, 0.7, shape=(3, 2))
    eta = pm.math.concatenate([np.zeros((N, 1)), pm.math.dot(X, W)], axis=1)
    pm.Categorical("y", logit_p=eta, observed=y)


def _durations(y: Any = None) -> None:
    shape = pm.LogNormal("shape", 0.2, 0.3)
    ends = pm.Weibull.dist(shape, exp(_coefficients()))
    pm.Censored("y", ends, lower=None, upper=2.0, observed=y)


def _amounts(y: Any = None) -> None:
    k = pm.LogNormal("k", 0.5, 0.4)
    pm.Gamma("y", alpha=k, beta=k / exp(_coefficients()), observed=y)


def _two(y: Any = None, bought: Any = None) -> None:
    """Two likelihoods of the same coefficients."""
    b = pm.Normal("b", 0.0, 0.6, shape=3)
    pm.Poisson("y", exp(X @ b), observed=y)
    pm.Bernoulli("bought", logit_p=0.3 - X[:, 2] * b[2], observed=bought)


MODELS = {
    "logistic": Calibrated(_logistic),
    "counts": Calibrated(_counts),
    "intercepts, centred": Calibrated(_centred),
    "intercepts, centred, local": Calibrated(_centred, lambda: FireflyMH(kernel="local")),
    "intercepts, not centred": Calibrated(_non_centred, FireflyHMC),
    "intercepts and slopes": Calibrated(_slopes, FireflyHMC),
    "coefficients of one scale": Calibrated(_shrunk),
    "dispersed counts": Calibrated(_dispersed),
    "robust": Calibrated(_robust, FireflyMALA),
    "ordered": Calibrated(_ordered),
    "classes": Calibrated(_classes, FireflySlice),
    "durations": Calibrated(_durations),
    "amounts": Calibrated(_amounts),
    "two likelihoods": Calibrated(_two, outcomes=("y", "bought")),
}
