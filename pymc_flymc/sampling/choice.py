"""Chooses the bound and the kernel for a model: the requested ones, or the usually cheapest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pymc_flymc.bounds import ExpansionBound, Problem, Taylor, is_for_joint_moves
from pymc_flymc.errors import UnsupportedModelError, check_choice
from pymc_flymc.likelihoods.likelihood import LOG_SCALE
from pymc_flymc.regression.matrices import LARGEST_DENSE
from pymc_flymc.regression.regression import names_of
from pymc_flymc.reporting import log
from pymc_flymc.sampling.adaptation import (
    HAMILTONIAN,
    JOINT,
    LOCAL,
    METROPOLIS,
    PROPOSALS,
    SURROGATE,
    Adaptation,
    spec_of,
)
from pymc_flymc.sampling.bound_choice import (
    WITH_EFFECTS,
    conditional_bounds,
    estimate_kept,
    joint_bound,
    log_rows_read,
    valid_bounds,
)
from pymc_flymc.sampling.candidates import Candidate, Candidates
from pymc_flymc.sampling.local_sweeps import check_local, local_sampler
from pymc_flymc.sampling.proposal_weights import (
    OF_ROWS,
    look_at_tails,
    warn_of_heavy_tails,
    weigh_joint_moves,
)
from pymc_flymc.sampling.sampler import Sampler, SamplingTask
from pymc_flymc.target.conditionals import effect_places
from pymc_flymc.target.resampling import Resampling

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


#: What asks for joint moves, in messages.
ASKED = "kernel={!r}", "proposal='independent'"
#: What `FireflyMH` may be told to use.
KERNEL_NAMES = ("auto", *(spec.name for spec in (JOINT, SURROGATE, METROPOLIS, HAMILTONIAN, LOCAL)))


def check_settings(
    bound: object, resampling: Resampling | None, proposal: str, kernel: str
) -> None:
    """Refuse settings that no model could be sampled with, before any work is done.

    Raises
    ------
    ValueError
        If a setting is unknown, or if settings contradict each other.
    """
    check_choice("proposal", proposal, PROPOSALS)
    check_choice("kernel", kernel, KERNEL_NAMES)
    if kernel == "auto":
        _check_resampling(bound, resampling)
        return
    spec = spec_of(kernel)
    if spec.fresh and resampling is not None:
        raise ValueError(
            f"brightness= is for conditional moves; with kernel={kernel!r} it is drawn again "
            "in every move"
        )
    if spec.gradients and proposal != "auto":
        raise ValueError(f"proposal= is not for kernel={kernel!r}, which follows trajectories")
    for asked in bound.values() if isinstance(bound, Mapping) else [bound]:
        if spec.fresh and not (isinstance(asked, str) or is_for_joint_moves(asked)):
            raise ValueError(f"kernel={kernel!r} needs bound=Taylor(), which bound='auto' takes")
        if spec.exact and isinstance(asked, Taylor) and asked.order != 2:
            # The exponential of a cubic form has no integral: it is no proposal distribution.
            raise ValueError(
                "kernel='surrogate' expands rows to second order: bound=Taylor(), not "
                "Taylor(order=3)"
            )
    if spec.local:
        check_local(bound, resampling)


def _check_resampling(bound: object, resampling: Resampling | None) -> None:
    if is_for_joint_moves(bound) and resampling is not None:
        raise ValueError(
            "brightness= is for conditional moves; with the bound Taylor(), the only one for some "
            "likelihoods, brightness is drawn again in every move"
        )


def choose_sampler(
    task: SamplingTask,
    resampling: Resampling | None,
    proposal: str,
    kernel: str,
    transitions: int | None,
) -> Sampler:
    """Return a sampler with the bound and kernel asked for, or else with those that cost least.

    `check_settings` has let the settings pass. The rows that moves read are logged.

    Raises
    ------
    ValueError
        If the settings are not for this model's likelihoods.
    """
    if kernel == "auto":
        kernel = _implied(task, resampling, proposal)
    if kernel == "auto":
        sampler = replace(select_sampler(task), transitions=transitions)
        if sampler.target.subsamples:
            log_rows_read(task.problems, sampler.target)
        return sampler
    given = {} if proposal == "auto" else {"proposal": proposal}  # some kernels have none
    adaptation: Adaptation = spec_of(kernel).adaptation(**given)
    if not adaptation.spec.fresh:
        return conditional_sampler(task, resampling, adaptation, transitions)
    taylor = _joint_bound(task, proposal, kernel)
    if adaptation.spec.exact:
        sampler = replace(best_surrogate(task, taylor), transitions=transitions)
    else:
        sampler = task.sampler([taylor], adaptation, transitions=transitions)
    log_rows_read(task.problems, sampler.target)
    warn_of_heavy_tails(task, sampler)
    return sampler


def conditional_sampler(
    task: SamplingTask,
    resampling: Resampling | None,
    adaptation: Adaptation,
    transitions: int | None,
) -> Sampler:
    """Return the sampler of the conditional kernel asked for; log the rows that it reads.

    Warn if its proposals would hardly reach a tail of the posterior.
    """
    if adaptation.spec.local:
        sampler = local_sampler(task, adaptation, resampling, transitions)
    else:
        sampler = task.sampler(conditional_bounds(task), adaptation, resampling, transitions)
    if sampler.target.subsamples:
        log_rows_read(task.problems, sampler.target)
    if adaptation.is_normal:
        warn_of_heavy_tails(task, sampler)
    return sampler


def _joint_bound(task: SamplingTask, proposal: str, kernel: str) -> ExpansionBound:
    """Return the bound that was asked for, or the one for fresh brightness.

    Raises
    ------
    ValueError
        If there is none.
    """
    if len(task.problems) > 1:
        raise ValueError(
            f"{ASKED[proposal == 'independent'].format(kernel)} needs joint moves, which are for "
            f"one likelihood; this model has {names_of(task.problems)}"
        )
    (asked,) = task.bounds
    taylor = joint_bound(task.problems) if isinstance(asked, str) else asked
    if not is_for_joint_moves(taylor):
        raise ValueError(
            f"kernel={kernel!r} is for one likelihood that is smooth in its predictors, "
            f"and not{WITH_EFFECTS}"
        )
    return taylor


def _implied(task: SamplingTask, resampling: Resampling | None, proposal: str) -> str:
    """Return the kernel that other settings leave, or "auto"."""
    (problem, *_), (first, *more) = task.problems, task.bounds
    if not all(isinstance(asked, str) for asked in task.bounds):
        _check_resampling(first, resampling)
        joint_moves = is_for_joint_moves(first) and not more and problem.design.format.one_radius
        return "joint" if joint_moves else "metropolis"
    joint = joint_bound(task.problems)
    if joint is not None and valid_bounds(problem) == [joint]:  # the only one
        _check_resampling(joint, resampling)
    if proposal == "independent" and resampling is None:
        return "joint"
    return "auto" if resampling is None and proposal == "auto" else "metropolis"
