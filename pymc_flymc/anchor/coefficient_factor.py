"""The covariance of coefficients over the Laplace approximation of the parameters."""

import numpy as np

from pymc_flymc.anchor.expanded_density import ExpandedDensity
from pymc_flymc.kernels.geometry import Geometry

#: Number of columns that replace the Laplace covariance of many coefficients: they give variances
#: to a quarter of their size, which affect only the slack of bounds.
SKETCH = 32
#: Distances in posterior sds over which coefficients that rest at the mode are followed.
DISTANCES = 1.0, 2.0, 4.0
#: Number of random lines along which they are followed, both ways.
LINES = 16
#: A coefficient rests if its sd to first order is less than this share of how far it moves.
RESTING = 0.02
#: Rows without more curvature do not limit a coefficient; sds are finite all the same.
LEAST_CURVATURE = 1e-100
#: Rows keep a coefficient within so many of the sds that they alone would give it, in effect. An
#: exponential of a parameter with a flat prior moves out of all proportion.
FARTHEST = 100.0


def coefficient_factor(
    density: ExpandedDensity, geometry: Geometry, curvature: np.ndarray
) -> np.ndarray:
    """Return W, (P, S), so that W W' is about the covariance of the coefficients.

    It is the one to first order. But where the posterior has its mode, some coefficients may rest:
    a product of two zeros, or the positive part of a negative parameter. How far they move further
    out stands for their sds. Bounds that took them for fixed would keep chains from moving them.
    `curvature` is the diagonal of the information of the rows, (P,), which limits how far.
    """
    centre = geometry.centre
    rng = np.random.default_rng(20141104)
    if len(geometry.diagonal):
        draws = rng.standard_normal((SKETCH, len(centre))) / np.sqrt(SKETCH)
        # Filled column by column: a copy of it is large for hundreds of thousands of effects.
        factor = np.empty((density.n_coefficients, SKETCH))
        for i, v in enumerate(draws):
            factor[:, i] = density.pushforward(centre, geometry.spread(v))
    else:
        factor = density.jacobian(centre) @ geometry.factor
    if density.is_affine or not np.all(np.isfinite(factor)):
        return factor
    moves = _moves(density, geometry, rng)
    resting = np.flatnonzero(np.linalg.norm(factor, axis=1) < RESTING * moves)
    if not len(resting):
        return factor
    # Independent of all others; of one another on average only, if there are more than columns.
    own = np.zeros((len(factor), min(len(resting), SKETCH)))
    signs = rng.choice([-1.0, 1.0], len(resting))
    informed = np.maximum(curvature[resting], LEAST_CURVATURE)
    sds = np.minimum(moves[resting], FARTHEST / np.sqrt(informed))
    own[resting, np.arange(len(resting)) % own.shape[1]] = signs * sds
    return np.hstack([factor, own])


def _moves(density: ExpandedDensity, geometry: Geometry, rng: np.random.Generator) -> np.ndarray:
    """Return how far coefficients move per posterior sd, at the first distance at which they do."""
    centre = geometry.centre
    steps = [geometry.spread(v) for v in rng.standard_normal((LINES, len(centre)))]
    steps += [-step for step in steps]
    before, moves = density.coefficients(centre), np.zeros(density.n_coefficients)
    for distance in DISTANCES:
        if moves.all():
            break
        # The second largest change: the largest one of an exponential may be out of all proportion.
        largest, second = np.zeros((2, len(moves)))
        for step in steps:
            with np.errstate(all="ignore"):
                change = np.abs(density.coefficients(centre + distance * step) - before)
            change = np.where(np.isfinite(change), change, 0.0)
            second = np.maximum(second, np.minimum(largest, change))
            largest = np.maximum(largest, change)
        moves = np.where(moves > 0.0, moves, second / distance)
    return moves
