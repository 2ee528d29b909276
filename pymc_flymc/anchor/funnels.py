"""Funnels: where a parameter that few rows inform leaves others much less room than at the mode."""

from typing import NamedTuple

import numpy as np

from pymc_flymc.anchor.anchor import Anchor
from pymc_flymc.anchor.expanded_density import ExpandedDensity, nearby
from pymc_flymc.errors import warn
from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.kernels.shared_scales import SharedScales
from pymc_flymc.order import first_largest
from pymc_flymc.reading.flat import Layout

#: Posterior sds by which a parameter is moved, and the least sd of one that is moved: its
#: exponential, as of the logarithm of a scale, then changes by a factor of e.
SDS_AWAY, LEAST_SD = 3.0, 1.0 / 3.0
#: Times that the part of such a step is halved in which a density ends.
HALVINGS = 20
#: How many times narrower others must be there. Of skew-normal effects without moves, 4.4 times
#: narrower, with 6 rows for each of 8 levels, chains had none of the smallest 0.5 % of the scale.
NARROWER = 3.0
#: How much lower than at the mode the log density may be there, for chains to come there at all.
LOWER, MOST_STEPS = 10.0, 200
#: Random signs by which diagonals of Hessians are estimated; draws by which standard deviations
#: are; and the step of differences, in these.
PROBES, DRAWS, STEP = 8, 100, 1e-3
#: Variables with more elements are effects, not scales.
LARGEST = 1000


def warn_of_funnels(
    density: ExpandedDensity, anchor: Anchor, scales: SharedScales, layout: Layout
) -> None:
    """Warn of the worst funnel into which no move of a scale leads: chains may miss its neck.

    The role of a variable does not matter, nor how its prior is written. But the prior must be
    curved: Laplace distributions look flat. Likelihoods are the quadratics around the anchor, so
    that no row is read.

    Parameters
    ----------
    scales : SharedScales
        Those with moves, which are left out.
    layout : Layout
        Names of the parameters, for the message.
    """
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
    """Where a variable leaves an element of theta less room.

    Attributes
    ----------
    times : float
        How many times less.
    name : str
        Of the variable.
    values : str
        Small or large ones, unconstrained.
    narrowed : int
        The element.
    at_an_end : bool
        Whether the density becomes zero on the way, as where a scale itself is sampled, and not its
        logarithm.
    """

    times: float
    name: str
    values: str
    narrowed: int
    at_an_end: bool


def narrowest(
    density: ExpandedDensity, anchor: Anchor, scales: SharedScales, layout: Layout
) -> Funnel | None:
    """Return the narrowest funnel, None where rows inform all parameters of priors without moves.

    Variables that coefficients depend on are not tried, of which rows say more, and nothing that
    a quadratic could tell. Parameters are those of `warn_of_funnels`.
    """
    names = _hyperparameters(density, anchor.theta, scales, layout)
    if not names:
        return None
    theta, rng = anchor.theta, np.random.default_rng(20141104)
    sds = _standard_deviations(anchor.geometry, rng)
    moved = np.zeros(len(theta), bool)
    moved[scales.scale] = True
    statistics = anchor.expansion.concave().pack()
    probes = sds * rng.choice([-1.0, 1.0], (PROBES, len(theta)))
    at_anchor = _curvatures(density, statistics, theta, probes)
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
            change = (_curvatures(density, statistics, there, probes) - at_anchor).mean(axis=0)
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
    """Return variables without moves of their own on which no coefficient depends."""
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
    """Return 1 if the density is positive at the end of a step, else a fraction of the step.

    The fraction ends just short of where the density becomes zero. If that is where a scale is
    zero, the logarithm of the scale is `SDS_AWAY` less there.
    """

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
    """Return whether the posterior is not too small there: all but what is moved may follow.

    Parameters
    ----------
    units : ndarray, shape (D,)
        Of changes; zero for what stays.
    mode : float
        Log density at the mode.
    """

    def negative(u: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = density(start + units * u, statistics)
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            return np.inf, np.zeros_like(u)
        return -value, -units * gradient

    from scipy.optimize import minimize  # slow to import, and most models do without

    options = {"maxiter": MOST_STEPS}
    found = minimize(negative, np.zeros_like(start), jac=True, method="L-BFGS-B", options=options)
    return bool(-found.fun > mode - LOWER)


def _standard_deviations(geometry: Geometry, rng: np.random.Generator) -> np.ndarray:
    """Posterior sds of the parameters, shape (D,), by draws of the Laplace approximation."""
    n = len(geometry.centre)
    draws = [geometry.spread(v) for v in rng.standard_normal((DRAWS, n))]
    return np.sqrt(np.mean(np.square(draws), axis=0))


def _curvatures(
    density: ExpandedDensity, statistics: np.ndarray, theta: np.ndarray, probes: np.ndarray
) -> np.ndarray:
    """Estimates of minus the Hessian's diagonal, in units of 1 / sd^2; shape (n, D).

    References
    ----------
    Bekas, Kokiopoulou and Saad (2007). An estimator for the diagonal of a matrix. Applied Numerical
    Mathematics 57, 1214-1229.
    """
    found = []
    for v in probes:
        _, before = density(theta - STEP * v, statistics)
        _, after = density(theta + STEP * v, statistics)
        found.append(v * (before - after) / (2.0 * STEP))
    return np.array(found)
