"""Parameters that are effects of groups: what the anchor search does differently for them.

The joint density of effects ``a ~ Normal(mu, sigma)`` and their scale has no useful mode: it grows
without limit as sigma and all effects but their mean go to zero. What is maximised is therefore its
average over the effects' own uncertainty, for which plus and minus one conditional sd do: with
quadratics in the effects this is the EM algorithm's objective, whose maximum lies where the
marginal posterior of the scale is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_flymc.density import Layout, Surrogate
from pymc_flymc.design import STRUCTURED, Design
from pymc_flymc.laplace import LaplaceFactor, wide_factor

__all__ = ["Effects", "Objective", "find_effects", "laplace_factor", "precision_blocks"]

#: With more than `STRUCTURED` parameters, effects in variables larger than this are wide.
WIDE = 100
#: Curvatures of wide elements are probed for all groups at once, by a slope each time if there are
#: at most so many.
MAX_SLOPES = 64
#: Probes at least, where they are not exact.
PROBES = 8


@dataclass(frozen=True)
class Effects:
    """Parameters by their role.

    Attributes
    ----------
    positions : ndarray of int64
        Elements of theta that enter sparse columns only: effects of groups. The wide ones of them,
        if there are any.
    dense, wide : ndarray of int64
        Elements in the blocks of a `LaplaceFactor`; wide ones are effects.
    probes : list of ndarray of int64
        Sets of wide elements that are hardly coupled, together all of them.
    """

    positions: np.ndarray
    dense: np.ndarray
    wide: np.ndarray
    probes: list[np.ndarray]


class Objective:
    """A surrogate, averaged over theta plus and minus a shift.

    Parameters
    ----------
    surrogate : Surrogate
    statistics : ndarray
        Of the quadratic.
    shift : ndarray, shape (D,), optional
    """

    def __init__(
        self, surrogate: Surrogate, statistics: np.ndarray, shift: np.ndarray | None = None
    ) -> None:
        self._surrogate, self._statistics, self._shift = surrogate, statistics, shift

    def with_statistics(self, statistics: np.ndarray) -> Objective:
        """Return the objective with another quadratic, and the same shift."""
        return Objective(self._surrogate, statistics, self._shift)

    def _points(self, theta: np.ndarray) -> list[np.ndarray]:
        return [theta] if self._shift is None else [theta + self._shift, theta - self._shift]

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient, shape (D,)."""
        parts = [self._surrogate(t, self._statistics) for t in self._points(theta)]
        return float(np.mean([v for v, _ in parts])), np.mean([g for _, g in parts], axis=0)

    def hessian(self, theta: np.ndarray) -> np.ndarray:
        """Hessian, shape (D, D)."""
        parts = [self._surrogate.hessian(t, self._statistics) for t in self._points(theta)]
        return np.asarray(np.mean(parts, axis=0))

    def hessian_times(self, theta: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Product of the Hessian with a vector, shape (D,)."""
        parts = [self._surrogate.hessian_times(t, self._statistics, v) for t in self._points(theta)]
        return np.asarray(np.mean(parts, axis=0))

    def smoothed(self, theta: np.ndarray, effects: Effects) -> Objective:
        """Return the average over the effects' conditional sds at theta, with signs drawn once."""
        at = effects.positions
        if len(effects.wide):
            curvature = _probe(self, theta, effects)[at]
        else:
            curvature = -np.diag(self.hessian(theta))[at]
        signs = np.random.default_rng(20141104).choice([-1.0, 1.0], len(at))
        shift = np.zeros(len(theta))
        shift[at] = signs / np.sqrt(np.where(curvature > 1e-8, curvature, np.inf))
        return Objective(self._surrogate, self._statistics, shift)


def find_effects(surrogate: Surrogate, design: Design, layout: Layout) -> Effects:
    """Tell the effects of groups from other parameters.

    Effects are the elements of variables that change coefficients of sparse columns and no others.
    """
    size, start = layout.size, 0
    is_effect, is_wide = np.zeros(size, bool), np.zeros(size, bool)
    probes: list[np.ndarray] = []
    in_sparse = np.zeros(design.n_coefficients, bool)
    for k in range(design.n_predictors):
        stop = (k + 1) * design.width
        in_sparse[stop - design.n_sparse : stop] = True
    rng = np.random.default_rng(20141104)
    theta = 0.1 * rng.standard_normal(size)  # not where a product happens to vanish
    for shape in layout.shapes:
        span = np.arange(start, start + int(np.prod(shape)))
        start += len(span)
        if design.sparse is None or len(span) == 1:
            continue
        direction = np.zeros(size)
        direction[span] = rng.standard_normal(len(span))
        change = surrogate.pushforward(theta, direction)
        if np.any(change[~in_sparse]) or not np.any(change[in_sparse]):
            continue
        is_effect[span] = True
        if size > STRUCTURED and len(span) > WIDE:
            is_wide[span] = True
            # The longest axis is that of the groups.
            groups_first = np.moveaxis(span.reshape(shape), int(np.argmax(shape)), 0)
            slopes = groups_first.reshape(max(shape), -1).T
            probes += list(slopes) if len(slopes) <= MAX_SLOPES else [span]
    return Effects(
        np.flatnonzero(is_wide if is_wide.any() else is_effect),
        np.flatnonzero(~is_wide),
        np.flatnonzero(is_wide),
        probes,
    )


def precision_blocks(
    objective: Objective, theta: np.ndarray, effects: Effects
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return minus the Hessian in the blocks of `wide_factor`.

    The diagonal of the wide elements is probed with random signs: exact where elements probed
    together are not coupled, as the effects of one grouping factor, else right on average.

    Raises
    ------
    ValueError
        If it is not finite.
    """
    dense, wide = effects.dense, effects.wide
    if not len(wide):
        block = -objective.hessian(theta)
        diagonal, cross = np.empty(0), np.empty((0, len(dense)))
    else:
        columns = np.empty((len(theta), len(dense)))
        for j, place in enumerate(dense):
            columns[:, j] = -objective.hessian_times(theta, _indicator(len(theta), place, 1.0))
        block, cross = 0.5 * (columns[dense] + columns[dense].T), columns[wide]
        diagonal = _probe(objective, theta, effects)[wide]
    if not all(np.all(np.isfinite(part)) for part in (block, diagonal, cross)):
        raise ValueError("the curvature of the log density at the anchor is not finite")
    return block, diagonal, cross


def laplace_factor(objective: Objective, theta: np.ndarray, effects: Effects) -> LaplaceFactor:
    """Factor of the covariance of the Laplace approximation at theta."""
    return wide_factor(effects.dense, effects.wide, *precision_blocks(objective, theta, effects))


def _probe(objective: Objective, theta: np.ndarray, effects: Effects) -> np.ndarray:
    rng = np.random.default_rng(20141104)
    found = np.zeros(len(theta))
    n_repeats = -(-PROBES // len(effects.probes))
    for places in effects.probes:
        total = np.zeros(len(places))
        for _ in range(n_repeats):
            signs = rng.choice([-1.0, 1.0], len(places))
            product = -objective.hessian_times(theta, _indicator(len(theta), places, signs))
            total += signs * product[places]
        total /= n_repeats
        good = total > 1e-8
        # Noise, or no mode in this direction: the scale of the others will do.
        found[places] = np.where(good, total, np.median(total[good]) if good.any() else 1.0)
    return found


def _indicator(size: int, places: np.ndarray | int, values: np.ndarray | float) -> np.ndarray:
    out = np.zeros(size)
    out[places] = values
    return out
