"""Where bounds are tuned to, and the Laplace approximation there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.regression.expansion import LikelihoodExpansion

__all__ = ["Anchor", "AnchorPart"]


@dataclass(frozen=True)
class AnchorPart:
    """What an anchor says of the coefficients of one likelihood.

    Attributes
    ----------
    w_factor : ndarray, shape (P, D), or (P, S) with fewer columns than that
        w_factor w_factor' is the Laplace covariance of the coefficients, to first order. With wide
        elements in the anchor's geometry it is so on average only, over columns drawn at random.
    expansion : LikelihoodExpansion
        Log-likelihood of all rows around the coefficients at which bounds touch.
    """

    w_factor: np.ndarray
    expansion: LikelihoodExpansion

    @property
    def w(self) -> np.ndarray:
        """Coefficients at which bounds touch, shape (P,): about those at the anchor's theta.

        Unless the user gave the anchor, or it has moved.
        """
        return self.expansion.w


@dataclass(frozen=True)
class Anchor:
    """A point near the mode, and the posterior's Laplace approximation there.

    Attributes
    ----------
    geometry : Geometry
        Coordinates in which the Laplace approximation is standard normal.
    parts : tuple of AnchorPart
        One for each likelihood.
    passes : float
        Passes over the data that the search took.
    """

    geometry: Geometry
    parts: tuple[AnchorPart, ...]
    passes: float

    @property
    def theta(self) -> np.ndarray:
        """Centre of the Laplace approximation, shape (D,)."""
        return self.geometry.centre

    @property
    def w(self) -> np.ndarray:
        """Coefficients of all likelihoods at which bounds touch, shape (P,)."""
        return np.concatenate([part.w for part in self.parts])
