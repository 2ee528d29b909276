"""Whitened coordinates learnt from a chain's draws."""

from __future__ import annotations

import numpy as np

from pymc_flymc.kernels.geometry import Geometry

__all__ = ["diagonal_geometry", "isotropic_geometry", "learn_geometry"]

#: A few draws say little about a variance: as if so many more had confirmed the old coordinates.
CONFIRMING = 5.0
#: Parts of a chain whose covariances are compared.
PARTS = 5
#: How much more noise there is than their differences show, which depend on each other, too. Where
#: the old coordinates are good, what is learnt can but spoil them.
DOUBT = 2.0


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
    n, mean = len(draws), draws.mean(axis=0)
    draws = draws - mean
    dense = draws[:, geometry.dense]
    # No array of all draws of the wide elements, which are nearly all there are.
    variance = np.einsum("ij,ij->j", draws, draws)[geometry.wide] / n
    centre = geometry.unwhiten(n / (n + CONFIRMING) * mean)
    change = np.sqrt((n * variance + CONFIRMING) / (n + CONFIRMING))
    geometry = geometry._replace(centre=centre).rescaled(change)
    if not dense.shape[1]:
        return geometry
    covariance = (n * _shrunk_covariance(dense) + CONFIRMING * np.eye(dense.shape[1])) / (
        n + CONFIRMING
    )
    factor = geometry.factor @ np.linalg.cholesky(covariance)
    return geometry._replace(factor=np.ascontiguousarray(factor))


def _shrunk_covariance(draws: np.ndarray) -> np.ndarray:
    """Covariance of n centred draws, shape (n, m), shrunk towards that of the old coordinates.

    By as much as the noise in it says (Ledoit & Wolf 2004, section 3.3), which is seen from parts
    of the chain: neighbouring draws depend on each other, and say less than so many others would.
    Variances are shrunk apart from correlations, of which a window of fewer draws than parameters
    says nothing; towards their median: a few that are large, as of the scales of a horseshoe, would
    make trajectories too long for all others.
    """
    n, m = draws.shape
    sample, total, squares = draws.T @ draws / n, np.zeros((m, m)), np.zeros((m, m))
    size = n // PARTS
    if size < 2:
        return np.eye(m)
    for i in range(PARTS):
        part = draws[i * size : (i + 1) * size]
        each = part.T @ part / size
        total += each
        squares += each**2
    noise = (squares - total**2 / PARTS) / (PARTS * (PARTS - 1))
    variances = np.diag(sample)
    before = np.full(m, np.median(variances))
    own = _weight(np.diag(noise), variances - before)
    np.fill_diagonal(noise, 0.0)
    # No smaller than that of variances: what is returned stays positive definite.
    weight = max(own, _weight(noise, sample - np.diag(variances)))
    covariance = (1.0 - weight) * sample
    np.fill_diagonal(covariance, (1.0 - own) * variances + own * before)
    return covariance


def _weight(noise: np.ndarray, change: np.ndarray) -> float:
    """Return the weight of what was believed before, for estimates with some noise."""
    squares = float(np.sum(change**2))
    return min(1.0, DOUBT * float(np.sum(noise)) / squares) if squares > 0.0 else 1.0
