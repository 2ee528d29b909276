"""Outcomes around a linear predictor: censored, truncated, skew, of scales that differ, angles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

__all__ = ["NOISE", "Noise"]

#: Of the noise; the limit below which nothing is seen; skewness; degrees of freedom; concentration
#: of angles.
SD, LIMIT, SKEWNESS, NU, KAPPA = 0.7, -0.5, 3.0, 4.0, 2.0


@dataclass(frozen=True)
class Noise:
    """A distribution of outcomes.

    Attributes
    ----------
    simulate : callable
        ``simulate(eta, X, rng)`` returns outcomes, shape (N,).
    observe : callable
        ``observe(eta, X, y)`` adds them, as ``"y"``, to the PyMC model of the context.
    """

    simulate: Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]
    observe: Callable[[Any, np.ndarray, np.ndarray], None]


def _sigma() -> Any:
    import pymc as pm

    return pm.HalfNormal("sigma", 2)


def _simulate_censored(eta: np.ndarray, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.maximum(rng.normal(eta, SD), LIMIT)


def _observe_censored(eta: Any, X: np.ndarray, y: np.ndarray) -> None:
    import pymc as pm

    pm.Censored("y", pm.Normal.dist(eta, _sigma()), lower=LIMIT, upper=None, observed=y)


def _simulate_truncated(eta: np.ndarray, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return stats.truncnorm((LIMIT - eta) / SD, np.inf, eta, SD).rvs(random_state=rng)


def _observe_truncated(eta: Any, X: np.ndarray, y: np.ndarray) -> None:
    import pymc as pm

    pm.TruncatedNormal("y", eta, _sigma(), lower=LIMIT, observed=y)


def _simulate_scales(eta: np.ndarray, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(eta, np.exp(X @ np.linspace(-0.4, 0.2, X.shape[1])))


def _observe_scales(eta: Any, X: np.ndarray, y: np.ndarray) -> None:
    import pymc as pm

    gamma = pm.Normal("gamma", 0, 1, shape=X.shape[1])
    pm.Normal("y", eta, pm.math.exp(X @ gamma), observed=y)


def _simulate_tails(eta: np.ndarray, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return eta + np.exp(X @ np.linspace(-0.4, 0.2, X.shape[1])) * rng.standard_t(NU, len(eta))


def _observe_tails(eta: Any, X: np.ndarray, y: np.ndarray) -> None:
    import pymc as pm

    gamma = pm.Normal("gamma", 0, 1, shape=X.shape[1])
    pm.StudentT("y", nu=NU, mu=eta, sigma=pm.math.exp(X @ gamma), observed=y)


def _simulate_trials(eta: np.ndarray, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.geometric(1 / (1 + np.exp(-eta)))


def _observe_trials(eta: Any, X: np.ndarray, y: np.ndarray) -> None:
    import pymc as pm

    pm.Geometric("y", p=pm.math.sigmoid(eta), observed=y)


def _simulate_angles(eta: np.ndarray, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.angle(np.exp(1j * (eta + rng.vonmises(0.0, KAPPA, len(eta)))))


def _observe_angles(eta: Any, X: np.ndarray, y: np.ndarray) -> None:
    import pymc as pm

    pm.VonMises("y", eta, KAPPA, observed=y)


def _simulate_skew(eta: np.ndarray, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return stats.skewnorm(SKEWNESS, eta, SD).rvs(random_state=rng)


def _observe_skew(eta: Any, X: np.ndarray, y: np.ndarray) -> None:
    import pymc as pm

    pm.SkewNormal("y", mu=eta, sigma=_sigma(), alpha=pm.Normal("alpha", 0, 5), observed=y)


NOISE = {
    "censored-normal": Noise(_simulate_censored, _observe_censored),
    "truncated-normal": Noise(_simulate_truncated, _observe_truncated),
    "normal-scales": Noise(_simulate_scales, _observe_scales),
    "student-t-scales": Noise(_simulate_tails, _observe_tails),
    "geometric": Noise(_simulate_trials, _observe_trials),
    "von-mises": Noise(_simulate_angles, _observe_angles),
    "skew-normal": Noise(_simulate_skew, _observe_skew),
}
