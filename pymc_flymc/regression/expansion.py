"""A log-likelihood to second order in its coefficients."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pymc_flymc.regression.block_matrix import BlockMatrix
from pymc_flymc.regression.quadratic import pack_quadratic

__all__ = ["LikelihoodExpansion"]


@dataclass(frozen=True)
class LikelihoodExpansion:
    """Log-likelihood of all rows around coefficients w, to second order.

    Attributes
    ----------
    value : float
        Log-likelihood at w.
    gradient : ndarray, shape (P,)
    information : ndarray or BlockMatrix, shape (P, P)
        Minus the Hessian.
    w : ndarray, shape (P,)
    """

    value: float
    gradient: np.ndarray
    information: Any
    w: np.ndarray

    def pack(self) -> np.ndarray:
        """Return the expansion as the statistics of a collapsed quadratic."""
        if isinstance(self.information, BlockMatrix):
            curvature: Any = self.information.scaled(0.5)
        else:
            curvature = 0.5 * self.information
        return pack_quadratic(self.value, self.w, self.gradient, curvature)

    def concave(self) -> LikelihoodExpansion:
        """Return the expansion with the curvature's sign changed where it is not concave.

        Then it has a maximum, and no direction in which it rises for ever.
        """
        if isinstance(self.information, BlockMatrix) or not np.all(np.isfinite(self.information)):
            return self
        with suppress(np.linalg.LinAlgError):
            np.linalg.cholesky(self.information)  # a hundred times as quick as what is below
            return self
        values, vectors = np.linalg.eigh(self.information)
        return replace(self, information=(vectors * np.abs(values)) @ vectors.T)

    def damped(self, factor: float, other: LikelihoodExpansion) -> LikelihoodExpansion:
        """Return the expansion with another one's curvature, times a factor, added to its own."""
        if isinstance(self.information, BlockMatrix):
            more: Any = other.information.scaled(factor)
        else:
            more = factor * other.information
        return replace(self, information=self.information + more)

    def without_rows(self) -> LikelihoodExpansion:
        """Return the expansion of a constant."""
        if isinstance(self.information, BlockMatrix):
            nothing: Any = self.information.scaled(0.0)
        else:
            nothing = np.zeros_like(self.information)
        return LikelihoodExpansion(0.0, np.zeros_like(self.gradient), nothing, self.w)
