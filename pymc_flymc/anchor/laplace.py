"""The posterior's Laplace approximation, as coordinates in which it is standard normal."""

from __future__ import annotations

import numpy as np

from pymc_flymc.kernels.geometry import Geometry

__all__ = ["laplace_geometry"]


def laplace_geometry(
    centre: np.ndarray,
    dense: np.ndarray,
    wide: np.ndarray,
    block: np.ndarray,
    diagonal: np.ndarray,
    cross: np.ndarray,
) -> Geometry:
    """Coordinates around a point, for a precision matrix in blocks.

    Parameters
    ----------
    centre : ndarray, shape (D,)
    dense, wide : ndarray of int64, shapes (M,) and (D - M,)
    block : ndarray, shape (M, M)
        Precision of the dense elements, C.
    diagonal : ndarray, shape (D - M,)
        Precisions of the wide ones, d; positive.
    cross : ndarray, shape (D - M, M)
        B'.
    """
    coupling = np.ascontiguousarray(cross.T / diagonal)
    factor, proper = _covariance_factor(block - coupling @ cross)
    if not proper:
        # Away from a mode, or with wide elements that are coupled: no law has these blocks.
        coupling = np.zeros_like(coupling)
        factor, _ = _covariance_factor(block)
    return Geometry(centre, dense, wide, factor, 1.0 / np.sqrt(diagonal), coupling)


def _covariance_factor(precision: np.ndarray) -> tuple[np.ndarray, bool]:
    """Cholesky factor of the inverse of a matrix, and whether it is positive definite.

    Away from a mode (a funnel, a given anchor) the curvature can vanish or be negative somewhere.
    The Laplace covariance only guides proposals: there, any moderate scale will do.
    """
    scale = 1.0 / np.sqrt(np.maximum(np.abs(np.diag(precision)), 1e-8))
    values, vectors = np.linalg.eigh(precision * np.outer(scale, scale))
    proper = bool(np.all(values > 1e-10))
    values = np.where(values > 1e-10, values, 0.1)
    return np.linalg.cholesky((vectors / values) @ vectors.T) * scale[:, None], proper
