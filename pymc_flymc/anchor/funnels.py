"""Funnels: a parameter that few rows inform leaves others much less room than at the mode."""

from typing import NamedTuple

import numpy as np

from pymc_flymc.anchor.anchor import Anchor
from pymc_flymc.anchor.expanded_density import ExpandedDensity, nearby
from pymc_flymc.errors import warn
from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.kernels.shared_scales import SharedScales
from pymc_flymc.order import first_largest
from pymc_flymc.reading.flat import Layout

#: Number of posterior sds by which a parameter is moved, and the least sd of a moved parameter: its
#: exponential, as of the logarithm of a scale, then changes by a factor of e.
SDS_AWAY, LEAST_SD = 3.0, 1.0 / 3.0
#: Number of times that such a step is halved to find where the density ends.
HALVINGS = 20
#: Least factor by which others are narrower there. For skew-normal effects without moves, 4.4 times
#: narrower, with 6 rows for each of 8 levels, chains had none of the smallest 0.5 % of the scale.
NARROWER = 3.0
#: Chains do not reach log densities that are lower than at the mode by more than this.
LOWER, MOST_STEPS = 10.0, 200
#: Number of random signs for estimates of diagonals of Hessians, number of draws for estimates of
#: standard deviations, and the step of differences, in units of these.
PROBES, DRAWS, STEP = 8, 100, 1e-3
#: Variables with more elements are effects, not scales.
LARGEST = 1000


def warn_of_funnels(
    density: ExpandedDensity, anchor: Anchor, scales: SharedScales, layout: Layout
) -> None:
    """Warn of the worst funnel into which no move of a scale leads: chains may miss its neck."""
    # The role of a variable does not matter, nor how its prior is written. But the prior must be
    # curved: Laplace distributions look flat. Likelihoods are the quadratics around the anchor, so
    # that no row is read.
    found = narrowest(density, anchor, scales, layout)
    if found is None or found.times < NARROWER:
        return
    advice = "write its effects as location + scale * z, with z ~ Normal(0, 1)"
    if found.at_an_end:
        advice = f"leave out default_transform=None, so that its logarithm is sampled, or {advice}"
    warn(
        f"chains may miss {found.values} values of {found.name!r} (unconstrained), and R-hat may "
        "not show it: few rows inform it, no move changes it together with others, and there "
        f"{layout.describe(found.narrowed)} has {found.times:.0f} times less room than at the "
        f"mode. If it is a scale, {advice}"
    )


class Funnel(NamedTuple):
    """A variable that leaves an element of theta less room."""

    times: float  #: The factor by which the room is smaller.
    name: str  #: Name of the variable.
    values: str  #: Small or large ones, unconstrained.
    narrowed: int  #: Index of the element.
    #: Whether the density ends on the way, as for a scale that is sampled without its logarithm.
    at_an_end: bool


def narrowest(
    density: ExpandedDensity, anchor: Anchor, scales: SharedScales, layout: Layout
) -> Funnel | None:
    """Return the narrowest funnel, or None if rows inform all parameters without moves."""
    # Variables that coefficients depend on are left out, as rows inform them more, and so is
    # everything that a quadratic describes exactly.
    names = _hyperparameters(density, anchor.theta, scales, layout)
    if not names:
        return None
    theta, rng = anchor.theta, np.random.default_rng(20141104)
    sds = standard_deviations(anchor.geometry, rng)
    moved = np.zeros(len(theta), bool)
    moved[scales.scale] = True
    statistics = anchor.expansion.concave().pack()
    probes = sds * rng.choice([-1.0, 1.0], (PROBES, len(theta)))
    at_anchor = curvatures(density, statistics, theta, probes)
    usual = np.maximum(at_anchor.mean(axis=0), 1.0)
    mode, _ = density(theta, statistics)
    found = []
    for name, place in names.items():
        own = np.zeros(len(theta), bool)
        own[place] = True
        away = np.where(own & ~moved, SDS_AWAY * sds, 0.0)
        for sign, values in (-1.0, "small"), (1.0, "large"):
            share = _fraction_within(density, statistics, theta, sign * away)
            there = theta + share * sign * np.where((sds >= LEAST_SD) | (share < 1.0), away, 0.0)
            if np.array_equal(there, theta):
                continue
            # Only differences are used: estimates from one Hessian depend on correlations.
            change = (curvatures(density, statistics, there, probes) - at_anchor).mean(axis=0)
            seen = ~own & ~moved & np.isfinite(change)
            times = np.sqrt(1.0 + np.where(seen, np.maximum(change, 0.0), 0.0) / usual)
            i = first_largest(times)
            units = np.where(own, 0.0, sds)
            if times[i] < NARROWER or _is_reached(density, statistics, there, units, mode):
                found.append(Funnel(float(times[i]), name, values, i, share < 1.0))
    return found[first_largest(np.array([each.times for each in found]))] if found else None


def _hyperparameters(
    density: ExpandedDensity, theta: np.ndarray, scales: SharedScales, layout: Layout
) -> dict[str, slice]:
    """Return variables without their own moves on which no coefficient depends."""
    base, found = nearby(theta), {}
    coefficients = density.coefficients(base)
    for name, place in zip(layout.names, layout.places, strict=True):
        n = place.stop - place.start
        if 0 < n <= LARGEST and np.isin(np.arange(n) + place.start, scales.scale).sum() < n:
            other = base.copy()
            other[place] += 1.0
            if np.array_equal(density.coefficients(other), coefficients):
                found[name] = place
    return found


def _fraction_within(
    density: ExpandedDensity, statistics: np.ndarray, theta: np.ndarray, away: np.ndarray
) -> float:
    """Return 1 if the density is positive at the end of a step, else a fraction of the step."""
    # The fraction ends just short of where the density becomes zero. If a scale is zero there, the
    # logarithm of the scale is less by SDS_AWAY.

    def inside(fraction: float) -> bool:
        value, _ = density(theta + fraction * away, statistics)
        return bool(np.isfinite(value))

    if inside(1.0):
        return 1.0
    short, beyond = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = 0.5 * (short + beyond)
        short, beyond = (middle, beyond) if inside(middle) else (short, middle)
    return short * (1.0 - np.exp(-SDS_AWAY))


def _is_reached(
    density: ExpandedDensity,
    statistics: np.ndarray,
    start: np.ndarray,
    units: np.ndarray,
    mode: float,
) -> bool:
    """Return whether chains reach this density if all parameters with units other than 0 follow."""

    def negative(u: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = density(start + units * u, statistics)
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            return np.inf, np.zeros_like(u)
        return -value, -units * gradient

    from scipy.optimize import minimize  # slow to import, and most models do without

    options = {"maxiter": MOST_STEPS}
    found = minimize(negative, np.zeros_like(start), jac=True, method="L-BFGS-B", options=options)
    return bool(-found.fun > mode - LOWER)


def standard_deviations(geometry: Geometry, rng: np.random.Generator) -> np.ndarray:
    """Return the parameters' posterior sds, (D,), by draws of the Laplace approximation."""
    n = len(geometry.centre)
    draws = [geometry.spread(v) for v in rng.standard_normal((DRAWS, n))]
    return np.sqrt(np.mean(np.square(draws), axis=0))


def curvatures(
    density: ExpandedDensity,
    statistics: np.ndarray,
    theta: np.ndarray,
    probes: np.ndarray,
    step: float = STEP,
) -> np.ndarray:
    """Return estimates (n, D) of minus the Hessian's diagonal, in units of 1 / sd^2."""
    # Bekas, Kokiopoulou and Saad (2007), An estimator for the diagonal of a matrix, Applied
    # Numerical Mathematics 57, 1214-1229.
    found = []
    for v in probes:
        _, before = density(theta - step * v, statistics)
        _, after = density(theta + step * v, statistics)
        found.append(v * (before - after) / (2.0 * step))
    return np.array(found)
