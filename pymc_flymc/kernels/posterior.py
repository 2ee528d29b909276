"""The augmented density p(theta, z | data) as kernels see it."""

from typing import Annotated, Any, NamedTuple

import numpy as np
from numba import types

from pymc_flymc.kernels.brightness import BrightSet
from pymc_flymc.kernels.dark_rates import dark_rate
from pymc_flymc.kernels.factors import Scratch, log_factors
from pymc_flymc.kernels.generators import GENERATOR
from pymc_flymc.kernels.geometry import Geometry, unstandardise
from pymc_flymc.kernels.native import kernel_part
from pymc_flymc.kernels.native_graphs import Jacobian, call_density, call_density_gradient
from pymc_flymc.kernels.records import Vector, record_type, zeros
from pymc_flymc.kernels.rows import Rows, SeveralRows, rows_type
from pymc_flymc.kernels.shared_scales import NO_SCALES, SharedScales
from pymc_flymc.kernels.shifts import NO_SHIFTS, Shifts

#: Coefficients whose relative difference is at most this are the same: some units in the last
#: place. It must not be wider. Outcomes far from zero, such as dates in days, may determine a
#: coefficient to a millionth of a millionth of its size.
ROUNDING = 16.0 * float(np.finfo(np.float64).eps)


def _addresses(dtype: np.dtype, n_likelihoods: int = 1) -> types.Type:
    """Numba type of the address of a function of rows, or of one for each likelihood."""
    return types.int64 if n_likelihoods == 1 else types.UniTuple(types.int64, n_likelihoods)


class Posterior(NamedTuple):
    """What kernels read and never write.

    Attributes
    ----------
    density, log_factor, density_gradient, vjp, log_factor_gradient : int
        Addresses of native functions; see `native` and `native_graphs`. The last three are zero for
        kernels that need no gradient, and for others the first. With several likelihoods there are
        tuples of log factors and their gradients.
    jacobian : Jacobian
        Of the coefficients, where it is constant: then there is no vjp.
    statistics : ndarray
        Of the collapsed bounds; values of variables of other step methods follow.
    rows : Rows or SeveralRows
    geometry : Geometry
    scales : SharedScales
    shifts : Shifts
        None if there are no scales.
    """

    density: int
    log_factor: Annotated[int | tuple[int, ...], _addresses]
    density_gradient: int
    vjp: int
    log_factor_gradient: Annotated[int | tuple[int, ...], _addresses]
    jacobian: Jacobian
    statistics: Vector
    rows: Annotated[Rows | SeveralRows, rows_type]
    geometry: Geometry
    scales: SharedScales = NO_SCALES
    shifts: Shifts = NO_SHIFTS


class Chain(NamedTuple):
    """State of one chain beside its brightness, and buffers for a proposal.

    Attributes
    ----------
    v, theta : ndarray, shape (D,)
        Standardised and unconstrained parameters.
    w : ndarray, shape (P,)
        Coefficients at theta, and what all rows of a likelihood share.
    log_density : ndarray, shape (1,)
        Without rows: the log prior, and the collapsed bounds or expansions, at theta.
    log_weight : ndarray, shape (1,)
        Joint kernel only: log of the augmented density over the proposal's.
    rescaled : ndarray, shape (1,)
        Mean acceptance probability of the last moves of scales; NaN before there is one.
    v_new, theta_new, w_new, log_factor_new : ndarray
        Buffers.
    dark, low : ndarray, shape (P,)
        Multipliers of the powers in w in the sum of the dark rows' rates, else zeros; a buffer.
    """

    v: Vector
    theta: Vector
    w: Vector
    log_density: Vector
    log_weight: Vector
    rescaled: Vector
    v_new: Vector
    theta_new: Vector
    w_new: Vector
    log_factor_new: Vector
    dark: Vector
    low: Vector


def make_chain(n_parameters: int, n_coefficients: int, n_rows: int) -> Chain:
    """Buffers of one chain; that of rows is committed as it is touched."""
    return Chain(
        **zeros(n_parameters, "v", "theta", "v_new", "theta_new"),
        **zeros(n_coefficients, "w", "w_new", "dark", "low"),
        **zeros(1, "log_density", "log_weight"),
        rescaled=np.full(1, np.nan),
        log_factor_new=np.empty(n_rows),
    )


def run_type(*settings: type, dtype: np.dtype, n_likelihoods: int = 1) -> Any:
    """Numba signature of ``run(rng, n, posterior, *settings, chain, bright, scratch)``.

    `rng` is the generator's address, see ``generators``.

    Parameters
    ----------
    settings : type
        Records of the kernel's own.
    dtype, n_likelihoods
        Of the designs, and their number.
    """
    records = Posterior, *settings, Chain, BrightSet, Scratch
    kinds = (record_type(each, dtype, n_likelihoods) for each in records)
    return types.float64(GENERATOR, types.int64, *kinds)


@kernel_part
def finite_or_minus_inf(log_density, scratch):
    """Return a log density or log ratio, or -inf where it could not be evaluated: NaN or +inf.

    Far out, the odds of rows can overflow. Where their sum is +inf, any proposal would be accepted.
    A point that cannot be evaluated is taken to be outside the support, and counted.
    """
    if log_density < np.inf:
        return log_density
    scratch.not_finite[0] += 1
    return -np.inf


@kernel_part
def log_density_of(posterior, theta, w):
    """Log prior and collapsed bound at theta; writes w."""
    if posterior.density_gradient != 0:
        unused = np.empty_like(theta)
        return call_density_gradient(
            posterior.density_gradient, posterior.jacobian, theta, posterior.statistics, w, unused
        )
    return call_density(posterior.density, theta, posterior.statistics, w)


@kernel_part
def log_density_at(posterior, chain):
    """As `log_density_of`, at chain.v_new; writes theta_new and w_new."""
    unstandardise(posterior.geometry, chain.v_new, chain.theta_new)
    return log_density_of(posterior, chain.theta_new, chain.w_new)


@kernel_part
def is_same(w_new, w):
    """Whether all coefficients are the same, but for rounding of each."""
    for j in range(w.shape[0]):
        if not abs(w_new[j] - w[j]) <= ROUNDING * abs(w[j]):
            return False
    return True


@kernel_part(inline="always")
def log_ratio_at(posterior, log_density, chain, bright, scratch):
    """Log of p(theta_new, z) / p(theta, z), given the log density at theta_new.

    Needs chain.dark of z. Writes the bright rows' factors. -inf if the density cannot be evaluated.
    """
    log_ratio = log_density - chain.log_density[0]
    if is_same(chain.w_new, chain.w):  # as along the ridge of a product: rows stay as they are
        for i in range(bright.count[0]):
            chain.log_factor_new[i] = bright.log_factor[i]
        return finite_or_minus_inf(log_ratio, scratch)
    if log_ratio > -np.inf:  # else outside the support (or NaN): no row needs to be read
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
    """Make the proposed parameters those of the chain, and take the bright rows' new factors."""
    if is_same(chain.w_new, chain.w):
        # Coefficients stay those of the cached factors. Otherwise many moves, each no larger than
        # rounding, could lead away from these without any row being read.
        copy(chain.w, chain.w_new)
    else:
        # The cached factors belong to the theta of the chain: replaced on acceptance only.
        for i in range(bright.count[0]):
            bright.log_factor[i] = chain.log_factor_new[i]
    accept_theta(chain, log_density)


@kernel_part
def conditional_metropolis(rng, log_density, log_correction, posterior, chain, bright, scratch):
    """Accept or reject chain.v_new, with z as it is; return whether, and the probability.

    Needs chain.dark of z. `log_density` is that at theta_new. `log_correction` is the log of the
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
