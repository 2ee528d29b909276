"""Conditional Metropolis updates: of theta given z, then of z given theta.

Maclaurin & Adams (2014), Algorithm 1.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pymc_flymc.compat.numba import generator_at, view
from pymc_flymc.kernels.dark_rates import take_dark
from pymc_flymc.kernels.native import Vector, kernel, kernel_part
from pymc_flymc.kernels.posterior import conditional_update, run_type
from pymc_flymc.kernels.rescaling import REPEATS, rescale
from pymc_flymc.kernels.sweeps import Plan, begin, update_z

RANDOM_WALK, PCN, INDEPENDENT = 0, 1, 2
KINDS = 3
#: Least probability of each kind, whatever its jumps: pCN alone mixes badly in heavy tails.
MIN_WEIGHT = 0.05


class ProposalMixture(NamedTuple):
    """The theta-proposals and their adaptation: random walk, pCN, independent, in this order."""

    #: Log of the random walk's scale, and of pCN's beta = sqrt(1 - rho^2), at most 0.
    log_scale: Vector
    weight: Vector  #: Probability of each kind of proposal, (3,).
    #: Robbins-Monro gain, (1,); zero outside tuning, or else the chain would not be Markov.
    gain: Vector
    target: Vector  #: Target acceptance rates, (2,).
    #: Number of proposals since the last reset, (3,); `jumped` sums expected squared jumps.
    proposed: Vector
    jumped: Vector


#: Optimal acceptance rate of a random walk (Roberts, Gelman & Gilks 1997); for pCN, whose steps are
#: not small, a slightly larger one is best.
TARGET_ACCEPTANCE = (0.234, 0.3)


def new_proposal_mixture(n_parameters: int, weight: np.ndarray) -> ProposalMixture:
    """Return proposals as a chain starts with them; weight is the mixture of kinds, (3,)."""
    return ProposalMixture(
        log_scale=np.log([2.38 / np.sqrt(n_parameters), 0.5]),
        weight=np.array(weight, dtype=np.float64),
        gain=np.zeros(1),
        target=np.array(TARGET_ACCEPTANCE),
        proposed=np.zeros(KINDS),
        jumped=np.zeros(KINDS),
    )


def favour_best(proposals: ProposalMixture, adapt: bool) -> None:
    """Give the proposal that jumps farthest nearly all of the mixture, and reset the counts."""
    used = proposals.weight > 0.0
    if adapt and np.all(proposals.proposed[used] > 0):
        # All kinds cost about the same, and mixing is in proportion to the squared jump.
        jumps = proposals.jumped / np.maximum(proposals.proposed, 1.0)
        proposals.weight[:] = np.where(used, MIN_WEIGHT, 0.0)
        proposals.weight[np.argmax(jumps)] += 1.0 - proposals.weight.sum()
    proposals.proposed[:] = proposals.jumped[:] = 0.0


@kernel_part
def pick(rng, weight):
    """Draw a kind of proposal."""
    u = rng.random()
    if u < weight[RANDOM_WALK]:
        return RANDOM_WALK
    return PCN if u < weight[RANDOM_WALK] + weight[PCN] else INDEPENDENT


@kernel_part
def propose_pcn(rng, beta, v, v_new):
    """Write v' = rho v + beta e with rho^2 + beta^2 = 1: reversible for N(0, I)."""
    rho = np.sqrt(1.0 - beta * beta)
    for j in range(v.shape[0]):
        v_new[j] = rho * v[j]
    if beta > 0.0:
        for j in range(v.shape[0]):
            v_new[j] += beta * rng.standard_normal()


@kernel_part
def propose(rng, kind, log_scale, v, v_new):
    """Propose v_new; return the log ratio of proposal densities, q(v_new -> v) / q(v -> v_new)."""
    # The random walk is symmetric. pCN is reversible for N(0, I), so that q(v' -> v) / q(v -> v') =
    # N(v) / N(v'): the target is weighed against that density.
    scale = np.exp(log_scale)
    if kind == RANDOM_WALK:
        for j in range(v.shape[0]):
            v_new[j] = v[j] + scale * rng.standard_normal()
        return 0.0
    propose_pcn(rng, scale, v, v_new)
    log_ratio = 0.0
    for j in range(v.shape[0]):
        log_ratio += 0.5 * (v_new[j] * v_new[j] - v[j] * v[j])
    return log_ratio


@kernel_part(inline="always")
def update_theta(rng, kind, posterior, proposals, chain, bright, scratch):
    """Update theta once by conditional Metropolis-Hastings. Return the acceptance probability."""
    take_dark(posterior.rows, bright, chain)
    log_correction = propose(rng, kind, proposals.log_scale[kind], chain.v, chain.v_new)
    jump = 0.0
    for j in range(chain.v.shape[0]):
        change = chain.v_new[j] - chain.v[j]
        jump += change * change
    accept = conditional_update(rng, log_correction, posterior, chain, bright, scratch)
    proposals.proposed[kind] += 1.0
    proposals.jumped[kind] += accept * jump
    if proposals.gain[0] > 0.0:
        step = proposals.gain[0] * (accept - proposals.target[kind])
        proposals.log_scale[kind] += step
        if kind == PCN:
            proposals.log_scale[kind] = min(proposals.log_scale[kind], 0.0)
    return accept


@functools.cache
def run_kernel(dtype: np.dtype, n_likelihoods: int = 1) -> Callable[..., Any]:
    """Return the compiled ``run(rng, n, posterior, plan, proposals, chain, bright, scratch)``.

    It makes n transitions and returns the mean acceptance probability; or starts a chain, if n = 0.
    """

    @kernel(run_type(Plan, ProposalMixture, dtype=dtype, n_likelihoods=n_likelihoods))
    def run(rng, n, posterior, plan, proposals, chain, bright, scratch):
        rng = generator_at(rng)
        posterior, plan, proposals = view(posterior), view(plan), view(proposals)
        chain, bright, scratch = view(chain), view(bright), view(scratch)
        if n == 0:
            begin(rng, posterior, plan, chain, bright, scratch)
            return 0.0
        rescale(rng, REPEATS, posterior, chain, bright, scratch)
        total = 0.0
        for _i in range(n):
            kind = pick(rng, proposals.weight)
            total += update_theta(rng, kind, posterior, proposals, chain, bright, scratch)
            update_z(rng, posterior, plan, chain.w, bright, scratch)
        return total / n

    return run  # type: ignore[no-any-return]
