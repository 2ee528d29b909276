r"""The remainder of a row's Taylor expansion, and what bounds it for all rows at once.

**Two powers of the radius.** Let t go from the anchor, 0, to a point, 1, along a line, and g(t) be
the log-likelihood of a row. By the integral form of the remainder of order k,

.. math:: |R| \le \int_0^1 \frac{(1 - t)^k}{k!} |g^{(k+1)}(t)| \, dt .

At t the radius is t r, so that no predictor is further from the anchor than c t r, nor changes
faster than c r. With T(s) a limit on :math:`|g^{(k+1)}|` where the radius is s, for a change of c,

.. math:: |R| \le \int_0^r \frac{(r - s)^k}{k!} T(s) \, ds .

Let T(s) be at most N for s up to a limit L, and at most F beyond. N everywhere and F - N beyond L
give two integrals of powers,

.. math:: |R| \le N \frac{r^{k+1}}{(k+1)!} + (F - N) \frac{(r - L)_+^{k+1}}{(k+1)!} .

Where derivatives grow exponentially, T(s) at most :math:`F e^{G(s - L)}` beyond L, the exponential
is largest at the end, and

.. math:: |R| \le N \frac{r^{k+1}}{(k+1)!}
              + F e^{G(r - L)_+} \frac{(r - L)_+^{k+1}}{(k+1)!} .

Either is a sum of two powers that all rows share, each times a number of the row. It has k
continuous derivatives at the limit. If the bound jumped there instead, from N to F, a chain with
dark rows could not cross: conditional updates would cut off the posterior's tails.
"""

from math import factorial
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt

from pymc_flymc.bounds.bound import Graph, Graphs
from pymc_flymc.likelihoods.likelihood import JointlySmoothLikelihood, Likelihood, SmoothLikelihood


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


def limits_of_differences(
    likelihood: SmoothLikelihood,
    power: int,
    eta: np.ndarray,
    c: np.ndarray,
    y: np.ndarray,
    limit: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return limits on terms of order `power`, each of shape (n,), for rows of half-width c.

    That is their half-width at a radius of one: no difference of two predictors grows faster with
    the radius. The results are the limit up to the radius' limit, the limit anywhere, and the rate
    at which the latter grows.
    """
    half_width = limit * c
    if len(eta) == 1:
        (eta,) = eta
    else:  # differences of predictors are as wide: half of it up, and half of it down
        eta, half_width = np.concatenate([np.zeros_like(eta[:1]), eta]), 0.5 * half_width
    scale = c**power / factorial(power)
    near = likelihood.derivative_bound(power, eta - half_width, eta + half_width, y) * scale
    low, high = (eta, eta) if likelihood.growth else (-np.inf, np.inf)
    anywhere = likelihood.derivative_bound(power, low, high, y) * scale
    return near, anywhere, likelihood.growth * c


def joint_limits(
    likelihood: JointlySmoothLikelihood, eta: np.ndarray, c: np.ndarray, y: np.ndarray, limit: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return limits on cubic terms, where each predictor has a c of its own, shape (K, n)."""
    near = likelihood.third_bound(eta, limit * c, c, y) / factorial(3)
    anywhere, growth = likelihood.third_beyond(eta, c, y)
    return near, anywhere / factorial(3), growth


def near_and_beyond(
    near: np.ndarray, anywhere: np.ndarray, growth: np.ndarray, limit: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the multipliers of the two powers, the second of which grows at least as `growth`.

    Parameters
    ----------
    near, anywhere : ndarray, shape (n,)
        Where the radius is s, derivatives are at most `near` up to the limit, and
        ``anywhere * exp(growth * s)`` everywhere.
    """
    # Rows whose multipliers overflow are kept bright.
    with np.errstate(over="ignore", invalid="ignore"):
        at_limit = anywhere * np.exp(growth * limit)
        near = np.fmin(near, at_limit)
        return near, np.where(growth > 0.0, at_limit, at_limit - near)
