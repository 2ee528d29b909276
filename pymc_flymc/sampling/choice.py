"""Chooses the bound and the kernel for a model: those asked for, or else the most promising."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pymc_flymc.bounds import ExpansionBound, Taylor, is_for_joint_moves
from pymc_flymc.regression.regression import names_of
from pymc_flymc.sampling.adaptation import (
    HAMILTONIAN,
    JOINT,
    LOCAL,
    METROPOLIS,
    SURROGATE,
    spec_of,
)
from pymc_flymc.sampling.adaptation.base import Adaptation
from pymc_flymc.sampling.adaptation.metropolis import PROPOSALS
from pymc_flymc.sampling.bound_choice import (
    WITH_EFFECTS,
    conditional_bounds,
    joint_bound,
    log_rows_read,
    valid_bounds,
)
from pymc_flymc.sampling.far_out import warn_of_heavy_tails
from pymc_flymc.sampling.kernel_selection import best_surrogate, select_sampler
from pymc_flymc.sampling.local_sweeps import check_local, local_sampler
from pymc_flymc.sampling.sampler import Sampler
from pymc_flymc.sampling.task import SamplingTask
from pymc_flymc.settings import check_choice
from pymc_flymc.target.resampling import Resampling

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
