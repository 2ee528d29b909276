"""Which bound, and with it which kernel, serves a posterior better: decided by estimated cost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pymc_flymc.bounds import BOUNDS, Bound, Problem
from pymc_flymc.bounds.setting import BoundSetting, check_bound_setting, settings_of
from pymc_flymc.reading.flat import DensityGraph
from pymc_flymc.regression.design import STRUCTURED
from pymc_flymc.reporting import count, log
from pymc_flymc.sampling.trial import try_joint_moves
from pymc_flymc.settings import check_choice
from pymc_flymc.target.resampling import ImplicitResampling, Resampling
from pymc_flymc.target.target import Target, TargetPart, build_target

__all__ = ["check_settings", "choose_target", "conditional_target", "mixture"]

#: Mixtures of random walk, pCN and independent proposals: without and with joint moves.
_CONDITIONAL = {"auto": (0.3, 0.7, 0.0), "random_walk": (1.0, 0.0, 0.0), "pcn": (0.0, 1.0, 0.0)}
_JOINT = {**_CONDITIONAL, "auto": (0.05, 0.05, 0.9), "independent": (0.0, 0.0, 1.0)}

#: Time of a transition in units of the time that a row takes, beside the rows it reads.
OVERHEAD_ROWS = 30.0
#: Conditional transitions for an effective draw, per parameter; the least that trials have shown.
CONDITIONAL_TRANSITIONS = 1.5
#: The Taylor bound has one radius for all coefficients.
WITH_EFFECTS = f" with more than {STRUCTURED} coefficients, of groups or sparse columns"
#: Rows looked at for a first estimate.
SAMPLE_ROWS = 20_000


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
            f"proposal={proposal!r} needs joint moves, that is bound=Taylor() and one likelihood; "
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
    check_bound_setting(bound)
    check_choice("proposal", proposal, _JOINT)
    _check_resampling(bound, resampling)


def _check_resampling(bound: object, resampling: Resampling | None) -> None:
    if getattr(bound, "joint", False) and resampling is not None:
        raise ValueError(
            "brightness= is for conditional moves; with the bound Taylor(), the only one for some "
            "likelihoods, brightness is drawn afresh in every move"
        )


def choose_target(
    graph: DensityGraph,
    problems: Sequence[Problem],
    bound: BoundSetting,
    resampling: Resampling | None,
    proposal: str,
    others: np.ndarray,
) -> Target:
    """Build the target with the bound asked for, or else with the one that promises most.

    Joint updates of (theta, z) under a Taylor bound give nearly independent draws where the
    posterior is concentrated; a conditional kernel under a quadratic bound degrades more gently
    where it is not. The cost of the latter is estimated from a sample of rows, that of
    the former from the weights of joint proposals, with random numbers of its own. Joint updates
    are for one likelihood.

    The settings are those that `check_settings` lets pass.

    Raises
    ------
    ValueError
        If they are not for this model's likelihoods.
    """
    scheme = resampling or ImplicitResampling()
    if len(problems) > 1:
        return conditional_target(graph, problems, bound, scheme, "metropolis", len(others))
    (problem,) = problems
    (asked,) = settings_of(bound, [problem.name])
    if not isinstance(asked, str):
        _check_resampling(asked, resampling)
        return _with_bound(asked, graph, problem, scheme, others)
    valid = _valid_bounds(problem)
    # Some likelihoods and settings leave no choice.
    if len(valid) == 1:
        (only,) = valid
    elif proposal == "independent" and resampling is None:
        only = next(bound for bound in BOUNDS if bound.joint)
    elif resampling is not None or not any(bound.joint for bound in valid):
        only = _tightest(valid, problem)
    else:
        return _cheaper(graph, problem, valid, scheme, others)
    _check_resampling(only, resampling)
    return _with_bound(only, graph, problem, scheme, others)


def _with_bound(
    bound: Bound,
    graph: DensityGraph,
    problem: Problem,
    resampling: Resampling,
    others: np.ndarray,
) -> Target:
    """Build the target with the moves that a bound is for."""
    kernel = "joint" if bound.joint else "metropolis"
    target = build_target(graph, [problem], [bound], resampling, len(others), kernel)
    if target.subsamples:
        (part,) = target.parts
        log.info(
            _joint(problem, part, part.expected_bright)
            if target.is_joint
            else f"conditional {_given_z(problem, part)}"
        )
    return target


def conditional_target(
    graph: DensityGraph,
    problems: Sequence[Problem],
    bound: BoundSetting,
    resampling: Resampling,
    kernel: str,
    n_others: int,
) -> Target:
    """Build the target of a kernel that updates theta given z, by default with tangent bounds."""
    settings = settings_of(bound, [problem.name for problem in problems])
    chosen = [
        _tightest(_valid_bounds(problem), problem) if isinstance(asked, str) else asked
        for problem, asked in zip(problems, settings, strict=True)
    ]
    target = build_target(graph, problems, chosen, resampling, n_others, kernel)
    if target.subsamples:
        for problem, part in zip(problems, target.parts, strict=True):
            log.info(_given_z(problem, part))
    return target


def _joint(problem: Problem, part: TargetPart, rows: float) -> str:
    """Say what joint moves read, for the log."""
    return (
        f"joint moves read {count(rows)} of {problem.design.n_rows:,} rows of {problem.name!r} "
        f"each ({part.bound.name} bound)"
    )


def _given_z(problem: Problem, part: TargetPart) -> str:
    """Say what moves given z read, for the log."""
    return (
        f"moves read the bright rows, {count(part.expected_bright)} of {problem.design.n_rows:,} "
        f"of {problem.name!r} ({part.bound.name} bound)"
    )


def _valid_bounds(problem: Problem) -> list[Bound]:
    """Bounds on a likelihood, and for its design."""
    valid = [bound for bound in BOUNDS if bound.supports(problem.likelihood)]
    if problem.design.structured:
        valid = [bound for bound in valid if not bound.joint]
    if not valid:
        raise ValueError(
            f"no bound of this package is one on {problem.likelihood.name} likelihoods"
            f"{WITH_EFFECTS * problem.design.structured}; give the step a bound="
        )
    return valid


def _tightest(valid: Sequence[Bound], problem: Problem) -> Bound:
    """Return the bound for conditional moves that leaves the fewest rows bright.

    One that is meant for joint moves serves where there is no other.
    """
    given_z = [bound for bound in valid if not bound.joint] or valid
    if len(given_z) == 1:
        return given_z[0]
    stride = max(1, problem.design.n_rows // SAMPLE_ROWS)
    return min(given_z, key=lambda bound: bound.expected_rows(problem, stride))


def _cheaper(
    graph: DensityGraph,
    problem: Problem,
    valid: Sequence[Bound],
    resampling: Resampling,
    others: np.ndarray,
) -> Target:
    n_others, n_parameters = len(others), len(problem.anchor.theta)
    taylor = next(bound for bound in valid if bound.joint)
    stride = max(1, problem.design.n_rows // SAMPLE_ROWS)
    joint_rows = taylor.expected_rows(problem, stride)
    fallback = _tightest(valid, problem)
    bright = fallback.expected_rows(problem, stride)
    conditional = (OVERHEAD_ROWS + 2.0 * bright) * CONDITIONAL_TRANSITIONS * n_parameters
    reason = f"a joint move would read {count(joint_rows)}"
    if OVERHEAD_ROWS + joint_rows < conditional:  # if acceptance were perfect
        target = build_target(graph, [problem], [taylor], resampling, n_others, "joint")
        trial = try_joint_moves(target, resampling, others)
        joint = (OVERHEAD_ROWS + trial.rows) * trial.autocorrelation_time
        if not trial.heavy_tails and joint < conditional:
            log.info(
                f"{_joint(problem, target.parts[0], trial.rows)}, expected acceptance "
                f"{trial.acceptance:.0%}"
            )
            return target
        reason += f", and an effective draw take about {trial.autocorrelation_time:,.0f} of them"
        reason += " or more: the posterior has heavy tails" * trial.heavy_tails
    target = build_target(graph, [problem], [fallback], resampling, n_others, "metropolis")
    log.info(f"conditional {_given_z(problem, target.parts[0])}; {reason}")
    return target
