"""Other modes of a posterior, found without reading a row."""

from itertools import combinations

import numpy as np
from pymc.model.core import Model
from scipy.linalg import cho_factor, cho_solve

from pymc_flymc.anchor.anchor import Anchor
from pymc_flymc.anchor.expanded_density import ExpandedDensity, nearby
from pymc_flymc.compat.pymc import make_initial_point_fn
from pymc_flymc.errors import warn
from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.order import first_largest
from pymc_flymc.reading.flat import Layout

#: Draws of the prior, whose range is searched; points in this range; and halvings of the distance
#: between two of them.
DRAWS, POINTS, HALVINGS = 100, 129, 30
#: Second differences up to this share of their terms are rounding errors.
ROUNDING = 1e-9
#: Side modes that are compared with the mode: if there are many, most of them are alike.
MOST = 100


def side_modes(
    model: Model, density: ExpandedDensity, anchor: Anchor, layout: Layout
) -> list[np.ndarray]:
    """Return points which differ from the mode in one parameter, of which they are side modes.

    Effects of groups hardly depend on one another, given all else. So the signs of derivatives in
    all elements of a variable, which move together, show where each one has a mode. Likelihoods are
    quadratics in the coefficients, so that no row is read.

    Parameters
    ----------
    model : Model
        Its prior is drawn from.
    """
    theta, statistics = anchor.theta, anchor.expansion.concave().pack()
    places = [place for place in layout.places if _is_curved(density, theta, place)]
    ends = _prior_range(model, layout) if places else None
    if ends is None:
        return []
    low, high = np.minimum(ends[0], theta), np.maximum(ends[1], theta)

    def slopes(elements: np.ndarray, values: np.ndarray) -> np.ndarray:
        there = theta.copy()
        there[elements] = values
        return density(there, statistics)[1][elements]

    found = []
    for place in places:
        elements = np.arange(place.start, place.stop)
        grid = np.linspace(low[elements], high[elements], POINTS)
        signs = np.sign([slopes(elements, values) for values in grid])
        # Of each element the maxima, one after the other: most have a single one.
        is_maximum = (signs[:-1] > 0.0) & (signs[1:] < 0.0)
        for k in range(int(is_maximum.sum(axis=0).max(initial=0))):
            has = np.flatnonzero(is_maximum.sum(axis=0) > k)
            before = np.array([np.flatnonzero(is_maximum[:, j])[k] for j in has])
            left, right = grid[before, has], grid[before + 1, has]
            is_other = (theta[elements[has]] < left) | (theta[elements[has]] > right)
            if not is_other.any():
                continue
            some = elements[has][is_other]
            left, right = left[is_other], right[is_other]
            for _ in range(HALVINGS):
                middle = 0.5 * (left + right)
                rising = slopes(some, middle) > 0.0
                left, right = np.where(rising, middle, left), np.where(rising, right, middle)
            for j, value in zip(some, left, strict=True):
                found.append(theta.copy())
                found[-1][j] = value
    return found[:MOST]


def _is_curved(density: ExpandedDensity, theta: np.ndarray, place: slice) -> bool:
    """Return whether coefficients are not linear in a variable, with all others fixed."""
    step = np.zeros(len(theta))
    step[place] = np.random.default_rng(20141104).standard_normal(place.stop - place.start)
    here, near, far = (density.coefficients(nearby(theta) + k * step) for k in range(3))
    change = np.abs(far - 2.0 * near + here)
    # A NaN beyond the range of a function counts as curved.
    return bool(np.any(~(change <= ROUNDING * (np.abs(far) + 2.0 * np.abs(near) + np.abs(here)))))


def _prior_range(model: Model, layout: Layout) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the least and the largest of draws of the prior, None if it is flat."""
    try:
        draw = make_initial_point_fn(model=model, default_strategy="prior")
        points = [draw(seed) for seed in range(DRAWS)]
    except Exception:  # of a user's own type, and where there are no draws
        return None
    draws = np.array([layout.ravel(point) for point in points])
    draws = draws[np.isfinite(draws).all(axis=1)]
    return (draws.min(axis=0), draws.max(axis=0)) if len(draws) else None


#: Number of searches from random places, in addition to those from the anchor and the mirror image
#: of the best mode; half the width of the box of these around the model's initial point, which is
#: the one of NUTS. The mirror image has other signs in any case. Modes by which several signs
#: differ one at a time are each found half of the time by one more search: we make two.
STARTS, HALF_WIDTH = 2, 1.0
#: With more parameters the search takes longer than the rest of the set-up.
MOST_PARAMETERS = 50
MOST_STEPS = 200
#: Log of the probability, relative to the largest mode's, from which a mode counts: a smaller one
#: changes no probability by more than its Monte Carlo error in 4,000 draws, sqrt(0.25 / 4000).
LEAST_MASS = -5.0
#: Log of the density between two modes, relative to the lower one, below which chains rarely cross:
#: fewer than one of 4,000 draws is there. (On a line: there may be an easier way around.)
BARRIER = -10.0
#: Largest predicted gain of one more Newton step at a mode: its mass is then known to about 10 %.
AT_MODE = 0.1
#: Points of the line between two modes at which the density is compared.
BETWEEN = np.linspace(0.0, 1.0, 23)[1:-1]


def warn_of_other_modes(
    model: Model, density: ExpandedDensity, anchor: Anchor, start: np.ndarray, layout: Layout
) -> None:
    """Warn if the posterior has several modes, such as by signs that may change together.

    The prior of `model` is drawn from if a function of parameters may not be monotone; `start` (D,)
    is the model's initial point, and `layout` names the parameters for the message.
    """
    # Likelihoods are the quadratics around the anchor. Other modes of consequence have about the
    # same coefficients, as when these are products of parameters, so that no row needs to be read.
    # If coefficients are affine, priors with several modes are mixtures, which have a warning of
    # their own.
    if density.is_affine:
        return
    statistics = anchor.expansion.concave().pack()
    found = _along_one(model, density, statistics, anchor, layout)
    if found is None and len(start) <= MOST_PARAMETERS:
        found = _of_several(density, statistics, anchor, start)
    if found is not None:
        one, other = found
        i = first_largest(np.abs(one - other))
        warn(
            "the posterior has several modes between which chains hardly cross: one where "
            f"{layout.describe(i)} is {one[i]:.3g} and one where it is {other[i]:.3g} "
            "(unconstrained). Chains start around one of them, and R-hat does not show what "
            "none has visited. If modes differ by signs alone, give a parameter a positive "
            "prior, such as pm.HalfNormal; else let chains start at both, "
            "pm.sample(initvals=[{...}, {...}]), and compare with NUTS"
        )


def _of_several(
    density: ExpandedDensity, statistics: np.ndarray, anchor: Anchor, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return two modes between which chains hardly cross, found by searches in all parameters."""
    rng = np.random.default_rng(20141104)
    box = rng.uniform(-HALF_WIDTH, HALF_WIDTH, (STARTS, len(start)))
    starts = [anchor.theta, *(start + box)]
    found = [_mode_near(density, statistics, anchor.geometry, theta) for theta in starts]
    best, _ = found[first_largest(np.array([mass for _, mass in found]))]
    found.append(_mode_near(density, statistics, anchor.geometry, -best))
    modes = [(theta, mass) for theta, mass in found if np.isfinite(mass)]
    most = max((mass for _, mass in modes), default=0.0)
    large = [theta for theta, mass in modes if mass > most + LEAST_MASS]
    for one, other in combinations(large, 2):
        if _is_barrier(density, statistics, one, other):
            return one, other
    return None


def _along_one(
    model: Model,
    density: ExpandedDensity,
    statistics: np.ndarray,
    anchor: Anchor,
    layout: Layout,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the mode and a side mode along one parameter, between which chains hardly cross."""

    def mass(theta: np.ndarray, j: int) -> float:
        v = np.zeros(len(theta))
        v[j] = 1.0
        curvature = -density.hessian_times(theta, statistics, v)[j]
        if not curvature > 0.0:
            return -np.inf
        return density(theta, statistics)[0] - 0.5 * float(np.log(curvature))

    mode = anchor.theta
    for other in side_modes(model, density, anchor, layout):
        j = int(np.argmax(np.abs(other - mode)))
        if mass(other, j) > mass(mode, j) + LEAST_MASS and _is_barrier(
            density, statistics, mode, other
        ):
            return mode, other
    return None


def _mode_near(
    density: ExpandedDensity, statistics: np.ndarray, geometry: Geometry, start: np.ndarray
) -> tuple[np.ndarray, float]:
    """Return a mode near a start and the log of its Laplace integral; -inf if there is none."""

    def negative(v: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = density(geometry.unstandardise(v), statistics)
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            return np.inf, np.zeros_like(v)
        return -value, -geometry.standardise_gradient(gradient)

    v = geometry.standardise(start)
    if not np.isfinite(negative(v)[0]):
        return start, -np.inf
    from scipy.optimize import minimize  # slow to import, and most models do without

    options = {"maxiter": MOST_STEPS, "gtol": 0.01, "ftol": 1e-10}
    theta = geometry.unstandardise(
        minimize(negative, v, jac=True, method="L-BFGS-B", options=options).x
    )
    value, gradient = density(theta, statistics)
    try:
        factor = cho_factor(-density.hessian(theta, statistics))
    except (np.linalg.LinAlgError, ValueError):  # a saddle, or a missing derivative
        return theta, -np.inf
    gain = 0.5 * float(gradient @ cho_solve(factor, gradient))
    mass = value - float(np.sum(np.log(np.diag(factor[0]))))
    return theta, mass if gain < AT_MODE else -np.inf


def _is_barrier(
    density: ExpandedDensity, statistics: np.ndarray, one: np.ndarray, other: np.ndarray
) -> bool:
    ends = [density(theta, statistics)[0] for theta in (one, other)]
    between = [density(one + t * (other - one), statistics)[0] for t in BETWEEN]
    return bool(min(between) < min(ends) + BARRIER)
