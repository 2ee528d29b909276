"""How long sampling will take, and how long NUTS would: for the log, never for a choice."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pymc_flymc.bounds import Problem
from pymc_flymc.regression.matrices import RowMatrix
from pymc_flymc.regression.passes import blocks_of
from pymc_flymc.reporting import log
from pymc_flymc.sampling.costs import GRADIENT
from pymc_flymc.sampling.nuts_gradients import CORRELATED
from pymc_flymc.sampling.pilot_runs import CUT_OFF, JointPilot, PilotRun
from pymc_flymc.sampling.rehearsal import (
    EFFECTIVE_DRAWS,
    PYMC_DRAW,
    EstimatedTime,
    ExpectedTime,
    rehearse,
)
from pymc_flymc.sampling.sampler import Sampler
from pymc_flymc.sampling.task import SamplingTask
from pymc_flymc.target.target import Target

#: Seconds that nobody waits for, and those of sampling below which there is no rehearsal.
NOTHING = BRIEF = 0.1
#: NUTS is advised where it is faster by more than what estimates are good for.
WITHIN = 2.0
#: Where there is no time for a rehearsal: pilot runs hardly show how long brightness holds
#: parameters back. Of six models, such chains took 1.1 to 4.3 times what these said.
CONDITIONAL_FACTOR = 2.2

#: Numbers of a design that are read for a time, and repeats.
TIMED_NUMBERS, REPEATS = 200_000, 3


@dataclass(frozen=True)
class PilotTime:
    """What an effective draw of the slowest parameter took in a pilot run.

    Attributes
    ----------
    seconds : float
        Of processor time, in the kernel.
    transitions : float
    at_least : bool
        Whether the pilot run was ended before it could tell: then it is taken to have an effective
        draw in three, and no more is said than what one draw takes.
    rough : bool
        Whether a rehearsal alone can tell: one proposal's weight stands out.
    """

    seconds: float
    transitions: float
    at_least: bool = False
    rough: bool = False

    def of_draw(self, sampler: Sampler) -> tuple[float, float]:
        """Return how long a draw of ``pm.sample`` takes, and how many an effective one needs."""
        adaptation, given = sampler.adaptation, sampler.transitions
        # As if the autocorrelation of transitions decayed exponentially, as `Tuning` has it.
        one = max((self.transitions - 1.0) / (self.transitions + 1.0), 0.0)
        wanted = np.log(sampler.autocorrelation) / np.log(max(one, 0.01))
        each = given or int(np.clip(np.round(wanted), sampler.fewest, adaptation.most))
        draws = (1.0 + one**each) / (1.0 - one**each)
        return each * self.seconds / self.transitions + PYMC_DRAW, draws

    def of_sampling(self, sampler: Sampler, others: np.ndarray) -> EstimatedTime | None:
        """Return what it takes in ``pm.sample``, with PyMC's own work, if known."""
        target = sampler.target
        draw, draws = self.of_draw(sampler)
        of_all, measured = EFFECTIVE_DRAWS * draw * draws, None
        if of_all > BRIEF or self.rough:
            measured = rehearse(sampler, others, ExpectedTime(draw, of_all))
        if measured is not None or self.rough:
            return measured
        conditional = target.subsamples and not target.spec.fresh
        if self.at_least:  # each draw may have been worth one
            return EstimatedTime(self.seconds / CUT_OFF + PYMC_DRAW, True)
        few_bright = target.expected_bright <= 1.0
        factor = CONDITIONAL_FACTOR if conditional and not few_bright else 1.0
        return EstimatedTime(draw * draws * factor)


def chain_time(pilot: PilotRun) -> PilotTime | None:
    """Return the time of moves by a short chain; None if it never moved."""
    if pilot.cost == np.inf:
        return None
    return PilotTime(pilot.seconds, pilot.transitions, at_least=not pilot.ended)


def joint_time(pilot: JointPilot) -> PilotTime | None:
    """Return the time of joint moves; None if most proposals have no density."""
    transitions = pilot.weighed.autocorrelation_time
    if transitions == np.inf:
        return None
    return PilotTime(transitions * pilot.seconds, transitions, rough=pilot.weighed.outstanding)


def time_of_nuts(task: SamplingTask, target: Target, found: float) -> EstimatedTime:
    """Estimate what an effective draw of NUTS would take.

    Parameters
    ----------
    task : SamplingTask
    target : Target
    found : float
        Gradients that trajectories in coordinates without correlations have taken, inf if unknown.
    """
    gradients = task.nuts_gradients
    if np.isfinite(found):
        gradients = max(gradients, found)
    rest = GRADIENT * target.seconds(task.others)
    seconds = gradients * (rest + sum(map(gradient_seconds, task.problems)))
    return EstimatedTime(seconds, len(task.problems[0].anchor.theta) > CORRELATED)


def gradient_seconds(problem: Problem) -> float:
    """Processor seconds of a gradient of the log-likelihood of all rows, from some of them."""
    design = problem.design
    k = design.n_predictors
    n = min(design.n_rows, 2 + TIMED_NUMBERS // (k * (design.X.shape[1] + 1)))
    # Less what a call takes whatever it reads.
    more, less = (_pass_seconds(problem, size) for size in (n, 1))
    return max(more - less, 0.0) / max(n - 1, 1) * design.n_rows


def _pass_seconds(problem: Problem, n: int) -> float:
    design, w = problem.design, problem.own.w
    k, rows = design.n_predictors, slice(0, n)
    _, x, arguments, y = next(blocks_of(design.rows(rows), problem.y[rows], w))
    weights = w[: k * design.width].reshape(k, -1)
    if design.n_sparse:
        x = RowMatrix(x.dense, x.sparse)  # NUTS looks effects up: it multiplies no zeros

    def gradient() -> None:
        x.predictors(weights)
        _ = problem.derivatives(arguments, y).first @ x

    return _processor_seconds(gradient) * n / len(y)


def _processor_seconds(work: Callable[[], None]) -> float:
    """Return the shortest time that some work takes, of a few."""
    times = []
    for _ in range(REPEATS):
        began = time.thread_time()
        work()
        times.append(time.thread_time() - began)
    return min(times)


def verdict(ours: EstimatedTime, nuts: EstimatedTime) -> str:
    """Say how long sampling takes, and NUTS, and advise NUTS where it is clearly faster.

    What NUTS takes at least says nothing in its favour.
    """
    said = (
        f"{for_all_draws(ours)} of one core for {EFFECTIVE_DRAWS:,} effective draws of the slowest "
        "parameter"
    )
    if nuts.at_least and nuts.seconds < ours.seconds:
        return said
    said = f"{said}; NUTS would take {for_all_draws(nuts)}"
    brief = EFFECTIVE_DRAWS * nuts.seconds < NOTHING
    is_faster = brief or nuts.seconds < ours.seconds / WITHIN
    return f"{said}: leave out step=" if is_faster and not nuts.at_least else said


def say_verdict(
    time_each: PilotTime | None, task: SamplingTask, sampler: Sampler, found: float = np.inf
) -> None:
    """Log the verdict on a sampler that was selected, if its pilot run has told a time.

    Parameters
    ----------
    time_each : PilotTime, optional
    task : SamplingTask
    sampler : Sampler
    found
        As of `time_of_nuts`.
    """
    if time_each is not None:
        _say(lambda: time_each.of_sampling(sampler, task.others), task, sampler, found)


def say_time(task: SamplingTask, sampler: Sampler) -> None:
    """Log the verdict on moves that no pilot run has tried."""
    _say(lambda: rehearse(sampler, task.others), task, sampler, np.inf)


def _say(
    estimate: Callable[[], EstimatedTime | None], task: SamplingTask, sampler: Sampler, found: float
) -> None:
    """Log the verdict, if someone reads it. It selects nothing: chains are what they are."""
    if not log.isEnabledFor(logging.INFO):
        return
    try:
        ours = estimate()
    except Exception as error:
        # Whether draws meet it, sampling will show.
        log.info(f"how long sampling takes is not known: trying it raised {type(error).__name__}")
        return
    # Draws that take next to no time may be worth nothing: the verdict would say the contrary.
    if ours is None or (ours.at_least and EFFECTIVE_DRAWS * ours.seconds < NOTHING):
        return
    log.info(verdict(ours, time_of_nuts(task, sampler.target, found)))


def for_all_draws(each: EstimatedTime) -> str:
    """Return in words what all effective draws take whose time is said."""
    seconds = EFFECTIVE_DRAWS * each.seconds
    return "at least " * (each.at_least and seconds >= NOTHING) + in_words(seconds)


def in_words(seconds: float) -> str:
    """Return a duration to one digit, or two where the first is a one."""
    for unit, length in (("days", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if seconds >= 2.0 * length:
            return f"about {_rounded(seconds / length)} {unit}"
    return f"about {_rounded(seconds)} s" if seconds >= NOTHING else f"less than {NOTHING} s"


def _rounded(number: float) -> str:
    digits = 1 if f"{number:.1e}".startswith("1") else 0
    return f"{float(f'{number:.{digits}e}'):,g}"
