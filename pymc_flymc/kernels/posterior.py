"""The augmented density p(theta, z | data) as kernels see it."""

import functools
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np
from numba import types

from pymc_flymc.compat.numba import view
from pymc_flymc.kernels.brightness import BrightSet
from pymc_flymc.kernels.dark_rates import dark_rate, rate_of
from pymc_flymc.kernels.factors import Scratch, add_gradients, log_factors
from pymc_flymc.kernels.geometry import Geometry, unstandardise
from pymc_flymc.kernels.native import (
    GENERATOR,
    Jacobian,
    Vector,
    call_density,
    call_density_gradient,
    kernel,
    kernel_part,
    record_type,
    vector,
    zeros,
)
from pymc_flymc.kernels.rows import (
    NO_COLUMNS,
    Rows,
    RowsOfColumns,
    SeveralRows,
    parts_of,
    rows_type,
)
from pymc_flymc.kernels.shared_scales import NO_SCALES, SharedScales
from pymc_flymc.kernels.shifts import NO_SHIFTS, Shifts

#: Coefficients with at most this relative difference, a few units in the last place, are the same.
#: It must not be wider. Outcomes far from zero, such as dates in days, may determine a coefficient
#: to a relative error of 1e-12.
ROUNDING = 16.0 * float(np.finfo(np.float64).eps)


def _addresses(dtype: np.dtype, n_likelihoods: int = 1) -> types.Type:
    """Return the numba type of the address of a function of rows, or of one for each likelihood."""
    return types.int64 if n_likelihoods == 1 else types.UniTuple(types.int64, n_likelihoods)


class Posterior(NamedTuple):
    """What kernels read and never write.

    Functions are addresses, see `native`. Gradients and `vjp` are zero for
    kernels that need no gradient, and `density` for the others. With several likelihoods there are
    tuples of log factors and their gradients. There are no shifts if there are no scales.
    """

    density: int
    log_factor: Annotated[int | tuple[int, ...], _addresses]
    density_gradient: int
    vjp: int
    log_factor_gradient: Annotated[int | tuple[int, ...], _addresses]
    jacobian: Jacobian  #: Of the coefficients, if it is constant: then there is no vjp.
    #: Of the collapsed bounds; values of variables of other step methods follow.
    statistics: Vector
    rows: Annotated[Rows | SeveralRows, rows_type]
    geometry: Geometry
    scales: SharedScales = NO_SCALES
    shifts: Shifts = NO_SHIFTS
    columns: RowsOfColumns = NO_COLUMNS


class Chain(NamedTuple):
    """State of one chain without its brightness, and buffers for a proposal."""

    v: Vector  #: Standardised parameters, (D,).
    theta: Vector  #: Unconstrained parameters, (D,).
    w: Vector  #: Coefficients at theta, and what all rows of a likelihood share, (P,).
    #: Without rows: the log prior, and the collapsed bounds or expansions, at theta, (1,).
    log_density: Vector
    #: Joint kernel only: log of the augmented density over the proposal's density, (1,).
    log_weight: Vector
    #: Mean acceptance probability of the last moves of scales; NaN before the first, (1,).
    rescaled: Vector
    v_new: Vector
    theta_new: Vector
    w_new: Vector
    log_factor_new: Vector
    #: Multipliers of the powers in w in the sum of the dark rows' rates, else zeros, (P,).
    dark: Vector
    low: Vector  #: Buffer, (P,).


def make_chain(n_parameters: int, n_coefficients: int, n_rows: int) -> Chain:
    """Return the buffers of one chain; row buffers are committed as they are touched."""
    return Chain(
        **zeros(n_parameters, "v", "theta", "v_new", "theta_new"),
        **zeros(n_coefficients, "w", "w_new", "dark", "low"),
        **zeros(1, "log_density", "log_weight"),
        rescaled=np.full(1, np.nan),
        log_factor_new=np.empty(n_rows),
    )


def run_type(*settings: type, dtype: np.dtype, n_likelihoods: int = 1) -> Any:
    """Return the signature of ``run(rng, n, posterior, *settings, chain, bright, scratch)``."""
    records = Posterior, *settings, Chain, BrightSet, Scratch
    kinds = (record_type(each, dtype, n_likelihoods) for each in records)
    return types.float64(GENERATOR, types.int64, *kinds)


@kernel_part
def finite_or_minus_inf(log_density, scratch):
    """Return a log density or log ratio, or -inf if it could not be evaluated: NaN or +inf."""
    # In the tails the odds of rows can overflow. If their sum is +inf, any proposal would be
    # accepted. A point that cannot be evaluated is taken to be outside the support, and counted.
    if log_density < np.inf:
        return log_density
    scratch.not_finite[0] += 1
    return -np.inf


@kernel_part
def log_density_of(posterior, theta, w):
    """Return the log prior plus collapsed bound at theta; write w."""
    if posterior.density_gradient != 0:
        unused = np.empty_like(theta)
        return call_density_gradient(
            posterior.density_gradient, posterior.jacobian, theta, posterior.statistics, w, unused
        )
    return call_density(posterior.density, theta, posterior.statistics, w)


@kernel_part
def log_density_at(posterior, chain):
    """Return `log_density_of` at chain.v_new; write theta_new and w_new."""
    unstandardise(posterior.geometry, chain.v_new, chain.theta_new)
    return log_density_of(posterior, chain.theta_new, chain.w_new)


@kernel_part
def is_same(w_new, w):
    """Return whether all coefficients are the same up to rounding of each."""
    for j in range(w.shape[0]):
        if not abs(w_new[j] - w[j]) <= ROUNDING * abs(w[j]):
            return False
    return True


@kernel_part(inline="always")
def log_ratio_at(posterior, log_density, chain, bright, scratch):
    """Return the log of p(theta_new, z) / p(theta, z), given the log density at theta_new.

    Needs chain.dark of z. Writes the bright rows' factors. -inf if the density cannot be evaluated.
    """
    log_ratio = log_density - chain.log_density[0]
    if is_same(chain.w_new, chain.w):  # as along the ridge of a product: rows stay as they are
        for i in range(bright.count[0]):
            chain.log_factor_new[i] = bright.log_factor[i]
        return finite_or_minus_inf(log_ratio, scratch)
    if log_ratio > -np.inf:  # otherwise outside the support (or NaN): no row needs to be read
        log_ratio += dark_rate(chain.dark, chain.w) - dark_rate(chain.dark, chain.w_new)
    if log_ratio > -np.inf:
        n_bright = bright.count[0]
        log_factors(
            posterior.rows,
            posterior.log_factor,
            chain.w_new,
            bright.index,
            0,
            n_bright,
            chain.log_factor_new,
            scratch,
        )
        for i in range(n_bright):
            log_ratio += chain.log_factor_new[i] - bright.log_factor[i]
    return finite_or_minus_inf(log_ratio, scratch)


@kernel_part
def copy(source, destination):
    """Copy a vector. A loop, for numba copies slices slowly."""
    for j in range(source.shape[0]):
        destination[j] = source[j]


@kernel_part
def copy_state(source, destination):
    """Copy the parameters of a chain, with their log density."""
    copy(source.v, destination.v)
    copy(source.theta, destination.theta)
    copy(source.w, destination.w)
    destination.log_density[0] = source.log_density[0]


@kernel_part
def accept_theta(chain, log_density):
    """Make the proposed parameters those of the chain."""
    copy(chain.v_new, chain.v)
    copy(chain.theta_new, chain.theta)
    copy(chain.w_new, chain.w)
    chain.log_density[0] = log_density


@kernel_part
def accept_conditional_update(chain, log_density, bright):
    """Make the proposed parameters those of the chain, and store the bright rows' new factors."""
    if is_same(chain.w_new, chain.w):
        # Coefficients stay as they were for the cached factors. Otherwise many moves, each no
        # larger than rounding, could lead away from these without any row being read.
        copy(chain.w, chain.w_new)
    else:
        # The cached factors belong to the theta of the chain: replaced on acceptance only.
        for i in range(bright.count[0]):
            bright.log_factor[i] = chain.log_factor_new[i]
    accept_theta(chain, log_density)


@kernel_part
def conditional_metropolis(rng, log_density, log_correction, posterior, chain, bright, scratch):
    """Accept or reject chain.v_new, with z as it is; return whether, and the probability.

    Needs chain.dark of z. `log_density` is the one at theta_new. `log_correction` is the log of the
    acceptance ratio's other factors: a ratio of proposal densities, or a Jacobian.
    """
    log_ratio = log_correction + log_ratio_at(posterior, log_density, chain, bright, scratch)
    accepted = -rng.standard_exponential() < log_ratio
    if accepted:
        accept_conditional_update(chain, log_density, bright)
    return accepted, np.exp(min(0.0, log_ratio))


@kernel_part
def conditional_update(rng, log_correction, posterior, chain, bright, scratch):
    """Evaluate the log density for `conditional_metropolis`; return the probability alone."""
    log_density = log_density_at(posterior, chain)
    return conditional_metropolis(
        rng, log_density, log_correction, posterior, chain, bright, scratch
    )[1]


def row_terms(
    posterior: Posterior, w: np.ndarray, index: np.ndarray, gradient: np.ndarray, scratch: Scratch
) -> tuple[np.ndarray, np.ndarray]:
    """Return log factors and rates of rows at w, as kernels without or with a `gradient` do."""
    first, *others = parts_of(posterior.rows)
    factors, rates = np.empty((2, len(index)))
    evaluate = _row_terms(first.X.dtype, 1 + len(others))
    evaluate(posterior, w, index.astype(np.int32), factors, rates, gradient, scratch)
    return factors, rates


@kernel_part
def _terms(posterior, w, index, factors, rates, gradient, scratch):
    rows, n = posterior.rows, index.shape[0]
    if gradient.shape[0] > 0:
        factor = posterior.log_factor_gradient
        add_gradients(rows, factor, w, index, 0, n, factors, gradient, scratch)
    else:
        log_factors(rows, posterior.log_factor, w, index, 0, n, factors, scratch)
    for i in range(n):
        rates[i] = rate_of(rows, w, index[i])


@functools.cache
def _row_terms(dtype: np.dtype, n_likelihoods: int) -> Callable[..., Any]:
    """Return the compiled ``row_terms(posterior, w, index, factors, rates, gradient, scratch)``."""
    posterior, v = record_type(Posterior, dtype, n_likelihoods), vector()

    @kernel(types.void(posterior, v, vector(types.int32), v, v, v, record_type(Scratch)))
    def row_terms(posterior, w, index, factors, rates, gradient, scratch):
        posterior, scratch = view(posterior), view(scratch)
        # Calls a part: numba compiles a choice by types again for callers with other options.
        _terms(posterior, w, index, factors, rates, gradient, scratch)

    return row_terms  # type: ignore[no-any-return]
