"""Lines along parameters with flat priors, and the curvature of the likelihood on them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import qr

from pymc_flymc.anchor.effects import Effects
from pymc_flymc.anchor.surrogate import Surrogate
from pymc_flymc.regression.regression import JointExpansion

__all__ = ["FlatLines"]

#: Curvatures below this share of what they might be are taken for none, until tried.
NO_CURVATURE = 1e-10


class FlatLines:
    """Lines through theta along parameters with flat priors.

    Parameters
    ----------
    surrogate : Surrogate
    theta : ndarray, shape (D,)
    flat : ndarray of int64
        These parameters.
    effects : Effects
        With wide elements among them, lines are taken along the dense ones, and along all wide ones
        of a variable together.
    """

    def __init__(
        self, surrogate: Surrogate, theta: np.ndarray, flat: np.ndarray, effects: Effects
    ) -> None:
        self._surrogate, self._theta, self._flat = surrogate, theta, flat
        self._wide = [np.intersect1d(each, flat) for each in effects.probes]
        self._dense = np.intersect1d(effects.dense, flat)
        self._last: tuple[JointExpansion, np.ndarray] | None = None

    def curvature(self, expansion: JointExpansion, v: np.ndarray) -> float:
        """Curvature of minus the log-likelihood along v."""
        return -float(v @ self._surrogate.hessian_times(self._theta, expansion.pack(), v))

    def reach(self, expansion: JointExpansion, v: np.ndarray, n_rows: int) -> float:
        """How much the largest of v's parts would change predictors, about."""
        gram = self._gram(expansion, self._singles(v))
        size = float(np.sqrt(np.max(np.diag(gram)) / n_rows))
        return size if size > 0.0 else float(np.max(np.abs(v)))

    def _singles(self, v: np.ndarray) -> np.ndarray:
        places = [*(np.array([place]) for place in self._dense), *self._wide]
        parts = [part for part in (_only(v, place) for place in places) if part.any()]
        return np.stack(parts, axis=1)

    def _gram(self, expansion: JointExpansion, basis: np.ndarray) -> np.ndarray:
        """Curvatures of minus the log-likelihood among directions, the columns of a matrix."""
        statistics = expansion.pack()
        if self._wide:
            times = [self._surrogate.hessian_times(self._theta, statistics, v) for v in basis.T]
            product = np.stack(times, axis=1)
        else:
            # With many parameters this is what takes time.
            if self._last is None or self._last[0] is not expansion:
                self._last = expansion, self._surrogate.hessian(self._theta, statistics)
            product = self._last[1] @ basis
        gram = -basis.T @ product
        return 0.5 * (gram + gram.T)

    def without_curvature(self, expansion: JointExpansion) -> list[np.ndarray]:
        """Directions along which the likelihood has none, each of as few parameters as can be."""
        size = len(self._theta)
        statistics = expansion.pack()
        weights = np.random.default_rng(20141104).standard_normal(size)
        product = self._surrogate.hessian_times(self._theta, statistics, weights)
        alone = self._flat[product[self._flat] == 0.0]
        found = [_only(np.ones(size), [place]) for place in alone]
        groups = [np.array([place]) for place in np.setdiff1d(self._dense, alone)]
        groups += [np.setdiff1d(places, alone) for places in self._wide]
        groups = [places for places in groups if len(places)]
        if not groups:
            return found
        basis = np.stack([_only(np.ones(size), places) for places in groups], axis=1)
        null = _null_space(self._gram(expansion, basis))
        return found + [basis @ v for v in null.T]

    def newton_step(self, expansion: JointExpansion) -> np.ndarray:
        """Newton's step along these parameters, wide ones each by itself."""
        statistics = expansion.pack()
        gradient = self._surrogate(self._theta, statistics)[1]
        step = np.zeros(len(self._theta))
        if len(self._dense):
            gram = self._gram(expansion, np.eye(len(self._theta))[:, self._dense])
            scale = _scale(gram)
            scaled = np.linalg.pinv(gram * np.outer(scale, scale), 1e-14, hermitian=True)
            step[self._dense] = scale * (scaled @ (scale * gradient[self._dense]))
        for places, own in self._curvatures(expansion):
            good = own > 0.0
            step[places[good]] = gradient[places[good]] / own[good]
        return step

    def ray(
        self, expansion: JointExpansion, beyond: JointExpansion, step: np.ndarray
    ) -> np.ndarray:
        """Part of a step along which the likelihood has no curvature beyond it."""
        v = np.zeros(len(step))
        if len(self._dense):
            basis = np.eye(len(step))[:, self._dense]
            scale = _scale(self._gram(expansion, basis))
            gram = self._gram(beyond, basis) * np.outer(scale, scale)
            if not np.all(np.isfinite(gram)):
                return v
            values, vectors = np.linalg.eigh(gram)
            vectors = vectors[:, values < NO_CURVATURE]
            v[self._dense] = scale * (vectors @ (vectors.T @ (step[self._dense] / scale)))
        for (places, own), (_, left) in zip(
            self._curvatures(expansion), self._curvatures(beyond), strict=True
        ):
            v[places] = np.where(left < NO_CURVATURE * own, step[places], 0.0)
        # What rounding leaves of the others, in steps each of its own size.
        v[np.abs(v) < 1e-6 * np.max(np.abs(v), initial=0.0)] = 0.0
        return v

    def _curvatures(self, expansion: JointExpansion) -> list[tuple[np.ndarray, np.ndarray]]:
        """Positions of wide elements that are hardly coupled, and the curvature of each."""
        statistics, out = expansion.pack(), []
        for places in self._wide:
            v = _only(np.ones(len(self._theta)), places)
            product = self._surrogate.hessian_times(self._theta, statistics, v)
            out.append((places, -product[places]))
        return out


def _only(v: np.ndarray, places: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return v with zeros but for some places."""
    out = np.zeros(len(v))
    out[places] = v[places]
    return out


def _scale(gram: np.ndarray) -> np.ndarray:
    """Return factors that bring a matrix to a unit diagonal, where it has one."""
    diagonal = np.diag(gram)
    return np.where(diagonal > 0.0, 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0)), 1.0)


def _null_space(gram: np.ndarray) -> np.ndarray:
    """Return columns v with gram v = 0, of few elements each, shape (m, number of them)."""
    scale = _scale(gram)
    scaled = gram * np.outer(scale, scale)
    if not np.all(np.isfinite(scaled)):
        return np.empty((len(gram), 0))
    values, vectors = np.linalg.eigh(scaled)
    null = scale[:, None] * vectors[:, values < NO_CURVATURE]
    if null.shape[1]:
        # Each of them alone has a one in one place, and none of the others has.
        pivots = qr(null.T / scale, mode="r", pivoting=True)[1][: null.shape[1]]
        null = null @ np.linalg.inv(null[pivots])
        null[np.abs(null) / scale[:, None] < 1e-7 * np.max(np.abs(null) / scale[:, None])] = 0.0
    return null
