"""Which bound, and with it which kernel, serves a posterior better: decided by estimated cost."""

from __future__ import annotations

import logging

import numpy as np
from arviz_stats.base import array_stats

from pymc_flymc.bounds import Bohning, Bound, JaakkolaJordan, Problem, Tangent, Taylor
from pymc_flymc.chain import FireflyChain
from pymc_flymc.density import DensityGraph
from pymc_flymc.kernels.conditional import INDEPENDENT, new_moves
from pymc_flymc.resampling import ImplicitResampling, Resampling
from pymc_flymc.target import Target, build_target

__all__ = ["check_settings", "choose_target", "mixture"]

_log = logging.getLogger("pymc.flymc")

#: Mixtures of random walk, pCN and independent proposals: without and with joint moves.
_CONDITIONAL = {"auto": (0.3, 0.7, 0.0), "random_walk": (1.0, 0.0, 0.0), "pcn": (0.0, 1.0, 0.0)}
_JOINT = {**_CONDITIONAL, "auto": (0.05, 0.05, 0.9), "independent": (0.0, 0.0, 1.0)}

#: Time of a transition in units of the time that a row takes, beside the rows it reads.
OVERHEAD_ROWS = 30.0
#: Conditional transitions for an effective draw, per parameter; the least that trials have shown.
CONDITIONAL_TRANSITIONS = 1.5
#: Limits beyond which the posterior is too far from normal for independent proposals: acceptance,
#: and the tail index of the importance weights of the Laplace approximation (Yao et al. 2018).
LEAST_ACCEPTANCE = 0.2
LARGEST_TAIL_INDEX = 0.5
#: Rows looked at for a first estimate, and transitions of the trial of the joint kernel.
SAMPLE_ROWS = 20_000
TRIAL = 200
TAIL_DRAWS = 2000


def mixture(target: Target, proposal: str) -> tuple[float, float, float]:
    """Return the probabilities of random walk, pCN and independent proposals.

    Raises
    ------
    ValueError
        If the target's moves do not include the proposal.
    """
    mixtures = _JOINT if target.is_joint else _CONDITIONAL
    if proposal not in mixtures:
        raise ValueError(
            f"proposal={proposal!r} needs joint moves, that is bound=Taylor(); "
            f"without them it is one of {', '.join(mixtures)}"
        )
    return mixtures[proposal]


def check_settings(bound: object, resampling: Resampling | None, proposal: str) -> None:
    """Refuse settings that no model could be sampled with, before any work is done.

    Raises
    ------
    ValueError
        If a setting is unknown, or if settings contradict each other.
    """
    if isinstance(bound, str) and bound != "auto":
        raise ValueError(f"bound must be a bound, such as Taylor(), None or 'auto', not {bound!r}")
    if proposal not in _JOINT:
        raise ValueError(f"proposal must be one of {', '.join(_JOINT)}, not {proposal!r}")
    _check_resampling(bound, resampling)


def _check_resampling(bound: object, resampling: Resampling | None) -> None:
    if isinstance(bound, Taylor) and resampling is not None:
        raise ValueError(
            "brightness= is for conditional moves; with the bound Taylor(), the only one for some "
            "likelihoods, brightness is drawn afresh in every move"
        )


def choose_target(
    graph: DensityGraph,
    problem: Problem,
    bound: Bound | str | None,
    resampling: Resampling | None,
    proposal: str,
    others: np.ndarray,
) -> Target:
    """Build the target with the bound asked for, or else with the one that promises most.

    Joint updates of (theta, z) under a Taylor bound give nearly independent draws where the
    posterior is concentrated; a conditional kernel under a Jaakkola-Jordan bound degrades more
    gently where it is not. The cost of the latter is estimated from a sample of rows, that of
    the former measured by a short trial, with random numbers of its own.

    The settings are those that `check_settings` lets pass.
    """
    scheme = resampling or ImplicitResampling()
    if not isinstance(bound, str):
        return build_target(graph, problem, bound, scheme, len(others))
    kinds: tuple[Bound, ...] = (JaakkolaJordan(), Bohning(), Tangent(), Taylor())
    valid = [kind for kind in kinds if kind.supports(problem.likelihood)]
    if not valid:
        raise ValueError(
            f"no bound of this package is one on {problem.likelihood.name} likelihoods; give "
            "FireflyMH a bound="
        )
    # Some likelihoods and settings leave no choice.
    if len(valid) == 1:
        (only,) = valid
    elif resampling is not None:
        only = JaakkolaJordan()
    elif proposal == "independent":
        only = Taylor()
    else:
        return _cheaper(graph, problem, scheme, others)
    _check_resampling(only, resampling)
    target = build_target(graph, problem, only, scheme, len(others))
    _log.info(
        f"FireflyMH: {'joint' if target.is_joint else 'conditional'} moves with a {only.name} "
        f"bound, about {target.expected_bright:,.1f} of {problem.design.n_rows:,} rows bright"
    )
    return target


def _cheaper(
    graph: DensityGraph, problem: Problem, resampling: Resampling, others: np.ndarray
) -> Target:
    n_others, n_parameters = len(others), len(problem.anchor.theta)
    fallback = JaakkolaJordan()
    taylor = Taylor()
    stride = max(1, problem.design.n_rows // SAMPLE_ROWS)
    joint_rows = taylor.expected_rows(problem, stride)
    bright = fallback.expected_rows(problem, stride)
    conditional = (OVERHEAD_ROWS + 2.0 * bright) * CONDITIONAL_TRANSITIONS * n_parameters
    reason = f"joint moves would read about {joint_rows:,.0f} rows each"
    if OVERHEAD_ROWS + joint_rows < conditional:  # if acceptance were perfect
        target = build_target(graph, problem, taylor, resampling, n_others)
        rows, acceptance = _trial(target, resampling, others)
        tail_index = _tail_index(target, resampling, others)
        # An independence sampler that accepts with probability a has (2 - a)/a draws to an
        # effective one.
        joint = (OVERHEAD_ROWS + rows) * (2.0 - acceptance) / max(acceptance, 1e-3)
        normal = acceptance >= LEAST_ACCEPTANCE and tail_index <= LARGEST_TAIL_INDEX
        if normal and joint < conditional:
            _log.info(
                f"FireflyMH: joint moves with a Taylor bound, {rows:,.1f} of "
                f"{problem.design.n_rows:,} rows a move, acceptance {acceptance:.2f}"
            )
            return target
        reason += (
            f" and be accepted with probability {acceptance:.2f} (tail index {tail_index:.2f})"
        )
    target = build_target(graph, problem, fallback, resampling, n_others)
    _log.info(
        f"FireflyMH: conditional moves with a {fallback.name} bound, about "
        f"{target.expected_bright:,.0f} of {problem.design.n_rows:,} rows bright; {reason}"
    )
    return target


def _trial(target: Target, resampling: Resampling, others: np.ndarray) -> tuple[float, float]:
    """Rows read by an independent joint move and its acceptance probability."""
    rng = np.random.default_rng(20141104)
    n_parameters = len(target.geometry.centre)
    moves = new_moves(n_parameters, np.eye(3)[INDEPENDENT])
    chain = FireflyChain(target, resampling, moves)
    chain.set_others(others)
    for _ in range(20):
        if np.isfinite(chain.start(rng, rng.standard_normal(n_parameters))):
            break
    else:
        return np.inf, 0.0
    chain.advance(rng, TRIAL // 4, 0.0)
    chain.take_queries()
    acceptance = chain.advance(rng, TRIAL, 0.0)
    return chain.take_queries() / TRIAL, acceptance


def _tail_index(target: Target, resampling: Resampling, others: np.ndarray) -> float:
    """Pareto index of the ratio of posterior and Laplace densities over Laplace draws.

    The likelihood enters by its expansion, everything else exactly: no row is read.
    """
    rng = np.random.default_rng(20141104)
    n_parameters = len(target.geometry.centre)
    chain = FireflyChain(target, resampling, new_moves(n_parameters, np.eye(3)[INDEPENDENT]))
    chain.set_others(others)
    log_weights = np.empty(TAIL_DRAWS)
    for i in range(TAIL_DRAWS):
        v = rng.standard_normal(n_parameters)
        rate_at = len(chain.state.w_new) - 1
        log_weights[i] = chain.log_density_at(v) + chain.state.w_new[rate_at] + 0.5 * v @ v
    finite = log_weights[np.isfinite(log_weights)]
    if len(finite) < TAIL_DRAWS // 2:
        return np.inf
    return float(array_stats.psislw(finite)[1])
