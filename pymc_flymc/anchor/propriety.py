"""Propriety: directions of recession, along which neither the prior nor the likelihood ever falls.

A density that does not change along a line, or does not fall along a ray, from any starting point,
has an infinite integral. Only flat priors let this happen. Candidates come from a rank test of the
likelihood's curvature among parameters with flat priors: directions without curvature where the
search ended (lines), and directions without curvature far beyond its last Newton step (rays). They
are then tried on all rows: the model is refused if the log-likelihood at a very great distance is
the same as here. So no proper posterior is refused, and models with proper priors cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pymc_flymc.anchor.expanded_density import nearby
from pymc_flymc.anchor.newton import SHRINKING, ModeResult
from pymc_flymc.anchor.objective import LogPosterior
from pymc_flymc.order import first_largest
from pymc_flymc.regression.expansion import JointExpansion

#: Curvatures below this share of their possible size count as zero, until they are tried.
NO_CURVATURE = 1e-10
#: Distances, in units in which predictors change by about one, at which a direction is tried.
DISTANCES = (1e2, 1e7)
#: Largest squared length, in posterior sds, of the last Newton step to a mode that was found.
CONVERGED = 0.01
#: This many more steps leave nothing of the curvature along a ray.
MORE_STEPS = 50.0
#: A larger logarithm is not at a mode.
RUNAWAY = 100.0
#: Most parameters that a message names.
NAMED = 4

#: Minus the Hessian of log-likelihoods, times a matrix with a column for each direction.
Curvature = Callable[[np.ndarray], np.ndarray]


def check_bounded(posterior: LogPosterior, theta: np.ndarray, expansion: JointExpansion) -> None:
    """Refuse logarithms that the search has lost because the prior of the exponential is flat."""
    if np.max(theta) < RUNAWAY:
        return
    # The prior of such parameters is only the Jacobian of a logarithm.
    jacobian = np.all(_prior_gradients(posterior, expansion, np.clip(theta, -1.0, 1.0)) == 1.0, 0)
    # At a mode the likelihood would balance it.
    slope = posterior.density(theta, expansion.pack())[1]
    runaways = np.flatnonzero(jacobian & (theta > RUNAWAY) & ~(slope < 0.5))
    if len(runaways):
        raise ValueError(
            f"no posterior mode found: {_listed(runaways, posterior)} grows for ever, since "
            f"neither its prior nor the likelihood of {posterior.names} falls as it does. "
            f"{_way_out(runaways)}"
        )


def check_proper(posterior: LogPosterior, found: ModeResult) -> None:
    """Refuse a posterior without an integral because of the flat prior of some parameters."""
    theta, names = found.theta, posterior.names
    flat = np.flatnonzero(np.all(_prior_gradients(posterior, found.expansion, theta) == 0.0, 0))
    if not len(flat):
        return
    directions = _Directions.of(posterior, found, flat)
    for v in directions.lines():
        if _is_recession(posterior, found, v) and _is_recession(posterior, found, -v):
            moved = np.flatnonzero(v)
            if len(moved) == 1:
                raise ValueError(
                    f"the posterior is improper: {_listed(moved, posterior)} has no effect on the "
                    f"likelihood of {names}, and its prior is flat. {_way_out(moved)}"
                )
            proportions = ", ".join(f"{x:.3g}" for x in v[moved[:NAMED]] / v[moved[0]])
            raise ValueError(
                f"the posterior is improper: {_listed(moved, posterior)} have flat priors, and the "
                f"likelihood of {names} does not change as they move together, in the proportions "
                f"{proportions}{', ...' if len(moved) > NAMED else ''}. Give one of them a proper "
                "prior, or drop one, with its column"
            )
    v = directions.ray()
    if v.any() and _is_recession(posterior, found, v):
        moved = np.flatnonzero(v)
        raise ValueError(
            f"no posterior mode found: the likelihood of {names} rises for ever along "
            f"{_listed(moved, posterior)}, and the prior is flat: all outcomes agree where the "
            f"predictors change along it, or the predictors separate them. {_way_out(moved)}"
        )


def _is_recession(posterior: LogPosterior, found: ModeResult, v: np.ndarray) -> bool:
    """Return whether the log density never falls along v, wherever the other parameters are."""
    nothing = found.expansion.flat().pack()

    def densities(theta: np.ndarray) -> tuple[float, float]:
        with np.errstate(over="ignore", invalid="ignore"):  # numbers may overflow
            return posterior.density(theta, nothing)[0], posterior.expand(theta).value

    for start in (found.theta, nearby(found.theta)):
        prior, floor = densities(start)
        floor -= 1e-3 + 1e-9 * abs(floor)
        for distance in DISTANCES:
            # A potential may be flat up to some distance only.
            there, likelihood = densities(start + distance * v)
            if not (there == prior and likelihood >= floor):
                return False
    return True


@dataclass(frozen=True)
class _Directions:
    """Directions of parameters with flat priors, by the rank of the likelihood's curvature."""

    posterior: LogPosterior
    found: ModeResult
    flat: np.ndarray  #: Indices of parameters with flat priors.
    singles: np.ndarray  #: Those of them that are tested one by one.
    #: The others: effects of groups with little coupling, for which there is no matrix.
    sets: list[np.ndarray]

    @classmethod
    def of(cls, posterior: LogPosterior, found: ModeResult, flat: np.ndarray) -> _Directions:
        """Return the directions, with effects of groups separated from other parameters."""
        singles = np.intersect1d(posterior.effects.dense, flat)
        sets = [np.intersect1d(each, flat) for each in posterior.effects.probes]
        return cls(posterior, found, flat, singles, sets)

    def lines(self) -> Iterator[np.ndarray]:
        """Yield directions without curvature, each of as few parameters as possible."""
        # Effects in one set move together. The largest part changes predictors by about one.
        here, size = self._curvature(self.found.expansion), len(self.found.theta)
        weights = np.random.default_rng(20141104).standard_normal((size, 1))
        alone = self.flat[here(weights)[self.flat, 0] == 0.0]
        yield from _indicators(size, [[place] for place in alone]).T
        groups = [[place] for place in np.setdiff1d(self.singles, alone)]
        groups += [list(each) for each in (np.setdiff1d(s, alone) for s in self.sets) if len(each)]
        if not groups:
            return
        basis = _indicators(size, groups)
        gram = basis.T @ here(basis)
        scale = _scale(gram)
        null = _null_space(gram, scale)
        if null.shape[1]:
            # Each of them alone has a one in one place, where all others have zero.
            null = null @ np.linalg.inv((scale[:, None] * null)[_pivots(null)])
            null[np.abs(null) < 1e-7 * np.max(np.abs(null))] = 0.0
        n_rows = max(each.design.n_rows for each in self.posterior.regressions)
        for v in null.T:
            yield basis @ (scale * v) / (np.max(np.abs(v)) / np.sqrt(n_rows))

    def ray(self) -> np.ndarray:
        """Return the part of the last Newton step without curvature far beyond it, or zeros."""
        found, theta = self.found, self.found.theta
        v = np.zeros(len(theta))
        if found.previous is None:
            return v
        geometry = found.objective.geometry(theta)
        gradient = self.posterior.density(theta, found.expansion.pack())[1]
        step = np.zeros(len(theta))
        step[self.flat] = geometry.spread(geometry.standardise_gradient(gradient))[self.flat]
        along = self.posterior.curvature_along
        before, now = along(theta, found.previous, step), along(theta, found.expansion, step)
        if SHRINKING * before < now < CONVERGED:
            return v
        here = self._curvature(found.expansion)
        beyond = self._curvature(self.posterior.expand(theta + MORE_STEPS * step))
        if len(self.singles):
            basis = _indicators(len(theta), [[place] for place in self.singles])
            scale = _scale(basis.T @ here(basis))
            null = _null_space(basis.T @ beyond(basis), scale)
            v[self.singles] = scale * (null @ (null.T @ (step[self.singles] / scale)))
        for places in self.sets:
            together = _indicators(len(theta), [places])
            own, left = (times(together)[places, 0] for times in (here, beyond))
            v[places] = np.where(left < NO_CURVATURE * own, step[places], 0.0)
        # Rounding errors of the other elements, in units of each element's step.
        v[np.abs(v) < 1e-6 * np.max(np.abs(v))] = 0.0
        moved = np.flatnonzero(v)
        return v / np.max(np.abs(v[moved] / step[moved]), initial=0.0) if len(moved) else v

    def _curvature(self, expansion: JointExpansion) -> Curvature:
        density, theta, statistics = self.posterior.density, self.found.theta, expansion.pack()
        if len(self.posterior.effects.diagonal):  # no matrix of all parameters
            return lambda basis: np.stack(
                [-density.hessian_times(theta, statistics, v) for v in basis.T], axis=1
            )
        matrix = -density.hessian(theta, statistics)
        return lambda basis: matrix @ basis


def _prior_gradients(
    posterior: LogPosterior, expansion: JointExpansion, theta: np.ndarray
) -> np.ndarray:
    """Return gradients of the model without its likelihoods at theta and near it, (2, D)."""
    nothing = expansion.flat().pack()
    return np.stack([posterior.density(t, nothing)[1] for t in (theta, nearby(theta))])


def _indicators(size: int, groups: Sequence[Sequence[int] | np.ndarray]) -> np.ndarray:
    """Return a column for each group of parameters, with ones in their places."""
    out = np.zeros((size, len(groups)))
    for column, places in zip(out.T, groups, strict=True):
        column[places] = 1.0
    return out


def _scale(gram: np.ndarray) -> np.ndarray:
    """Return factors that scale a matrix to a unit diagonal where its diagonal is positive."""
    diagonal = np.diag(gram)
    return np.where(diagonal > 0.0, 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0)), 1.0)


def _null_space(gram: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis of the null space of a matrix, in scaled coordinates."""
    scaled = gram * np.outer(scale, scale)
    if not np.all(np.isfinite(scaled)):
        return np.empty((len(gram), 0))
    values, vectors = np.linalg.eigh(0.5 * (scaled + scaled.T))
    return vectors[:, values < NO_CURVATURE]


def _pivots(null: np.ndarray) -> list[int]:
    """Return as many rows of a basis as it has columns, far from dependent: QR with pivoting.

    LAPACK's own would take rounding errors for a choice among parameters that are alike.
    """
    pivots, left = [], null
    for _ in range(null.shape[1]):
        pivots.append(first_largest(np.sum(left**2, axis=1)))
        v = left[pivots[-1]] / np.linalg.norm(left[pivots[-1]])
        left = left - np.outer(left @ v, v)
    return pivots


def _listed(places: np.ndarray, posterior: LogPosterior) -> str:
    named = ", ".join(posterior.layout.describe(int(place)) for place in places[:NAMED])
    return named + (f" and {len(places) - NAMED} more" if len(places) > NAMED else "")


def _way_out(places: np.ndarray) -> str:
    if len(places) == 1:
        return "Give it a proper prior, or drop it, with its column"
    return "Give them proper priors, or drop them, with their columns"
