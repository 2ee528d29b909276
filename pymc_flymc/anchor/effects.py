"""Parameters that are effects of groups, as opposed to all others."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymc_flymc.anchor.expanded_density import ExpandedDensity, nearby
from pymc_flymc.reading.flat import Layout
from pymc_flymc.regression.design import Design
from pymc_flymc.regression.matrices import LARGEST_DENSE

#: With more than `LARGEST_DENSE` parameters, effects in variables larger than this are
#: diagonal elements of a `Geometry`.
LARGE_VARIABLE = 100
#: Most effects per group whose covariance is taken into account.
MAX_COUPLED = 8
#: Curvatures of diagonal elements are probed for all groups at once, and for each slope separately
#: up to this number of slopes.
MAX_SLOPES = 64
#: A parameter has collapsed if its conditional precision has grown by this factor.
COLLAPSE = 1e4


@dataclass(frozen=True)
class Effects:
    """Parameters by their role, as indices in theta."""

    integrated_out: np.ndarray  #: Effects of groups: they enter sparse columns only.
    dense: np.ndarray  #: Elements in the dense block of a `Geometry`.
    diagonal: np.ndarray  #: Elements in its diagonal block: effects, variable by variable.
    #: Sets of diagonal elements with little coupling, which together are all of them.
    probes: list[np.ndarray]
    #: Variables of effects that are dense, as of a factor of ten levels next to one of a thousand.
    few: list[np.ndarray]
    #: For variables with several effects of each group: where they begin among the diagonal
    #: elements, how many effects, and how many groups.
    runs: list[tuple[int, int, int]]


def find_effects(density: ExpandedDensity, designs: Sequence[Design], layout: Layout) -> Effects:
    """Return the effects of groups, and the other parameters.

    Effects are the elements of variables that change coefficients of sparse columns and no others.
    Short variables that do so are taken to be means and scales of effects. They have no more
    elements than the square root of the number of sparse columns, in the largest of the designs.
    With more than `LARGEST_DENSE` parameters they are effects, too, if each has its own column:
    with a scale, their joint density would have no mode.
    """
    size = layout.size
    is_large = size > LARGEST_DENSE
    most_sparse = max(design.n_sparse for design in designs)
    is_effect, is_diagonal = np.zeros(size, bool), np.zeros(size, bool)
    probes: list[np.ndarray] = []
    few: list[np.ndarray] = []
    runs: list[tuple[int, int, int]] = []
    in_sparse = np.concatenate([_in_sparse(design) for design in designs])
    rng = np.random.default_rng(20141104)
    theta = 0.1 * rng.standard_normal(size)  # no product vanishes by chance
    for shape, place in zip(layout.shapes, layout.places, strict=True):
        span = np.arange(place.start, place.stop)
        is_long = len(span) > np.sqrt(most_sparse)
        if not (most_sparse and (is_long or (is_large and len(span) > 1))):
            continue
        direction = np.zeros(size)
        direction[span] = rng.standard_normal(len(span))
        change = density.pushforward(theta, direction)
        if np.any(change[~in_sparse]) or not np.any(change[in_sparse]):
            continue
        if not is_long and np.count_nonzero(change) > len(span):
            continue
        is_effect[span] = True
        if is_large and len(span) > LARGE_VARIABLE:
            is_diagonal[span] = True
            # The longest axis is the axis of the groups.
            groups_first = np.moveaxis(span.reshape(shape), int(np.argmax(shape)), 0)
            slopes = groups_first.reshape(max(shape), -1).T
            if 1 < len(slopes) <= MAX_COUPLED:
                runs.append((sum(map(len, probes)), *slopes.shape))
            probes += list(slopes) if len(slopes) <= MAX_SLOPES else [span]
        else:
            few.append(span)
    return Effects(
        np.flatnonzero(is_effect),
        np.flatnonzero(~is_diagonal),
        np.concatenate([np.empty(0, np.int64), *probes]),
        probes,
        few,
        runs,
    )


def _in_sparse(design: Design) -> np.ndarray:
    """Return which coefficients are those of sparse columns."""
    places = np.arange(design.n_coefficients)
    behind = places % design.width >= design.width - design.n_sparse
    return behind & (places < design.n_predictors * design.width)


def moving(density: ExpandedDensity, theta: np.ndarray) -> np.ndarray:
    """Return the indices of the parameters that change coefficients; none if all of them do."""
    found = np.flatnonzero(density.jacobian(nearby(theta)).any(axis=0))
    return found if len(found) < len(theta) else np.empty(0, np.int64)


def collapsed(
    density: ExpandedDensity, statistics: np.ndarray, start: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """Return the indices of parameters of priors alone that a search has followed into a funnel."""
    # If no row depends on a ~ Normal(0, sigma), the joint density of a and sigma grows without
    # limit as both go to zero. On the way there the conditional precision of a grows, too.
    before, after = (-np.diag(density.hessian(theta, statistics)) for theta in (start, end))
    grown = np.flatnonzero(after > COLLAPSE * np.maximum(before, 1.0))
    if not len(grown):
        return grown
    return grown[~density.jacobian(nearby(start))[:, grown].any(axis=0)]
