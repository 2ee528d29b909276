"""Directions in which the posterior is wide although no single element is.

Paired or crossed effects leave the rows' likelihoods as they are when all of them move together:
``a[home] - a[away]`` by adding a number to all of a, ``a[i] + b[j]`` by adding it to one factor and
subtracting it from the other. Only their priors determine this common level. In coordinates that
take the effects as independent given few others, it is the direction of an eigenvector of the
precision whose eigenvalue is close to zero. There is one for each level, or weakly connected group
of effects.

Parlett, B. N. (1980). The Symmetric Eigenvalue Problem, chapter 13 (Lanczos' method with full
orthogonalisation).
"""

from collections.abc import Callable

import numpy as np

from pymc_flymc.kernels.geometry import Geometry

#: Most products with the precision: each costs a gradient without rows.
STEPS = 40
#: Directions are separated if their precision is less than this share of the other coordinates'.
#: There may be many others, and each costs as much as a dense parameter.
SLOW = 0.5
#: Most directions that are kept.
MOST = 16
#: Largest squared error of an eigenvector, in proportion to its eigenvalue: with a larger error,
#: stretching would correlate it with other directions.
ERROR = 0.1
#: Least eigenvalue: a smaller one is rounding, or there is no mode.
LEAST_EIGENVALUE = 1e-8


def with_slow_directions(
    geometry: Geometry, precision_times: Callable[[np.ndarray], np.ndarray]
) -> Geometry:
    """Return a geometry with directions that couple diagonal elements, by Lanczos' method."""
    if not len(geometry.diagonal):
        return geometry

    def standardised_precision_times(v: np.ndarray) -> np.ndarray:
        return geometry.standardise_gradient(precision_times(geometry.spread(v)))

    values, vectors, errors = _lanczos(standardised_precision_times, len(geometry.centre))
    good = (values > LEAST_EIGENVALUE) & (values < SLOW) & (errors**2 < ERROR * values)
    kept = np.flatnonzero(good)[:MOST]  # the slowest first
    return geometry._replace(
        directions=np.ascontiguousarray(vectors[kept]), stretch=values[kept] ** -0.5 - 1.0
    )


def _lanczos(
    times: Callable[[np.ndarray], np.ndarray], size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return Ritz values of a symmetric matrix, in ascending order, vectors as rows, and errors."""
    v = np.random.default_rng(20141104).standard_normal(size)
    basis, diagonal, beside = [v / np.linalg.norm(v)], np.zeros(STEPS), np.zeros(STEPS)
    for i in range(min(STEPS, size)):
        w = times(basis[i])
        diagonal[i] = basis[i] @ w
        for _ in range(2):  # a second time removes the rounding errors of the first
            for each in basis:
                w -= (each @ w) * each
        beside[i] = np.linalg.norm(w)
        # All directions in which the start has a part are found: for independent effects at once.
        if not beside[i] > 1e-6 * np.max(np.abs(diagonal)):
            break
        basis.append(w / beside[i])
    n = i + 1
    tridiagonal = np.diag(diagonal[:n]) + np.diag(beside[: n - 1], 1) + np.diag(beside[: n - 1], -1)
    if not np.all(np.isfinite(tridiagonal)):
        return np.empty(0), np.empty((0, size)), np.empty(0)
    values, weights = np.linalg.eigh(tridiagonal)
    return values, weights.T @ np.stack(basis[:n]), beside[n - 1] * np.abs(weights[-1])
