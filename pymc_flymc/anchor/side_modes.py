"""Side modes along single parameters, where rows depend on a function that is not monotone.

A function such as ``cos(a[group])`` has one value at several values of an effect. A search from
near the mode of all effects does not meet the others: they are sought along each parameter, over
the range of its prior.
"""

import numpy as np
from pymc.model.core import Model

from pymc_flymc.anchor.anchor import Anchor
from pymc_flymc.anchor.expanded_density import ExpandedDensity, nearby
from pymc_flymc.compat.pymc import make_initial_point_fn
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
