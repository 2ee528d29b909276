"""What a bound is."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

__all__ = ["Bound", "log_odds"]


class Bound(Protocol):
    """A lower bound B_n on the likelihood L_n of each row, quadratic in its predictor.

    ``log B_n = c_n + b_n eta_n - a_n eta_n^2 - slack_n``, with ``B_n <= L_n`` whatever eta_n.
    The sum over rows then collapses to a quadratic form in the coefficients.
    """

    name: str
    #: Families (``Likelihood.name``) that the bound is valid for.
    families: tuple[str, ...]
    #: Slack in units of a row's expected gap: every log B_n is lowered by this much.
    slack: float
    #: Columns of the table that `constants` returns.
    n_constants: int

    def tightness(self, eta_anchor: np.ndarray, rows: slice) -> np.ndarray:
        """Where each row's bound touches: one parameter a row, shape (n,), float64."""

    def coefficients(
        self, tightness: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Coefficients (a, b, c) of each row's log bound without slack, each of shape (n,)."""

    def constants(self, tightness: np.ndarray, y: np.ndarray, slack: np.ndarray) -> np.ndarray:
        """All that `gap` needs to know of each row, shape (n, R), float64."""

    def gap(self, eta: TensorVariable, constants: TensorVariable) -> TensorVariable:
        """Graph of log L_n - log B_n >= 0 for rows with predictors (n,) and constants (n, R)."""


def log_odds(gap: TensorVariable) -> TensorVariable:
    """Log odds of being bright, log(L_n/B_n - 1), from the gap log L_n - log B_n.

    Written so that neither a tiny nor a huge gap loses digits or overflows. Rounding may put a gap
    that vanishes at the anchor slightly below zero: there the row cannot be bright, log odds -inf.
    """
    gap = pt.maximum(gap, 0.0)
    return gap + pt.log(-pt.expm1(-gap))
