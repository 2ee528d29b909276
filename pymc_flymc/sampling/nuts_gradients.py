"""Gradients that NUTS takes per effective draw of the slowest parameter."""

import numpy as np

from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.sampling.effective_draws import evenly

#: Gradients of NUTS per effective draw are this many times the square root of the condition
#: number of the posterior's correlation matrix: 3.1 to 6.4 as nutpie samples normal distributions
#: with 3 to 40 parameters and condition numbers from 6 to 8,000.
PER_ROOT = 4.2
#: Parameters whose correlations are looked at, at most.
CORRELATED = 300


def gradients_given(correlations: np.ndarray) -> float:
    """Return NUTS's gradients per effective draw for a posterior's correlations, shape (D, D)."""
    values = np.linalg.eigvalsh(correlations)
    return PER_ROOT * float(np.sqrt(values[-1] / max(values[0], np.finfo(float).eps)))


def nuts_gradients(geometry: Geometry) -> float:
    """Gradients that an effective draw of NUTS takes, with a diagonal mass matrix.

    Parameters
    ----------
    geometry : Geometry
        Of the Laplace approximation, whose correlations hold NUTS back.
    """
    d = len(geometry.centre)
    chosen = evenly(d, CORRELATED)
    unit = np.zeros(d)
    covariance = np.empty((len(chosen), len(chosen)))
    for row, i in zip(covariance, chosen, strict=True):
        unit[i] = 1.0
        row[:] = geometry.spread(geometry.standardise_gradient(unit))[chosen]
        unit[i] = 0.0
    sds = np.sqrt(covariance.diagonal())
    return gradients_given(covariance / np.outer(sds, sds))
