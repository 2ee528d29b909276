"""What a Newton step maximises: the log density with effects of groups integrated out.

The joint density of effects ``a ~ Normal(mu, sigma)`` and their scale has no useful mode: it grows
without limit as sigma and all effects but their mean go to zero. What is maximised is therefore the
Laplace approximation of the density with the effects integrated out given all other parameters,
their conditional precisions d taken as independent: ``log p - sum_i log(d_i) / 2``.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from pymc_flymc.anchor.anchor import laplace_geometry
from pymc_flymc.anchor.log_posterior import LogPosterior
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.kernels.geometry import Geometry

#: Probes of the curvature of diagonal elements at least, where they are not exact.
PROBES = 8
#: Thetas whose precisions are kept: a step is tried, and the search goes on from there or from
#: where it was.
KEPT = 3
#: Largest relative difference of probes that are exact.
SAME = 1e-9
#: Least eigenvalue of a correlation matrix, that of a group's effects: else they go without.
PROPER = 1e-3
#: Step of finite differences in unconstrained parameters.
STEP = 1e-4


#: As `laplace_geometry` takes them.
_Blocks = tuple[np.ndarray, np.ndarray, np.ndarray, list[tuple[int, np.ndarray]]]


class Objective:
    """Expanded log density less half the log conditional precisions of the effects.

    Derivatives of the precisions are third derivatives of that density. Those that the gradient
    needs come from two gradients, at theta plus and minus a conditional sd s of each effect with a
    sign e_i drawn once: their mean is the gradient plus half of ``sum_ij s_i s_j e_i e_j D_ij``,
    with D the derivatives of the Hessian, and the terms with i = j are those wanted. The others
    cancel on average. (It is the M step of an EM algorithm.)

    Parameters
    ----------
    posterior : LogPosterior
        With the effects that are integrated out.
    statistics : ndarray
        Of the quadratics that stand for the log-likelihoods.
    near : bool
        Whether the Hessian takes account of how the sds change with theta. Without, it is that of
        the EM algorithm: steps that are safe from afar, and too short near the maximum.
    """

    def __init__(self, posterior: LogPosterior, statistics: np.ndarray, near: bool = True) -> None:
        self.posterior, self.near, self._statistics = posterior, near, statistics
        self.effects, self._density = posterior.effects, posterior.density
        self._slopes: np.ndarray | None = None
        self._found: dict[bytes, np.ndarray] = {}
        n_probes = len(self.effects.probes)
        self._n_repeats = -(-PROBES // n_probes) if n_probes else 0

    def with_statistics(self, statistics: np.ndarray) -> Objective:
        """Return the objective with other quadratics."""
        return Objective(self.posterior, statistics, self.near)

    def joint(self) -> Objective:
        """Return the objective with nothing integrated out: the expanded log density itself."""
        none = np.empty(0, np.int64)
        return Objective(self.posterior.integrating_out(none), self._statistics)

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient, shape (D,)."""
        value, gradient = self._density(theta, self._statistics)
        if len(self.effects.integrated_out):
            precision = self._precisions(theta)
            points = self._points(theta, precision)
            gradients = [self._density(t, self._statistics)[1] for t in points]
            gradient = np.mean(gradients, axis=0)
            value -= 0.5 * float(np.sum(np.log(precision)))
        # -inf keeps the search away from where the model's graph raises, or has no derivative.
        return (value if np.all(np.isfinite(gradient)) else -np.inf), gradient

    def hessian(self, theta: np.ndarray) -> np.ndarray:
        """Hessian, shape (D, D)."""
        points = self._points(theta)
        parts = [self._density.hessian(t, self._statistics) for t in points]
        return np.asarray(np.mean(parts, axis=0) + self._of_precisions(theta, np.eye(len(theta))))

    def hessian_times(self, theta: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Product of the Hessian with a vector, shape (D,)."""
        points = self._points(theta)
        parts = [self._density.hessian_times(t, self._statistics, v) for t in points]
        return np.asarray(np.mean(parts, axis=0) + self._of_precisions(theta, v))

    def _precisions(self, theta: np.ndarray) -> np.ndarray:
        """Conditional precision of each effect, given all other parameters.

        Many products with the Hessian are asked for at the same theta: they are found once, and
        kept for the last few thetas, each as long as there are effects.
        """
        at = theta.tobytes()
        if at not in self._found:
            own = self._curvatures(theta)
            while len(self._found) >= KEPT:
                del self._found[next(iter(self._found))]
            self._found[at] = np.maximum(own, _rounding(own))
        return self._found[at]

    def _curvatures(self, theta: np.ndarray) -> np.ndarray:
        """Minus the second derivative in each effect, all else being equal."""
        if len(self.effects.diagonal):
            curvature = self._probe(theta)
        else:
            curvature = -np.diag(self._density.hessian(theta, self._statistics))
        return curvature[self.effects.integrated_out]

    def without_mode(self, theta: np.ndarray) -> np.ndarray:
        """Positions of effects in which the density curves upwards at theta, all else equal."""
        own = self._curvatures(theta)
        return self.effects.integrated_out[own < -_rounding(own)]

    def _points(self, theta: np.ndarray, precision: np.ndarray | None = None) -> list[np.ndarray]:
        at = self.effects.integrated_out
        if not len(at):
            return [theta]
        if precision is None:
            precision = self._precisions(theta)
        shift = np.zeros(len(theta))
        shift[at] = np.random.default_rng(20141104).choice([-1.0, 1.0], len(at))
        shift[at] /= np.sqrt(precision)
        return [theta + shift, theta - shift]

    def _of_precisions(self, theta: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Part of the Hessian, times v, that the change of the sds with theta makes.

        With k_i the gradient of log d_i it is sum_i k_i k_i' / 2. The k_i are those at the first
        theta that was asked for.
        """
        effects = self.effects
        if not (len(effects.integrated_out) and self.near):
            return np.zeros_like(v)
        if self._slopes is None:
            here, rows = np.log(self._precisions(theta)), []
            for place in np.setdiff1d(np.arange(len(theta)), effects.integrated_out):
                near = theta + _indicator(len(theta), place, STEP)
                rows.append((np.log(self._precisions(near)) - here) / STEP)
            self._slopes = np.reshape(rows, (-1, len(here)))
        out = np.zeros_like(v)
        others = np.setdiff1d(np.arange(len(theta)), effects.integrated_out)
        out[others] = 0.5 * self._slopes @ (self._slopes.T @ v[others])
        return out

    def _probe(self, theta: np.ndarray) -> np.ndarray:
        """Diagonal of minus the density's Hessian for diagonal elements, shape (D,).

        Probed with random signs: exact where elements probed together are not coupled, as the
        effects of one grouping factor, else right on average.
        """
        rng = np.random.default_rng(20141104)
        found, exact = np.zeros(len(theta)), True
        for places in self.effects.probes:
            probed = []
            for _ in range(self._n_repeats):
                signs = rng.choice([-1.0, 1.0], len(places))
                direction = _indicator(len(theta), places, signs)
                along = self._density.hessian_times(theta, self._statistics, direction)
                probed.append(-signs * along[places])
            total = np.mean(probed, axis=0)
            exact = exact and _agree(np.array(probed), total)
            good = total > _rounding(total)
            # Noise, or no mode in this direction: the scale of the others will do.
            found[places] = np.where(good, total, np.median(total[good]) if good.any() else 1.0)
        if exact:  # from now on, once is enough
            self._n_repeats = 1
        return found

    def _groups(self, theta: np.ndarray, precisions: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """Return minus the Hessian of several effects of a group, for all groups at once.

        Probed as the diagonal is; left out where effects of different groups are coupled.
        """
        rng, found = np.random.default_rng(20141104), []
        for start, k, j in self.effects.runs:
            span = slice(start, start + k * j)
            places, precision = self.effects.diagonal[span].reshape(k, j), np.empty((2, j, k, k))
            for i, s in product(range(2), range(k)):
                signs = rng.choice([-1.0, 1.0], j)
                direction = _indicator(len(theta), places[s], signs)
                along = self._density.hessian_times(theta, self._statistics, direction)
                precision[i, :, s] = (-signs * along[places]).T
            each = np.mean(precision, axis=0)
            if not _agree(precision, each):
                continue
            own = precisions[span].reshape(k, j).T
            each = 0.5 * (each + each.transpose(0, 2, 1))
            each[:, range(k), range(k)] = own
            size = np.sqrt(own[:, :, None] * own[:, None, :])
            bad = np.linalg.eigvalsh(each / size).min(axis=1) < PROPER
            each[bad] = own[bad][:, :, None] * np.eye(k)
            found.append((start, each))
        return found

    def _blocks(self, theta: np.ndarray) -> _Blocks:
        """Return minus the Hessian in the blocks of `laplace_geometry`.

        Raises
        ------
        UnsupportedModelError
            If it is not finite; the message names a parameter.
        """
        dense, diagonal = self.effects.dense, self.effects.diagonal
        if not len(diagonal):
            block = -self.hessian(theta)
            precisions, cross = np.empty(0), np.empty((0, len(dense)))
            groups: list[tuple[int, np.ndarray]] = []
        else:
            columns = np.empty((len(theta), len(dense)))
            for j, place in enumerate(dense):
                columns[:, j] = -self.hessian_times(theta, _indicator(len(theta), place, 1.0))
            block, cross = 0.5 * (columns[dense] + columns[dense].T), columns[diagonal]
            precisions = self._probe(theta)[diagonal]
            groups = self._groups(theta, precisions)
        finite = np.ones(len(theta), bool)
        finite[dense] = np.isfinite(block).all(axis=1)
        finite[diagonal] = np.isfinite(precisions) & np.isfinite(cross).all(axis=1)
        if not finite.all():
            furthest = int(np.argmax(np.where(finite, -1.0, np.abs(theta))))
            raise UnsupportedModelError(
                f"no posterior mode found: {self.posterior.layout.describe(furthest)} has come to "
                f"{theta[furthest]:.3g} (unconstrained), where the curvature of the log density is "
                "not finite, as in the funnel of a scale and its effects. Write these as scale * z "
                "with z ~ Normal(0, 1), or give it a prior that keeps away from there"
            )
        return block, precisions, cross, groups

    def geometry(self, theta: np.ndarray) -> Geometry:
        """Coordinates of the Laplace approximation at theta."""
        return laplace_geometry(
            theta, self.effects.dense, self.effects.diagonal, *self._blocks(theta)
        )

    def dense_precision(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Precision of the dense elements, and how diagonal ones follow them.

        Returns
        -------
        given : ndarray, shape (M,)
            Diagonal of the precision given all diagonal elements.
        precision : ndarray, shape (M, M)
            With these integrated out, one by one.
        follow : ndarray, shape (D - M, M)
            Change of their conditional means.
        """
        block, precisions, cross, _ = self._blocks(theta)
        follow = -cross / precisions[:, None]
        return np.diag(block), block + cross.T @ follow, follow

    def newton_decrement(self, theta: np.ndarray) -> float:
        """Length of the gradient at theta in the coordinates of the Laplace approximation there.

        The predicted gain of a Newton step is half its square. With effects integrated out the
        gradient is right on average only: where little is left to gain, steps along it may fail,
        and the search is over.
        """
        gradient = self(theta)[1]
        return float(np.linalg.norm(self.geometry(theta).whiten_gradient(gradient)))


def _indicator(size: int, places: np.ndarray | int, values: np.ndarray | float) -> np.ndarray:
    """Return a vector of zeros but for some places."""
    out = np.zeros(size)
    out[places] = values
    return out


def _rounding(curvature: np.ndarray) -> float:
    """Return the least curvature that is more than rounding leaves of zero, in whatever units."""
    largest = float(np.max(np.abs(curvature[np.isfinite(curvature)]), initial=0.0))
    return np.finfo(float).eps * largest if largest > 0.0 else 1.0


def _agree(probed: np.ndarray, mean: np.ndarray) -> bool:
    """Return whether probes are the same but for rounding; those that are NaN are not."""
    size = np.abs(mean)
    return bool((np.abs(probed - mean) <= SAME * (size + size.max())).all())
