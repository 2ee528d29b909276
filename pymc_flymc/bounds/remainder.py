"""The remainder of a row's Taylor expansion."""

from __future__ import annotations

from math import factorial
from typing import Any

import pytensor
import pytensor.tensor as pt

from pymc_flymc.bounds.base import Graph, Graphs
from pymc_flymc.likelihoods import Likelihood

__all__ = ["remainder"]


def remainder(
    likelihood: Likelihood, arguments: Graphs, anchor: Graphs, y: Any, order: int
) -> Graph:
    """Graph of log L less its expansion at the anchor, element by element."""
    u = [eta - at for eta, at in zip(arguments, anchor, strict=True)]
    # Derivatives in t, at t = 0, of the log-likelihood at anchor + t u.
    t = pt.zeros_like(u[0])
    ray = [at + t * each for at, each in zip(anchor, u, strict=True)]
    derivative: Any = likelihood.log_likelihood(ray, y)
    difference = likelihood.log_likelihood(arguments, y) - derivative
    for i in range(1, order + 1):
        derivative = pytensor.grad(derivative.sum(), t)
        difference = difference - derivative / factorial(i)
    return difference
