"""What several benchmarks simulate."""

from __future__ import annotations

from typing import Any

import numpy as np


def levels(codes: np.ndarray) -> int:
    """Count the levels of a factor: the last has a row."""
    return int(codes.max()) + 1


def yes_or_no(eta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw outcomes with these log odds."""
    return np.asarray(rng.random(len(eta)) < 1.0 / (1.0 + np.exp(-eta)))


def above_zero(distribution: Any, rng: np.random.Generator) -> np.ndarray:
    """Draw counts that are not zero: quantiles above those of zero."""
    most = distribution.sf(0)
    return np.asarray(distribution.isf(most * rng.random(len(most)))).astype(int)
