"""The posterior's Laplace approximation, as a factor of its covariance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

__all__ = ["LaplaceFactor", "dense_factor", "wide_factor"]


class LaplaceFactor(NamedTuple):
    r"""A factor L^-T of the covariance of theta, whose precision is L L'.

    With few parameters the precision is a dense matrix, and ``L^-T`` a Cholesky factor of its
    inverse. With many effects of groups it is approximated by

    .. math:: \begin{pmatrix} C & B \\ B^\top & \mathrm{diag}(d) \end{pmatrix},

    the *wide* elements being coupled to the *dense* ones and not to each other, which is exact for
    random intercepts of one grouping factor. For other models the coupling among wide elements is
    left out. That guides proposals and the tightness of bounds only: no draw depends on it in law.

    Attributes
    ----------
    dense : ndarray, shape (M,), int64
        Positions of the dense elements in theta.
    wide : ndarray, shape (D - M,), int64
        Positions of all others.
    factor : ndarray, shape (M, M)
        Lower-triangular F with F F' = (C - B diag(d)^-1 B')^-1.
    scale : ndarray, shape (D - M,)
        d^(-1/2).
    coupling : ndarray, shape (D - M, M)
        diag(d)^-1 B'.
    """

    dense: np.ndarray
    wide: np.ndarray
    factor: np.ndarray
    scale: np.ndarray
    coupling: np.ndarray

    def apply(self, v: np.ndarray) -> np.ndarray:
        """Return x = L^-T v, of the covariance L^-T L^-1 for standard normal v; shape (D,)."""
        x = np.empty_like(v, dtype=np.float64)
        x[self.dense] = self.factor @ v[self.dense]
        x[self.wide] = self.scale * v[self.wide] - self.coupling @ x[self.dense]
        return x

    def solve(self, x: np.ndarray) -> np.ndarray:
        """Return v = L' x, the inverse of `apply`."""
        v = np.empty_like(x, dtype=np.float64)
        v[self.dense] = solve_triangular(self.factor, x[self.dense], lower=True)
        v[self.wide] = (x[self.wide] + self.coupling @ x[self.dense]) / self.scale
        return v

    def apply_transposed(self, g: np.ndarray) -> np.ndarray:
        """Return L^-1 g: the gradient in v of a function with gradient g in x."""
        out = np.empty_like(g, dtype=np.float64)
        out[self.dense] = self.factor.T @ (g[self.dense] - self.coupling.T @ g[self.wide])
        out[self.wide] = self.scale * g[self.wide]
        return out


def dense_factor(precision: np.ndarray) -> LaplaceFactor:
    """Factor for a precision matrix, shape (D, D)."""
    d = len(precision)
    return wide_factor(
        np.arange(d), np.empty(0, np.int64), precision, np.empty(0), np.empty((0, d))
    )


def wide_factor(
    dense: np.ndarray,
    wide: np.ndarray,
    block: np.ndarray,
    diagonal: np.ndarray,
    cross: np.ndarray,
) -> LaplaceFactor:
    """Factor for a precision matrix in blocks.

    Parameters
    ----------
    dense, wide : ndarray of int64, shapes (M,) and (D - M,)
    block : ndarray, shape (M, M)
        Precision of the dense elements, C.
    diagonal : ndarray, shape (D - M,)
        Precisions of the wide ones, d; positive.
    cross : ndarray, shape (D - M, M)
        B'.
    """
    coupling = cross / diagonal[:, None]
    factor, proper = _covariance_factor(block - cross.T @ coupling)
    if not proper:
        # Away from a mode, or with wide elements that are coupled: no law has these blocks.
        coupling = np.zeros_like(coupling)
        factor, _ = _covariance_factor(block)
    return LaplaceFactor(dense, wide, factor, 1.0 / np.sqrt(diagonal), coupling)


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
