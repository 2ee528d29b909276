"""Posteriors in two or three dimensions, by quadrature of a model's own log density."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.logprob.utils import CheckParameterValue
from pytensor.graph.replace import clone_replace, vectorize_graph
from pytensor.graph.traversal import ancestors
from scipy.integrate import cumulative_trapezoid
from scipy.interpolate import CubicSpline
from scipy.ndimage import map_coordinates, spline_filter

__all__ = ["Posterior", "density_of", "posterior_of"]

#: Points along an axis, by the number of parameters.
POINTS = {1: 1001, 2: 301, 3: 71}
#: Log densities below the peak by so much are left out: they hold less than 1e-8 of the mass.
DEPTH = 24.0
#: The box in which the posterior is looked for, half its width; its looks, and their points.
WIDTH, LOOKS = 14.0, {1: 501, 2: 141, 3: 51}
#: Half the width of the widest box: an axis whose edge the mass reaches is doubled up to this.
WIDEST = 8.0 * WIDTH
#: How far means, in standard deviations, and variances, as shares, may be off on every other point:
#: on all of them, twice as fine, the error of such sums is the fourth power of it.
RESOLVED = 0.02
#: By how much a grid that is too coarse is refined, and the finest.
REFINED, FINEST = 1.5, 3.5
CHUNK = 20_000
#: How much finer a parameter's own distribution is summed up than the grid is.
FINER = 50


def density_of(model: pm.Model) -> Callable[[np.ndarray], np.ndarray]:
    """Compile a model's log density, Jacobians and all, for many points at once.

    Returns
    -------
    callable
        From points on the unconstrained scale, shape (M, D), values of ``model.value_vars`` one
        after the other, to log densities, shape (M,).
    """
    logp = model.logp()
    # Parameters that a density refuses are checked one point at a time. Here there are none such.
    while checks := [v for v in ancestors([logp]) if _is_check(v)]:
        logp = clone_replace(logp, {checks[-1]: checks[-1].owner.inputs[0]})
    many = {v: pt.tensor(dtype=v.dtype, shape=(None, *v.type.shape)) for v in model.value_vars}
    shapes = [np.shape(model.initial_point()[v.name]) for v in model.value_vars]
    function = pytensor.function(
        list(many.values()), vectorize_graph(logp, many), mode="FAST_COMPILE"
    )

    def density(points: np.ndarray) -> np.ndarray:
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
        parts = np.split(points, ends[:-1], axis=1)
        values = [p.reshape(-1, *shape) for p, shape in zip(parts, shapes, strict=True)]
        with np.errstate(all="ignore"):
            return np.nan_to_num(function(*values), nan=-np.inf, posinf=-np.inf)

    return density


def _is_check(v: pt.TensorVariable) -> bool:
    return v.owner is not None and isinstance(v.owner.op, CheckParameterValue)


@dataclass
class Posterior:
    """A posterior on a grid.

    Attributes
    ----------
    axes : list of ndarray
        Grid points of each parameter, evenly spaced.
    log_p : ndarray
        Log densities on the grid, the largest of them zero.
    """

    axes: list[np.ndarray]
    log_p: np.ndarray

    @cached_property
    def mass(self) -> np.ndarray:
        """Share of the mass at each grid point."""
        p = np.exp(self.log_p)
        return p / p.sum()

    def _marginal(self, d: int) -> np.ndarray:
        return self.mass.sum(axis=tuple(k for k in range(len(self.axes)) if k != d))

    @cached_property
    def mean(self) -> np.ndarray:
        """Means, shape (D,)."""
        return np.array([self._marginal(d) @ axis for d, axis in enumerate(self.axes)])

    @cached_property
    def variance(self) -> np.ndarray:
        """Variances, shape (D,)."""
        pairs = zip(self.axes, self.mean, strict=True)
        return np.array(
            [self._marginal(d) @ (axis - mean) ** 2 for d, (axis, mean) in enumerate(pairs)]
        )

    @property
    def is_resolved(self) -> bool:
        """Whether every other point of each axis gives nearly the same means and variances."""
        every_other = (slice(None, None, 2),) * len(self.axes)
        coarse = Posterior([axis[::2] for axis in self.axes], self.log_p[every_other])
        off = np.abs(coarse.mean - self.mean) / np.sqrt(self.variance)
        spread = np.abs(coarse.variance / self.variance - 1.0)
        return bool(max(off.max(), spread.max()) < RESOLVED)

    def quantiles(self, d: int, levels: Sequence[float]) -> np.ndarray:
        """Quantiles of a parameter."""
        axis, p = self.axes[d], self._marginal(d)
        inside = p > 1e-14
        fine = np.linspace(*axis[inside][[0, -1]], FINER * int(inside.sum()))
        density = np.exp(CubicSpline(axis[inside], np.log(p[inside]))(fine))
        cdf = cumulative_trapezoid(density, initial=0.0)
        return np.interp(levels, cdf / cdf[-1], fine)

    def contour(self, outside: float) -> float:
        """Log density of the contour outside of which there is such a share of the mass."""
        order = np.argsort(self.log_p, axis=None)
        cumulative = np.cumsum(self.mass.ravel()[order])
        place = np.searchsorted(cumulative, outside)
        return float(self.log_p.ravel()[order[place]])

    @cached_property
    def _spline(self) -> np.ndarray:
        return spline_filter(np.maximum(self.log_p, -2.0 * DEPTH))

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Log densities at points (M, D), interpolated; minus infinity beyond the grid."""
        places = [
            (points[:, d] - axis[0]) / (axis[1] - axis[0]) for d, axis in enumerate(self.axes)
        ]
        return map_coordinates(self._spline, places, prefilter=False, mode="constant", cval=-np.inf)


def posterior_of(model: pm.Model) -> Posterior:
    """Return the posterior of a model with at most three parameters, of one mode.

    Raises
    ------
    ValueError
        If the mass reaches the edge of the widest box, or needs a finer grid than the finest.
    """
    density = density_of(model)
    n = sum(int(np.size(value)) for value in model.initial_point().values())
    widths, finer = np.full(n, WIDTH), 1.0
    while np.all(widths <= WIDEST) and finer <= FINEST:
        posterior, reaches = _posterior_in(density, widths, round(finer * POINTS[n]))
        if not reaches.any() and posterior.is_resolved:
            return posterior
        widths[reaches] *= 2.0
        finer *= 1.0 if reaches.any() else REFINED
    raise ValueError(
        f"no grid holds the posterior: half the widths {widths}, {finer} times as fine"
    )


def _posterior_in(
    density: Callable[[np.ndarray], np.ndarray], widths: np.ndarray, n_points: int
) -> tuple[Posterior, np.ndarray]:
    """Return the posterior inside a box, and of which axes its mass reaches an edge."""
    n, lower, upper = len(widths), -widths, widths.copy()
    for size in (LOOKS[n], LOOKS[n], n_points):
        # Finer where the mass reaches far: what is far is thin, and what is near as narrow as ever.
        sizes = np.rint(size * (2.0 * widths / WIDTH - 1.0)).astype(int)
        axes = [np.linspace(*ends) for ends in zip(lower, upper, sizes, strict=True)]
        points = np.stack([grid.ravel() for grid in np.meshgrid(*axes, indexing="ij")], axis=1)
        parts = np.array_split(points, -(-len(points) // CHUNK))
        log_p = np.concatenate([density(part) for part in parts]).reshape(sizes)
        log_p -= log_p.max()
        for d, axis in enumerate(axes):
            others = tuple(k for k in range(n) if k != d)
            (places,) = np.nonzero((log_p > -DEPTH).any(axis=others))
            lower[d] = axis[max(places[0] - 1, 0)]
            upper[d] = axis[min(places[-1] + 1, len(axis) - 1)]
    reaches = np.any(np.abs([lower, upper]) >= widths, axis=0)
    return Posterior(axes, log_p), reaches
