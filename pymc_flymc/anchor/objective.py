"""What mode finding maximises: the log density, with effects of groups integrated out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from typing import Any, NamedTuple

import numpy as np

from pymc_flymc.anchor.anchor import laplace_geometry
from pymc_flymc.anchor.effects import (
    Curvatures,
    Effects,
    Probes,
    find_effects,
    indicator,
    least_curvature,
    proper,
)
from pymc_flymc.anchor.expanded_density import ExpandedDensity, nearby
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.order import first_largest
from pymc_flymc.reading.flat import Layout
from pymc_flymc.regression.expansion import JointExpansion
from pymc_flymc.regression.regression import Regression, expand, names_of

#: Distances, in conditional sds at the mode of an effect's prior, at which its curvature is looked
#: at, and the share of the curvature at the mode below which it is a rounding error of zero.
FAR_OUT, ROUNDING = (4.0, -4.0, 16.0, -16.0), 1e-6


@dataclass(frozen=True)
class LogPosterior:
    """A model's log density."""

    density: ExpandedDensity  #: The model with its log-likelihoods replaced by quadratics.
    regressions: tuple[Regression, ...]
    layout: Layout
    effects: Effects  #: Parameters that are integrated out, and those that count as independent.

    @classmethod
    def of(
        cls, density: ExpandedDensity, regressions: Sequence[Regression], layout: Layout
    ) -> LogPosterior:
        """Return the log density, with effects of groups separated from other parameters."""
        effects = find_effects(density, [each.design for each in regressions], layout)
        posterior = cls(density, tuple(regressions), layout, effects)
        if not len(effects.integrated_out):
            return posterior
        heavy_tailed = posterior._heavy_tailed()
        return replace(posterior, effects=replace(effects, heavy_tailed=heavy_tailed))

    def curvatures(self, theta: np.ndarray, statistics: np.ndarray, probes: Probes) -> Curvatures:
        """Return minus the second derivative in each effect, given all other parameters."""
        if not len(self.effects.diagonal):
            return Curvatures(-np.diag(self.density.hessian(theta, statistics)), [])

        def times(v: np.ndarray) -> np.ndarray:
            return self.density.hessian_times(theta, statistics, v)

        return probes(times, len(theta))

    def _heavy_tailed(self) -> np.ndarray:
        """Return the effects in which the prior's log density is flat, or somewhere not concave."""
        at = self.effects.integrated_out
        theta = nearby(np.zeros(self.layout.size))
        nothing = (
            self.expand(theta, [each.design.n_rows for each in self.regressions]).flat().pack()
        )
        probes = Probes(self.effects)
        before = self.curvatures(theta, nothing, probes).diagonal[at]
        found = before <= 0.0
        away = indicator(len(theta), at, np.where(found, 1.0, before) ** -0.5)
        for far in FAR_OUT:
            there = self.curvatures(theta + far * away, nothing, probes).diagonal[at]
            found |= there < -ROUNDING * before
        return at[found]

    def integrating_out(self, places: np.ndarray) -> LogPosterior:
        """Return the same log density with other parameters integrated out."""
        return replace(self, effects=replace(self.effects, integrated_out=places))

    @property
    def names(self) -> str:
        """Return the names of the observed variables, for messages."""
        return names_of(self.regressions)

    def expand(self, theta: np.ndarray, strides: Sequence[int] | None = None) -> JointExpansion:
        """Expand the log-likelihoods around the coefficients at theta, in one pass."""
        return expand(self.regressions, self.density.coefficients(theta), strides)

    def value(self, theta: np.ndarray, expansion: JointExpansion) -> float:
        """Return the log density at theta, around which the log-likelihoods have been expanded."""
        # The model's own errors there are raised: a search cannot begin at such a point.
        value, gradient = self.density(theta, expansion.pack())
        if self.density.error is not None:
            raise self.density.error
        bad = np.flatnonzero(~np.isfinite(gradient))
        if np.isfinite(value) and bad.size:
            raise UnsupportedModelError(
                f"the log density of the model with likelihood {self.names} has no finite "
                f"derivative in {self.layout.describe(int(bad[0]))} where the search for its mode "
                "begins; give FireflyMH an anchor=, or the variables other initial values"
            )
        return value

    def curvature_along(self, theta: np.ndarray, expansion: JointExpansion, v: np.ndarray) -> float:
        """Return minus the second derivative along v at theta, with the rows expanded."""
        return -float(v @ self.density.hessian_times(theta, expansion.pack(), v))


#: Number of thetas whose results are kept: the search continues from a trial step or from its
#: origin.
KEPT = 3
#: Step of finite differences in unconstrained parameters.
STEP = 1e-4
#: Number of steps by which the sds of effects with heavy tails are found.
SOLVING = 8


class PrecisionBlocks(NamedTuple):
    """Minus a Hessian, in the blocks that `laplace_geometry` takes."""

    block: np.ndarray
    precisions: np.ndarray
    cross: np.ndarray
    groups: list[tuple[int, np.ndarray]]

    def of_dense(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the dense elements' precision (M, M), and how diagonal ones follow, (D - M, M)."""
        follow = -self.cross / self.precisions[:, None]
        return self.block + self.cross.T @ follow, follow


def _memoised[T](most: int = KEPT) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Return a method that keeps its last results by theta; the oldest result goes first."""

    def memoised(find: Callable[..., T]) -> Callable[..., T]:
        @wraps(find)
        def found(self: Objective, theta: np.ndarray) -> T:
            kept, at = self.kept.setdefault(find.__name__, {}), theta.tobytes()
            if at not in kept:
                result = find(self, theta)
                while len(kept) >= most:
                    del kept[next(iter(kept))]
                kept[at] = result
            return kept[at]

        return found

    return memoised


class Objective:
    """Expanded log density less half the log conditional precisions of the effects.

    Derivatives of the precisions are third derivatives of that density. Those that the gradient
    needs come from two gradients, at theta plus and minus a conditional sd s of each effect with a
    sign e_i drawn once: their mean is the gradient plus half of ``sum_ij s_i s_j e_i e_j D_ij``,
    with D the derivatives of the Hessian, and the terms with i = j are those wanted. The others
    cancel on average. (It is the M step of an EM algorithm.)

    A prior with heavy tails curves upwards a few sds from its mode, or is flat. Where that cancels
    the rows' curvature the precision of an effect would be zero, and the objective infinite. So the
    curvature of such a prior is that between minus and plus a conditional sd of the effect.

    `expansion` holds the quadratics that replace the log-likelihoods, and `probes` come from an
    objective with quadratics of the same rows. If `near`, the Hessian takes account of how the sds
    change with theta. Otherwise it is the one of the EM algorithm, with steps that are safe from
    afar, and too short near the maximum.
    """

    def __init__(
        self,
        posterior: LogPosterior,
        expansion: JointExpansion,
        near: bool = True,
        probes: Probes | None = None,
    ) -> None:
        self.posterior, self.near, self._expansion = posterior, near, expansion
        self.effects, self._density = posterior.effects, posterior.density
        self._statistics = expansion.pack()
        self._probes = probes or Probes(posterior.effects)
        self._others = np.setdiff1d(
            np.arange(posterior.layout.size), posterior.effects.integrated_out
        )
        self._heavy_tailed = np.intersect1d(
            posterior.effects.integrated_out, posterior.effects.heavy_tailed
        )
        at = posterior.effects.integrated_out
        signs = np.random.default_rng(20141104).choice([-1.0, 1.0], len(at))
        self._signs = indicator(posterior.layout.size, at, signs)
        self._slopes: np.ndarray | None = None
        #: Results of methods, by their names and by theta.
        self.kept: dict[str, dict[bytes, Any]] = {}

    def with_expansion(self, expansion: JointExpansion) -> Objective:
        """Return the objective with other quadratics of the same rows."""
        return Objective(self.posterior, expansion, self.near, self._probes)

    def from_near(self) -> Objective:
        """Return the objective with its full Hessian, and with all previous results."""
        other = copy(self)
        other.near, other.kept = True, {k: v for k, v in self.kept.items() if k != "hessian"}
        return other

    def joint(self) -> Objective:
        """Return the objective with nothing integrated out: the expanded log density itself."""
        none = np.empty(0, np.int64)
        posterior = self.posterior.integrating_out(none)
        return Objective(posterior, self._expansion, probes=self._probes)

    @_memoised()
    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and the gradient, (D,)."""
        value, gradient = self._density(theta, self._statistics)
        if len(self.effects.integrated_out):
            found = [self._density(t, self._statistics) for t in self._points(theta)]
            gradient = np.mean([each for _, each in found], axis=0)
            if len(self._heavy_tailed):
                value = float(np.mean([each for each, _ in found]))
            value -= 0.5 * float(np.sum(np.log(self._precisions(theta))))
        # -inf keeps the search away from where the model's graph raises, or has no derivative.
        return (value if np.all(np.isfinite(gradient)) else -np.inf), gradient

    def value(self, theta: np.ndarray) -> float:
        """Return the value, without the two gradients that a gradient takes."""
        if len(self._heavy_tailed):
            # The density may have a kink at theta, which the gradient does not see.
            return self(theta)[0]
        value, _ = self._density(theta, self._statistics)
        if len(self.effects.integrated_out):
            value -= 0.5 * float(np.sum(np.log(self._precisions(theta))))
        return value

    @_memoised(most=1)
    def hessian(self, theta: np.ndarray) -> np.ndarray:
        """Return the Hessian, (D, D)."""
        points = self._points(theta)
        parts = [self._density.hessian(t, self._statistics) for t in points]
        i, total = self._heavy_tailed, np.mean(parts, axis=0)
        total[i, i] = -self._curvatures(theta).diagonal[i]
        return np.asarray(total + self._of_precisions(theta, np.eye(len(theta))))

    def hessian_times(self, theta: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the product of the Hessian with a vector, (D,)."""
        points = self._points(theta)
        parts = [self._density.hessian_times(t, self._statistics, v) for t in points]
        total = np.mean(parts, axis=0) - self._of_tails_on_average(theta) * v
        return np.asarray(total + self._of_precisions(theta, v))

    def _precisions(self, theta: np.ndarray) -> np.ndarray:
        """Return the conditional precision of each effect, given all other parameters."""
        own = self._curvatures(theta).diagonal[self.effects.integrated_out]
        return np.maximum(own, least_curvature(own))

    @_memoised()
    def _curvatures(self, theta: np.ndarray) -> Curvatures:
        """Return minus the second derivative in each effect, given all other parameters."""
        return self._pointwise(theta).usable(self._of_tails(theta), self.effects)

    @_memoised()
    def _pointwise(self, theta: np.ndarray) -> Curvatures:
        """Return the curvatures without what `_of_tails` adds."""
        return self.posterior.curvatures(theta, self._statistics, self._probes)

    def _of_prior(self, theta: np.ndarray) -> np.ndarray:
        """Return the curvatures of the prior of effects with heavy tails."""
        found = self.posterior.curvatures(theta, self._without_rows, self._probes)
        return found.diagonal[self._heavy_tailed]

    @cached_property
    def _without_rows(self) -> np.ndarray:
        """Return the statistics of log-likelihoods that are zero everywhere."""
        return self._expansion.flat().pack()

    @_memoised()
    def _of_tails(self, theta: np.ndarray) -> np.ndarray:
        """Return what curvatures between two points exceed those at theta by, (D,)."""
        i, size = self._heavy_tailed, len(theta)
        if not len(i):
            return np.zeros(size)
        signs = self._signs[i]

        def slope(at: np.ndarray) -> np.ndarray:
            _, gradient = self._density(at, self._without_rows)
            return gradient[i]

        def between(sds: np.ndarray) -> np.ndarray:
            away = indicator(size, i, signs * sds)
            return signs * (slope(theta - away) - slope(theta + away)) / (2.0 * sds)

        whole = self._pointwise(theta).diagonal[i]
        of_rows = whole - self._of_prior(theta)
        first = np.maximum(whole, slope(theta) ** 2)
        sds = 1.0 / np.sqrt(np.where(first > 0.0, first, 1.0))
        for _ in range(SOLVING):
            # Towards sds whose squares are inverse precisions. There, for effects without rows, the
            # mean slope of the density in the logarithm of their scale is the exact one.
            precision = of_rows + between(sds)
            further = np.where(precision > 0.0, precision, 1.0 / (16.0 * sds**2))
            sds = np.sqrt(sds) * further**-0.25
        # What has been reached is positive, whether steps have ended or not.
        return indicator(size, i, sds**-2 - whole)

    @_memoised()
    def _of_tails_on_average(self, theta: np.ndarray) -> np.ndarray:
        """Return what curvatures between two points exceed the mean of those there by, (D,)."""
        i = self._heavy_tailed
        if not len(i):
            return np.zeros(len(theta))
        averaged = np.mean([self._of_prior(at) for at in self._points(theta)], axis=0)
        return self._of_tails(theta) + indicator(len(theta), i, self._of_prior(theta) - averaged)

    def without_mode(self, theta: np.ndarray) -> np.ndarray:
        """Return indices of effects in which the density curves upwards, all else equal."""
        own = self._curvatures(theta).diagonal[self.effects.integrated_out]
        return self.effects.integrated_out[own < -least_curvature(own)]

    @_memoised()
    def _points(self, theta: np.ndarray) -> list[np.ndarray]:
        """Return where derivatives are averaged: plus and minus a conditional sd of each effect."""
        at = self.effects.integrated_out
        if not len(at):
            return [theta]
        shift = indicator(len(theta), at, self._signs[at] / np.sqrt(self._precisions(theta)))
        return [theta + shift, theta - shift]

    def _of_precisions(self, theta: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the part of the Hessian, times v, due to the change of the sds with theta."""
        # It is sum_i k_i k_i' / 2, with k_i the gradient of log d_i at the first theta of a call.
        effects = self.effects
        if not (len(effects.integrated_out) and self.near):
            return np.zeros_like(v)
        if self._slopes is None:
            here, rows = np.log(self._precisions(theta)), []
            for place in self._others:
                near = theta + indicator(len(theta), place, STEP)
                rows.append((np.log(self._precisions(near)) - here) / STEP)
            self._slopes = np.reshape(rows, (-1, len(here)))
        out = np.zeros_like(v)
        out[self._others] = 0.5 * self._slopes @ (self._slopes.T @ v[self._others])
        return out

    def precision_blocks(self, theta: np.ndarray) -> PrecisionBlocks:
        """Return minus the Hessian in the blocks of `laplace_geometry`; it must be finite."""
        dense, diagonal = self.effects.dense, self.effects.diagonal
        if not len(diagonal):
            block = -self.hessian(theta)
            precisions, cross = np.empty(0), np.empty((0, len(dense)))
            groups: list[tuple[int, np.ndarray]] = []
        else:
            columns = np.empty((len(theta), len(dense)))
            for j, place in enumerate(dense):
                columns[:, j] = -self.hessian_times(theta, indicator(len(theta), place, 1.0))
            block, cross = 0.5 * (columns[dense] + columns[dense].T), columns[diagonal]
            curvatures = self._curvatures(theta)
            precisions, groups = curvatures.diagonal[diagonal], proper(curvatures, diagonal)
        finite = np.ones(len(theta), bool)
        finite[dense] = np.isfinite(block).all(axis=1)
        finite[diagonal] = np.isfinite(precisions) & np.isfinite(cross).all(axis=1)
        if not finite.all():
            furthest = first_largest(np.where(finite, -1.0, np.abs(theta)))
            raise UnsupportedModelError(
                f"no posterior mode found: {self.posterior.layout.describe(furthest)} has come to "
                f"{theta[furthest]:.3g} (unconstrained), where the curvature of the log density is "
                "not finite, as in the funnel of a scale and its effects. Write these as scale * z "
                "with z ~ Normal(0, 1), or give it a prior that keeps away from there"
            )
        return PrecisionBlocks(block, precisions, cross, groups)

    def geometry(self, theta: np.ndarray) -> Geometry:
        """Return the coordinates of the Laplace approximation at theta."""
        return self.geometry_of(theta, self.precision_blocks(theta))

    def geometry_of(self, theta: np.ndarray, blocks: PrecisionBlocks) -> Geometry:
        """Return `geometry`, given the precision there."""
        return laplace_geometry(theta, self.effects.dense, self.effects.diagonal, *blocks)

    def newton_decrement(self, theta: np.ndarray) -> float:
        """Return the length of the gradient in the coordinates of the Laplace approximation."""
        # The predicted gain of a Newton step is half its square. With effects integrated out the
        # gradient is right on average only: close to the maximum steps along it may fail.
        gradient = self(theta)[1]
        return float(np.linalg.norm(self.geometry(theta).standardise_gradient(gradient)))
