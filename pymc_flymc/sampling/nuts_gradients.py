"""Gradients that NUTS takes per effective draw of the slowest parameter."""

from __future__ import annotations

import numpy as np

#: Gradients of NUTS per effective draw are this many times the square root of the condition
#: number of the posterior's correlation matrix: 3.1 to 6.4 as nutpie samples normal distributions
#: with 3 to 40 parameters and condition numbers from 6 to 8,000.
PER_ROOT = 4.2


def gradients_given(correlations: np.ndarray) -> float:
    """Return NUTS's gradients per effective draw for a posterior's correlations, shape (D, D)."""
    values = np.linalg.eigvalsh(correlations)
    return PER_ROOT * float(np.sqrt(values[-1] / max(values[0], np.finfo(float).eps)))
