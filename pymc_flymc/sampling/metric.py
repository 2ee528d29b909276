"""Whitened coordinates learnt from a chain's draws."""

from __future__ import annotations

import numpy as np

from pymc_flymc.kernels.geometry import Geometry

__all__ = ["diagonal_geometry", "isotropic_geometry", "learn_geometry"]

#: A few draws say little about a variance: as if so many more had confirmed the old coordinates.
CONFIRMING = 5.0


def diagonal_geometry(geometry: Geometry) -> Geometry:
    """Coordinates scaled by each parameter's standard deviation, without correlations."""
    d = len(geometry.centre)
    scale = np.empty(d)
    scale[geometry.dense] = np.linalg.norm(geometry.factor, axis=1)
    reach = np.linalg.norm(geometry.coupling.T @ geometry.factor, axis=1)
    scale[geometry.wide] = np.hypot(geometry.conditional_sds(), reach)
    empty = np.empty(0, np.int64)
    return Geometry(geometry.centre, empty, np.arange(d), np.empty((0, 0)), scale, np.empty((0, d)))


def isotropic_geometry(geometry: Geometry) -> Geometry:
    """Coordinates with one scale for all parameters: the root mean square of their own."""
    diagonal = diagonal_geometry(geometry)
    rms = np.sqrt(np.mean(diagonal.scale**2))
    return diagonal._replace(scale=np.full_like(diagonal.scale, rms))


def learn_geometry(geometry: Geometry, draws: np.ndarray) -> Geometry:
    """Coordinates in which draws would be about N(0, I).

    Parameters
    ----------
    geometry : Geometry
        The coordinates of the draws.
    draws : ndarray, shape (n, D)
        A chain's whitened parameters while it tuned.
    """
    draws = draws - draws.mean(axis=0)
    dense, variance = draws[:, geometry.dense], np.mean(draws[:, geometry.wide] ** 2, axis=0)
    n = len(draws)
    geometry = geometry.rescaled(np.sqrt((n * variance + CONFIRMING) / (n + CONFIRMING)))
    if not dense.shape[1]:
        return geometry
    covariance = (n * _shrunk_covariance(dense) + CONFIRMING * np.eye(dense.shape[1])) / (
        n + CONFIRMING
    )
    factor = geometry.factor @ np.linalg.cholesky(covariance)
    return geometry._replace(factor=np.ascontiguousarray(factor))


def _shrunk_covariance(draws: np.ndarray) -> np.ndarray:
    """Covariance of n centred draws, shape (n, m), shrunk towards the identity's shape.

    The oracle approximating estimator of Chen, Wiesel, Eldar & Hero (2010, equation 23): the less
    the draws contradict the old coordinates, the more it stays with them.
    """
    n, m = draws.shape
    sample = draws.T @ draws / n
    squared, trace = float(np.sum(sample**2)), float(np.trace(sample))
    spread = squared - trace**2 / m
    numerator = (1.0 - 2.0 / m) * squared + trace**2
    weight = min(1.0, numerator / ((n + 1.0 - 2.0 / m) * spread)) if spread > 0.0 else 1.0
    return (1.0 - weight) * sample + weight * trace / m * np.eye(m)
