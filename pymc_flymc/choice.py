"""Which bound, and with it which kernel, serves a posterior better: decided by estimated cost."""

from __future__ import annotations

import logging

import numpy as np

from pymc_flymc.bounds import JaakkolaJordan, Problem, Taylor
from pymc_flymc.chain import FireflyChain
from pymc_flymc.density import DensityGraph
from pymc_flymc.kernels.conditional import INDEPENDENT, new_moves
from pymc_flymc.passes import iterate_blocks
from pymc_flymc.resampling import Resampling
from pymc_flymc.target import Target, build_target

__all__ = ["choose_target"]

_log = logging.getLogger("pymc.flymc")

#: Time of a transition in units of the time that a row takes, beside the rows it reads.
OVERHEAD_ROWS = 30.0
#: Conditional transitions for an effective draw, per parameter; the least that trials have shown.
CONDITIONAL_TRANSITIONS = 1.5
#: Below this acceptance the tails of the posterior are too far from normal to count on joint moves.
LEAST_ACCEPTANCE = 0.2
#: Rows looked at for a first estimate, and transitions of the trial of the joint kernel.
SAMPLE_ROWS = 20_000
TRIAL = 200


def choose_target(
    graph: DensityGraph,
    problem: Problem,
    resampling: Resampling,
    others: np.ndarray,
) -> Target:
    """Build the target with the bound that promises more effective draws for the rows read.

    Joint updates of (theta, z) under a Taylor bound give nearly independent draws where the
    posterior is concentrated; a conditional kernel under a Jaakkola-Jordan bound degrades more
    gently where it is not. The cost of the latter is estimated from a sample of rows, that of
    the former measured by a short trial, with random numbers of its own.
    """
    n_others, n_parameters = len(others), len(problem.anchor.theta)
    fallback = JaakkolaJordan()
    taylor = Taylor()
    joint_rows, bright = _expected_rows(problem, taylor, fallback)
    conditional = (OVERHEAD_ROWS + 2.0 * bright) * CONDITIONAL_TRANSITIONS * n_parameters
    if OVERHEAD_ROWS + joint_rows < conditional:  # if acceptance were perfect
        target = build_target(graph, problem, taylor, resampling, n_others)
        rows, acceptance = _trial(target, resampling, others)
        # An independence sampler that accepts with probability a has (2 - a)/a draws to an
        # effective one.
        joint = (OVERHEAD_ROWS + rows) * (2.0 - acceptance) / max(acceptance, 1e-3)
        if joint < conditional and acceptance >= LEAST_ACCEPTANCE:
            _log.info(
                f"FireflyMH: joint moves with a Taylor bound, {rows:,.1f} of "
                f"{problem.design.n_rows:,} rows a move, acceptance {acceptance:.2f}"
            )
            return target
    target = build_target(graph, problem, fallback, resampling, n_others)
    _log.info(
        f"FireflyMH: conditional moves with a Jaakkola-Jordan bound, about "
        f"{target.expected_bright:,.0f} of {problem.design.n_rows:,} rows bright; the posterior is "
        "not concentrated enough for joint moves"
    )
    return target


def _expected_rows(
    problem: Problem, taylor: Taylor, quadratic: JaakkolaJordan
) -> tuple[float, float]:
    """Rows a joint move reads and rows bright under the quadratic bound, from a sample of rows."""
    stride = max(1, problem.design.n_rows // SAMPLE_ROWS)
    totals = np.zeros(2)
    for rows, x in iterate_blocks(problem.design, stride):
        totals += taylor.expected_rows(problem, rows, x), quadratic.expected_rows(problem, rows, x)
    return float(totals[0] * stride), float(totals[1] * stride)


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
