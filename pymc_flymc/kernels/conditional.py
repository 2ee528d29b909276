"""Transitions that update theta given z, then z given theta.

Maclaurin & Adams (2014), Algorithm 1.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types

from pymc_flymc.brightness import brightness_type
from pymc_flymc.kernels.geometry import geometry_type, unwhiten
from pymc_flymc.kernels.sweeps import gibbs_sweep, plan_type, sweep
from pymc_flymc.native import SOURCE_FINGERPRINT, borrow, call_density, named_tuple_type, vector
from pymc_flymc.rows import log_factors, rows_type, scratch_type

__all__ = ["Chain", "Moves", "kernels", "make_chain"]

RANDOM_WALK, PCN, INDEPENDENT = 0, 1, 2
KINDS = 3


class Moves(NamedTuple):
    """The theta-proposals and their adaptation.

    Attributes
    ----------
    log_scale : ndarray, shape (2,)
        Log of the random walk's scale, and of pCN's beta = sqrt(1 - rho^2), at most 0.
    weight : ndarray, shape (3,)
        Probability of each kind of proposal: random walk, pCN, independent.
    gain : ndarray, shape (1,)
        Robbins-Monro gain; zero outside tuning: with it, the kernel would not be a Markov chain.
    target : ndarray, shape (2,)
        Acceptance rates aimed at.
    tally : ndarray, shape (3, 3)
        By proposal: times proposed, sum of acceptance probabilities, sum of squared jumps |dv|^2.
    """

    log_scale: np.ndarray
    weight: np.ndarray
    gain: np.ndarray
    target: np.ndarray
    tally: np.ndarray


#: Optimal acceptance rate of a random walk (Roberts, Gelman & Gilks 1997); pCN, whose steps are
#: not small, does best a little above.
TARGET_ACCEPTANCE = (0.234, 0.3)


def new_moves(n_parameters: int, weight: np.ndarray) -> Moves:
    """Return moves as a chain starts with them; weight is the mixture of kinds, shape (3,)."""
    return Moves(
        log_scale=np.log([2.38 / np.sqrt(n_parameters), 0.5]),
        weight=np.array(weight, dtype=np.float64),
        gain=np.zeros(1),
        target=np.array(TARGET_ACCEPTANCE),
        tally=np.zeros((KINDS, 3)),
    )


class Chain(NamedTuple):
    """State of one chain beside its brightness, and buffers for a proposal.

    Attributes
    ----------
    v, theta : ndarray, shape (D,)
        Whitened and unconstrained parameters.
    w : ndarray, shape (P,)
        Coefficients at theta.
    log_density : ndarray, shape (1,)
        Log prior and collapsed bound at theta.
    log_weight : ndarray, shape (1,)
        Joint kernel only: log of the augmented density over the proposal's.
    v_new, theta_new, w_new, log_odds_new : ndarray
        Buffers.
    """

    v: np.ndarray
    theta: np.ndarray
    w: np.ndarray
    log_density: np.ndarray
    log_weight: np.ndarray
    v_new: np.ndarray
    theta_new: np.ndarray
    w_new: np.ndarray
    log_odds_new: np.ndarray


def make_chain(n_parameters: int, n_coefficients: int, n_rows: int) -> Chain:
    """Buffers of one chain; the last one is committed as it is touched."""
    d, p = n_parameters, n_coefficients
    state = np.zeros(d), np.zeros(d), np.zeros(p), np.zeros(1), np.zeros(1)
    return Chain(*state, np.zeros(d), np.zeros(d), np.zeros(p), np.empty(n_rows))


def chain_type() -> types.Type:
    return named_tuple_type(Chain, {field: vector() for field in Chain._fields})


def moves_type() -> types.Type:
    fields: dict[str, types.Type] = {field: vector() for field in Moves._fields[:-1]}
    return named_tuple_type(Moves, fields | {"tally": types.Array(types.float64, 2, "C")})


@njit
def pick(rng, weight):
    """Draw a kind of proposal."""
    u = rng.random()
    if u < weight[0]:
        return 0
    return 1 if u < weight[0] + weight[1] else 2


@njit
def propose_pcn(rng, beta, v, v_new):
    """Write v' = rho v + beta e with rho^2 + beta^2 = 1: reversible for N(0, I)."""
    rho = np.sqrt(1.0 - beta * beta)
    for j in range(v.shape[0]):
        v_new[j] = rho * v[j]
    if beta > 0.0:
        for j in range(v.shape[0]):
            v_new[j] += beta * rng.standard_normal()


@njit
def propose(rng, kind, log_scale, v, v_new):
    """Propose v_new; return the log ratio of proposal densities, q(v_new -> v) / q(v -> v_new).

    The random walk is symmetric. pCN is reversible for N(0, I), so that
    q(v' -> v) / q(v -> v') = N(v) / N(v'): the target is weighed against that normal law.
    """
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


@njit
def accept_theta(chain, log_density):
    """Make the proposed parameters those of the chain."""
    # Loops, for numba copies slices slowly.
    for j in range(chain.v.shape[0]):
        chain.v[j] = chain.v_new[j]
        chain.theta[j] = chain.theta_new[j]
    for j in range(chain.w.shape[0]):
        chain.w[j] = chain.w_new[j]
    chain.log_density[0] = log_density


@njit
def update_theta(
    rng, kind, density, log_factor, statistics, rows, geometry, moves, chain, bright, scratch
):
    """One Metropolis-Hastings update of theta given z. Returns its acceptance probability."""
    log_ratio = propose(rng, kind, moves.log_scale[kind], chain.v, chain.v_new)
    unwhiten(geometry, chain.v_new, chain.theta_new)
    log_density = call_density(density, chain.theta_new, statistics, chain.w_new)
    log_ratio += log_density - chain.log_density[0]
    n_bright = bright.count[0]
    if log_ratio > -np.inf:  # outside the support (or NaN): no row needs to be read
        log_factors(
            rows, log_factor, chain.w_new, bright.index, 0, n_bright, chain.log_odds_new, scratch
        )
        for i in range(n_bright):
            log_ratio += chain.log_odds_new[i] - bright.log_odds[i]
    # NaN compares false: a proposal whose density cannot be evaluated is rejected.
    accept = 0.0
    if log_ratio > -np.inf:
        accept = np.exp(min(0.0, log_ratio))
    jump = 0.0
    for j in range(chain.v.shape[0]):
        jump += (chain.v_new[j] - chain.v[j]) ** 2
    moves.tally[kind, 0] += 1.0
    moves.tally[kind, 1] += accept
    moves.tally[kind, 2] += accept * jump
    if -rng.standard_exponential() < log_ratio:
        accept_theta(chain, log_density)
        # The cached odds belong to the theta of the chain: replaced on acceptance only.
        bright.log_odds[:n_bright] = chain.log_odds_new[:n_bright]
    if moves.gain[0] > 0.0:
        step = moves.gain[0] * (accept - moves.target[kind])
        moves.log_scale[kind] += step
        if kind == PCN:
            moves.log_scale[kind] = min(moves.log_scale[kind], 0.0)
    return accept


@functools.cache
def kernels(dtype: np.dtype) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Compiled `begin` and `run` for a design of the given dtype.

    ``begin(rng, density, log_factor, statistics, plan, rows, geometry, chain, bright, scratch)``
    evaluates the state at chain.v and draws all of z: O(N).

    ``run(rng, n, ...)``, with `moves` after `geometry`, makes n transitions; returns the mean
    acceptance probability.
    """
    fingerprint = SOURCE_FINGERPRINT  # see `native`: makes the sources part of the cache key
    state = (chain_type(), brightness_type(), scratch_type())
    target = (types.int64, types.int64, vector(), plan_type(), rows_type(dtype), geometry_type())

    @njit(types.void(types.npy_rng, *target, *state), cache=True)
    def begin(rng, density, log_factor, statistics, plan, rows, geometry, chain, bright, scratch):
        _ = fingerprint
        unwhiten(geometry, chain.v, chain.theta)
        chain.log_density[0] = call_density(density, chain.theta, statistics, chain.w)
        gibbs_sweep(rng, plan, rows, log_factor, chain.w, bright, scratch)

    @njit(types.float64(types.npy_rng, types.int64, *target, moves_type(), *state), cache=True)
    def run(
        rng, n, density, log_factor, statistics, plan, rows, geometry, moves, chain, bright, scratch
    ):
        _ = fingerprint
        plan, rows, geometry, moves = borrow(plan), borrow(rows), borrow(geometry), borrow(moves)
        chain, bright, scratch = borrow(chain), borrow(bright), borrow(scratch)
        total = 0.0
        for _i in range(n):
            kind = pick(rng, moves.weight)
            total += update_theta(
                rng,
                kind,
                density,
                log_factor,
                statistics,
                rows,
                geometry,
                moves,
                chain,
                bright,
                scratch,
            )
            sweep(rng, plan, rows, log_factor, chain.w, bright, scratch)
        return total / n

    return begin, run
