"""Where bounds are tuned to, and the Laplace approximation there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_flymc.kernels.geometry import Geometry

__all__ = ["Anchor", "AnchorPart"]


@dataclass(frozen=True)
class AnchorPart:
    """What an anchor says of the coefficients of one likelihood.

    Attributes
    ----------
    w : ndarray, shape (P,)
        Coefficients at which bounds touch: those at the anchor's theta, unless the user gave the
        anchor or it has moved.
    w_factor : ndarray, shape (P, D), or (P, S) with fewer columns than that
        w_factor w_factor' is the Laplace covariance of the coefficients, to first order. With wide
        elements in the anchor's geometry it is so on average only, over columns drawn at random.
    information : ndarray or BlockMatrix, shape (P, P)
        Minus the Hessian of the log-likelihood in the coefficients.
    """

    w: np.ndarray
    w_factor: np.ndarray
    information: Any


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
