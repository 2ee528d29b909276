"""The posterior with all rows but a few expanded to second order, which proposals follow.

    q(theta) = prior(theta) exp(Q(w(theta))) prod_{n in S} exp(R_n(theta)),

Here prior(theta) is the density without rows, Q is the collapsed expansion of all rows, and R_n is
its remainder for row n. So the rows of S are exact.
"""

from typing import NamedTuple

import numpy as np

from pymc_flymc.kernels.fresh_brightness import AliasTables
from pymc_flymc.kernels.native import kernel_part
from pymc_flymc.kernels.posterior import Chain, finite_or_minus_inf, is_same
from pymc_flymc.kernels.records import Int32Vector
from pymc_flymc.kernels.rows import Rows
from pymc_flymc.kernels.trajectory import density_and_gradient_at, row_force


class Surrogate(NamedTuple):
    """What a surrogate has in addition to its density."""

    tables: AliasTables  #: Of the rows outside S; the rows of S have rate zero there.
    exact: Rows  #: The rows of S.
    numbers: Int32Vector  #: Indices of the rows of S among themselves: from 0 on.
    remainder_gradient: int  #: Address of their remainders R_n, with gradients.
    walker: Chain  #: State of a proposal while it is made.


@kernel_part
def log_surrogate(posterior, surrogate, dynamics, chain, scratch):
    """Return the log of q at chain.v_new; write theta_new, w_new and the force."""
    log_density = density_and_gradient_at(posterior, dynamics, chain)
    return add_exact_rows(log_density, posterior, surrogate, dynamics, chain, scratch)


@kernel_part
def log_surrogate_along(posterior, surrogate, dynamics, chain, without_rows, scratch):
    """Return `log_surrogate`, and the log density without rows; read no row if coefficients stay.

    In that case the force is stale. `without_rows` is the log density without rows at chain.v.
    """
    log_density = density_and_gradient_at(posterior, dynamics, chain)
    if is_same(chain.w_new, chain.w):  # as along the ridge of a product: remainders stay, too
        log_q = finite_or_minus_inf(chain.log_density[0] + log_density - without_rows, scratch)
    else:
        log_q = add_exact_rows(log_density, posterior, surrogate, dynamics, chain, scratch)
    return log_q, log_density


@kernel_part
def add_exact_rows(log_density, posterior, surrogate, dynamics, chain, scratch):
    """Add the remainders of S to the log density without rows, and write the force."""
    if not -np.inf < log_density < np.inf:
        return finite_or_minus_inf(log_density, scratch)
    log_density += row_force(
        posterior,
        surrogate.exact,
        surrogate.remainder_gradient,
        surrogate.numbers,
        surrogate.numbers.shape[0],
        chain.theta_new,
        chain.w_new,
        dynamics.gradient_new,
        surrogate.walker.dark,  # no rows: zeros
        dynamics,
        chain.log_factor_new,
        scratch,
    )
    dynamics.log_density_new[0] = finite_or_minus_inf(log_density, scratch)
    return dynamics.log_density_new[0]
