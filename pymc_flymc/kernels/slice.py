"""Conditional slice updates: of theta given z, then of z given theta (Neal 2003)."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pymc_flymc.compat.numba import generator_at, view
from pymc_flymc.kernels.dark_rates import take_dark
from pymc_flymc.kernels.native import Vector, kernel, kernel_part
from pymc_flymc.kernels.posterior import (
    accept_conditional_update,
    log_density_at,
    log_ratio_at,
    run_type,
)
from pymc_flymc.kernels.rescaling import REPEATS, rescale
from pymc_flymc.kernels.sweeps import Plan, begin, update_z

#: Most steps by which an interval may be extended in one update.
MAX_EXTENSIONS = 100


class Slices(NamedTuple):
    """Directions of updates, and the intervals they start from."""

    #: First width of the interval, for each standardised coordinate or for all random directions.
    width: Vector
    #: Whether a transition is along a random direction (1), or each coordinate in turn (0).
    random: int
    gain: Vector  #: Gain of the adaptation of widths, (1,); zero outside tuning.
    direction: Vector  #: Buffer, (D,).


def new_slices(n_parameters: int, random: bool) -> Slices:
    """Return settings as a chain starts with them."""
    # Three standard deviations: about the length of the average slice of a normal density.
    width = np.full(1 if random else n_parameters, 3.0)
    return Slices(width, int(random), np.zeros(1), np.zeros(n_parameters))


@kernel_part
def log_ratio_along(posterior, slices, t, chain, bright, scratch):
    """Return the log ratio of p(theta, z) at t along the direction, and the log density at t."""
    for j in range(chain.v.shape[0]):
        chain.v_new[j] = chain.v[j] + t * slices.direction[j]
    log_density = log_density_at(posterior, chain)
    return log_ratio_at(posterior, log_density, chain, bright, scratch), log_density


@kernel_part(inline="always")
def update_along(rng, width, posterior, slices, chain, bright, scratch):
    """Move along the direction by stepping out and shrinkage; return the length it shrank to."""
    # Neal (2003), figures 3 and 5. The limit on the extensions is shared out at random between the
    # two ends, as is needed for the update to be reversible.
    level = -rng.standard_exponential()  # log of a uniform height below the present density
    low = -width * rng.random()
    high = low + width
    left = int(rng.random() * MAX_EXTENSIONS)
    right = MAX_EXTENSIONS - 1 - left
    while left > 0 and log_ratio_along(posterior, slices, low, chain, bright, scratch)[0] > level:
        low -= width
        left -= 1
    while right > 0 and log_ratio_along(posterior, slices, high, chain, bright, scratch)[0] > level:
        high += width
        right -= 1
    while True:
        t = low + (high - low) * rng.random()
        log_ratio, log_density = log_ratio_along(posterior, slices, t, chain, bright, scratch)
        if log_ratio > level:
            accept_conditional_update(chain, log_density, bright)
            return high - low
        # Stay if the interval has shrunk to the present point: rounding may reject even that.
        if high - low < 1e-12 * width:
            return high - low
        if t < 0.0:
            low = t
        else:
            high = t


@kernel_part(inline="always")
def update_theta(rng, posterior, slices, chain, bright, scratch):
    """Update theta once, conditionally: along each coordinate, or along one random direction."""
    n_parameters = chain.v.shape[0]
    take_dark(posterior.rows, bright, chain)
    if slices.random == 1:
        norm = 0.0
        for j in range(n_parameters):
            slices.direction[j] = rng.standard_normal()
            norm += slices.direction[j] * slices.direction[j]
        for j in range(n_parameters):
            slices.direction[j] /= np.sqrt(norm)
    for i in range(slices.width.shape[0]):
        if slices.random == 0:
            for j in range(n_parameters):
                slices.direction[j] = 0.0
            slices.direction[i] = 1.0
        length = update_along(rng, slices.width[i], posterior, slices, chain, bright, scratch)
        slices.width[i] += slices.gain[0] * (length - slices.width[i])


@functools.cache
def run_kernel(dtype: np.dtype, n_likelihoods: int = 1) -> Callable[..., Any]:
    """Return the compiled ``run(rng, n, posterior, plan, slices, chain, bright, scratch)``."""
    # As in `metropolis`; the acceptance probability is one.

    @kernel(run_type(Plan, Slices, dtype=dtype, n_likelihoods=n_likelihoods))
    def run(rng, n, posterior, plan, slices, chain, bright, scratch):
        rng = generator_at(rng)
        posterior, plan, slices = view(posterior), view(plan), view(slices)
        chain, bright, scratch = view(chain), view(bright), view(scratch)
        if n == 0:
            begin(rng, posterior, plan, chain, bright, scratch)
            return 0.0
        rescale(rng, REPEATS, posterior, chain, bright, scratch)
        for _i in range(n):
            update_theta(rng, posterior, slices, chain, bright, scratch)
            update_z(rng, posterior, plan, chain.w, bright, scratch)
        return 1.0

    return run  # type: ignore[no-any-return]
