"""Selects the kernel whose effective draws usually cost least, and checks it before it is taken."""

from __future__ import annotations

import numpy as np

from pymc_flymc.anchor.exact_fits import LOG_SCALE
from pymc_flymc.bounds import ExpansionBound, Problem
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.regression.matrices import LARGEST_DENSE
from pymc_flymc.reporting import log
from pymc_flymc.sampling.adaptation import JOINT, LOCAL, SURROGATE
from pymc_flymc.sampling.bound_choice import estimate_kept, joint_bound
from pymc_flymc.sampling.candidates import Candidate, Candidates
from pymc_flymc.sampling.far_out import OF_ROWS, look_at_tails
from pymc_flymc.sampling.local_sweeps import local_sampler
from pymc_flymc.sampling.proposal_weights import weigh_joint_moves
from pymc_flymc.sampling.sampler import Sampler
from pymc_flymc.sampling.task import SamplingTask
from pymc_flymc.target.conditionals import effect_places

#: Groups from which on local sweeps are taken where they serve, and nothing else is tried. With
#: some 10,000 groups of one size they are as fast as conditional Hamiltonian moves, and faster from
#: 5,000 on if sizes differ (`examples.benchmarks.hierarchies`).
MANY_GROUPS = 5_000
#: What it may cost to weigh joint moves: passes over all rows, and seconds in which rows are read.
PASSES, SECONDS = 40.0, 1.0
#: Posterior sd of the logarithm of the noise's scale, from which on chains may miss small scales.
LEAST_SD = 1.0 / 3.0


def select_sampler(task: SamplingTask) -> Sampler:
    """Return what samples by the kernel whose effective draws usually cost least.

    Joint moves are weighed before they are taken. Kernels that would miss tails are not taken.
    Nothing is timed, and the weighing has random numbers of its own. There are no pilot chains: one
    kernel's chain shows that a posterior takes many gradients, which holds for all others as well,
    whose cost would still be the usual one.
    """
    sampler = _local_sweeps(task)
    return sampler or _cheapest(task, Candidates(task))


def best_surrogate(task: SamplingTask, taylor: ExpansionBound) -> Sampler:
    """Return what samples by surrogate moves, with the exact rows that usually cost least."""
    candidates = Candidates(task)
    joint, found = candidates.joint(taylor), candidates.surrogates(taylor)
    *_, found = _weighed(task, candidates, joint, joint.sampler(task), found)
    return min(found, key=lambda each: each.usual).sampler(task)


def _weighed(
    task: SamplingTask,
    candidates: Candidates,
    joint: Candidate,
    sampler: Sampler,
    left: list[Candidate],
) -> tuple[float, list[Candidate]]:
    """Weigh joint moves; return their cost, and others as that lets expect."""
    limit = PASSES * candidates.n_rows + SECONDS / candidates.costs.seconds
    found, rows = weigh_joint_moves(sampler, task.others, candidates.costs, limit)
    cost = found.autocorrelation_time * candidates.of_proposal(rows)
    left = [candidates.slowed(each, cost / joint.rows, rows) for each in left]
    # Chains stay for long where proposals seldom come: no number of draws is enough.
    return np.inf if found.heavy_tails else cost, left


def _cheapest(task: SamplingTask, candidates: Candidates) -> Sampler:
    left = candidates.all()
    why = "reading fewer would cost more"
    while True:
        best, *left = sorted(left, key=lambda each: each.usual)
        if best.reads_all:
            _say_all_rows(candidates, why)
            return best.sampler(task)
        sampler = best.sampler(task)
        if best.spec is JOINT:
            cost, left = _weighed(task, candidates, best, sampler, left)
            if cost > min(each.usual for each in left):
                continue
        missed = _rows_in_tails(task, best, sampler)
        if missed is None:
            return sampler
        log.info(f"{best.spec.name} moves are not taken: {OF_ROWS}")
        if best.spec is not JOINT:  # with joint moves the prior may be what differs
            left = [each for each in left if not each.by_expansion or each.n_exact >= missed]
            why = OF_ROWS


def _rows_in_tails(task: SamplingTask, candidate: Candidate, sampler: Sampler) -> float | None:
    """Return how many rows are bright in tails that a candidate would miss, or None.

    Conditional moves have no weights: those of surrogate moves on the same rows are used.
    """
    if not candidate.by_expansion:
        return None
    if not candidate.spec.fresh:
        taylor = joint_bound(task.problems)
        if taylor is None:
            return None
        kept = estimate_kept(taylor, task.problems[0])
        sampler = Candidate(SURROGATE, [taylor], 0.0, n_exact=kept).sampler(task)
    return look_at_tails(task, sampler)


def _local_sweeps(task: SamplingTask) -> Sampler | None:
    """Return local sweeps, if they serve effects of many groups, or of few rows each."""
    # If few rows inform the scale of the noise, effects may fit these rows ever more closely as it
    # becomes small. Only sweeps, which draw the effects given the scale, reach small scales.
    problem, *_ = task.problems
    is_neck = len(task.problems) == 1 and _is_noise_in_a_neck(problem)
    if problem.design.n_sparse < MANY_GROUPS and not is_neck:
        return None
    try:
        n_effects = len(effect_places(task.graph, task.problems))
        # Trajectories of all other parameters are in coordinates that a dense matrix spans.
        if len(problem.anchor.theta) - n_effects > LARGEST_DENSE:
            return None
        return local_sampler(task, LOCAL.adaptation())
    except UnsupportedModelError:
        return None


def _is_noise_in_a_neck(problem: Problem) -> bool:
    """Return whether rows with effects of groups hardly inform the scale of their noise."""
    nuisances = tuple(problem.likelihood.nuisances)
    if not problem.design.n_sparse or LOG_SCALE not in nuisances:
        return False
    place = len(problem.own.w) - len(nuisances) + nuisances.index(LOG_SCALE)
    return bool(np.linalg.norm(problem.own.w_factor[place]) > LEAST_SD)


def _say_all_rows(candidates: Candidates, why: str) -> None:
    n_rows = candidates.n_rows
    log.info(f"all {n_rows:,} rows are read in every step, because {why}")
    if n_rows <= candidates.costs.few_rows:
        log.info(
            f"reading {n_rows:,} rows takes less time than the rest of an update, so there is "
            "nothing to save: leave out step="
        )
