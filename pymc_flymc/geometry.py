"""Whitened coordinates of the parameters: the metric of every proposal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, types
from scipy.linalg import solve_triangular

from pymc_flymc.native import matrix, named_tuple_type, vector

__all__ = ["Geometry", "dense_geometry", "geometry_type", "pull_back", "unwhiten", "whiten"]


class Geometry(NamedTuple):
    """Whitened coordinates v, in which the posterior is about N(0, I).

    The m *dense* parameters are ``centre + factor v[:m]``. All others, the *wide* ones, may be
    many: given the dense ones they are taken to be independent, ``centre + scale v[m:] - coupling
    d`` with d the dense parameters' distance from their centre.

    Attributes
    ----------
    centre : ndarray, shape (D,)
    factor : ndarray, shape (m, m)
        Lower-triangular; factor factor' is about the dense parameters' posterior covariance.
    dense : ndarray, shape (m,), int64
        Places of the dense parameters in theta.
    wide : ndarray, shape (D - m,), int64
        Places of all others.
    scale : ndarray, shape (D - m,)
        Standard deviations of the wide parameters given the dense ones.
    coupling : ndarray, shape (D - m, m)
    """

    centre: np.ndarray
    factor: np.ndarray
    dense: np.ndarray
    wide: np.ndarray
    scale: np.ndarray
    coupling: np.ndarray


def dense_geometry(centre: np.ndarray, factor: np.ndarray) -> Geometry:
    """Coordinates without wide parameters."""
    d = len(centre)
    return Geometry(
        centre, factor, np.arange(d), np.empty(0, np.int64), np.empty(0), np.empty((0, d))
    )


def geometry_type() -> types.Type:
    """Numba type of `Geometry`."""
    return named_tuple_type(
        Geometry,
        {
            "centre": vector(),
            "factor": matrix,
            "dense": vector(types.int64),
            "wide": vector(types.int64),
            "scale": vector(),
            "coupling": matrix,
        },
    )


@njit(fastmath={"reassoc", "contract", "nsz"}, cache=True)
def unwhiten(geometry, v, theta):
    """Write the parameters at whitened coordinates v to theta."""
    m = geometry.dense.shape[0]
    for i in range(m):
        total = 0.0
        for j in range(i + 1):
            total += geometry.factor[i, j] * v[j]
        place = geometry.dense[i]
        theta[place] = geometry.centre[place] + total
    for i in range(geometry.wide.shape[0]):
        total = geometry.scale[i] * v[m + i]
        for j in range(m):
            k = geometry.dense[j]
            total -= geometry.coupling[i, j] * (theta[k] - geometry.centre[k])
        place = geometry.wide[i]
        theta[place] = geometry.centre[place] + total


@njit(fastmath={"reassoc", "contract", "nsz"})
def pull_back(geometry, gradient, out):
    """Write to `out` the gradient in v of a function with a given gradient in theta."""
    m = geometry.dense.shape[0]
    for j in range(m):
        out[j] = gradient[geometry.dense[j]]
    for i in range(geometry.wide.shape[0]):
        slope = gradient[geometry.wide[i]]
        out[m + i] = geometry.scale[i] * slope
        for j in range(m):
            out[j] -= geometry.coupling[i, j] * slope
    # The product with factor', in place: what is read next has not been written to.
    for i in range(m):
        slope = out[i]
        out[i] = 0.0
        for j in range(i + 1):
            out[j] += geometry.factor[i, j] * slope


def whiten(geometry: Geometry, theta: np.ndarray) -> np.ndarray:
    """Whitened coordinates of parameters theta, shape (D,)."""
    away = theta - geometry.centre
    dense = away[geometry.dense]
    wide = (away[geometry.wide] + geometry.coupling @ dense) / geometry.scale
    return np.concatenate([solve_triangular(geometry.factor, dense, lower=True), wide])
