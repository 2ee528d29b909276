"""Selects the kernel with the cheapest effective draws, by estimates and by pilot runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pymc_flymc.anchor.exact_fits import LOG_SCALE
from pymc_flymc.bounds import AllRows, ExpansionBound, Problem
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.regression.matrices import LARGEST_DENSE
from pymc_flymc.reporting import count, log
from pymc_flymc.sampling.adaptation import HAMILTONIAN, JOINT, LOCAL, SURROGATE
from pymc_flymc.sampling.bound_choice import (
    bright_rows_read,
    estimate_kept,
    estimate_rows,
    joint_moves_read,
)
from pymc_flymc.sampling.candidates import GRADIENTS, SHARES, USUAL, Candidate, Candidates
from pymc_flymc.sampling.costs import GRADIENT
from pymc_flymc.sampling.far_out import OF_ROWS, look_at_tails
from pymc_flymc.sampling.local_sweeps import local_sampler
from pymc_flymc.sampling.pilot_runs import largest_cost, pilot_chain, pilot_joint_moves
from pymc_flymc.sampling.sampler import Sampler
from pymc_flymc.sampling.task import SamplingTask
from pymc_flymc.sampling.time_estimates import chain_time, joint_time, say_time, say_verdict
from pymc_flymc.target.conditionals import effect_places

#: Groups from which on local sweeps are taken where they serve, and nothing else is tried. With
#: some 10,000 groups of one size they are as fast as conditional Hamiltonian moves, and faster from
#: 5,000 on if sizes differ (`examples.benchmarks.hierarchies`).
MANY_GROUPS = 5_000
#: Seconds that an effective draw must be expected to save before another kernel is compiled and
#: tried: over 4,000 draws, the time that this takes.
WORTHWHILE = 1e-3
#: Posterior sd of the logarithm of the noise's scale, from which on chains may miss small scales.
LEAST_SD = 1.0 / 3.0


class KernelSelection:
    """Finds the kernel that samples a model best.

    Joint updates of (theta, z) under a Taylor bound give nearly independent draws where the
    posterior is concentrated. Surrogate trajectories follow posteriors of any shape, at the price
    of gradients. Conditional updates read fewer rows where remainders are large. All rows are read
    where nothing else pays. Candidates have pilot runs in the order of what they usually cost,
    until none is left that could beat the best. Costs are counted, never timed, and pilot
    runs have random numbers of their own.

    Parameters
    ----------
    task : SamplingTask
    """

    def __init__(self, task: SamplingTask) -> None:
        self.task, self.problems, self.others = task, task.problems, task.others
        self.candidates = Candidates(task)
        self.n_rows, self.costs = self.candidates.n_rows, self.candidates.costs
        self.least_gradients, self.found_gradients = GRADIENTS, np.inf
        self.heavy_tails = False
        self.worthwhile = WORTHWHILE / self.costs.seconds

    @property
    def all_rows(self) -> float:
        """Cost of an effective draw of Hamiltonian Monte Carlo on all rows."""
        found = np.isfinite(self.found_gradients)
        gradients = self.found_gradients if found else self.least_gradients
        return gradients * (self.n_rows + GRADIENT * self.costs.evaluation)

    def best(self) -> Sampler:
        """Return what samples by the best kernel."""
        local = self._local()
        if local is not None:
            return local
        candidates = self.candidates.all()
        best: Candidate | None = None
        left = candidates
        while left := [each for each in left if self._may_pay(each, best)]:
            candidate = min(left, key=lambda each: each.usual)
            left = [each for each in left if each is not candidate]
            self._try(candidate, best, left)
            better = best is None or candidate.cost < best.cost
            far = self._rows_in_tails(candidate) if better else None
            if far is not None:
                candidate.cost, better = np.inf, False
                # With joint moves the prior may be what differs from proposals. Otherwise so many
                # rows are at fault that no surrogate treats all of them exactly.
                if candidate.spec is not JOINT and far > SHARES[-1] * self.n_rows:
                    self.heavy_tails = True
                    left = [each for each in left if not each.by_expansion]
            best, loser = (candidate, best) if better else (best, candidate)
            if loser is not None:
                loser.sampler = None
        # Each gradient of these would take all rows besides.
        known = any(each.as_all_rows and each.cost < np.inf for each in candidates)
        if best is None or (not known and best.cost - self.all_rows > self.worthwhile):
            return self._with_all_rows()
        others = [f"{each.what} {count(each.cost)}" for each in candidates if each.cost < np.inf]
        times = ", ".join(others)
        took = "cost per effective draw in pilot runs, in units of one row read in turn"
        self._say(best, f"{took}: {times}")
        return best.built()

    def _local(self) -> Sampler | None:
        """Return local sweeps, if they serve effects of many groups, or of few rows each.

        Where few rows inform the scale of the noise, effects may fit these rows ever more closely
        as it becomes small. Only sweeps, which draw the effects given the scale, come there.
        """
        problem, *_ = self.problems
        is_neck = len(self.problems) == 1 and _is_noise_in_a_neck(problem)
        if problem.design.n_sparse < MANY_GROUPS and not is_neck:
            return None
        try:
            n_effects = len(effect_places(self.task.graph, self.problems))
            # Trajectories of all other parameters are in coordinates that a dense matrix spans.
            if len(problem.anchor.theta) - n_effects > LARGEST_DENSE:
                return None
            sampler = local_sampler(self.task, LOCAL.adaptation())
        except UnsupportedModelError:
            return None
        read = bright_rows_read(problem, *sampler.target.parts)
        log.info(f"local sweeps of {n_effects:,} effects {read}")
        say_time(self.task, sampler)
        return sampler

    def _may_pay(self, candidate: Candidate, best: Candidate | None) -> bool:
        """Whether to try a candidate: for what draws usually cost, and could save at best."""
        if USUAL * candidate.least > self.all_rows:
            return False
        return best is None or best.cost - candidate.least >= self.worthwhile

    def _rows_in_tails(self, candidate: Candidate) -> float | None:
        """Return how many rows are bright in tails that a candidate would miss, or None.

        Conditional moves have no weights: those of surrogate moves on the same rows are used.
        """
        taylor = self.candidates.taylor
        if taylor is None or not candidate.by_expansion:
            return None
        sampler = candidate.built()
        if not sampler.target.spec.fresh:
            kept = estimate_kept(taylor, self.problems[0])
            sampler = self.candidates.build([taylor], SURROGATE, kept)
        rows = look_at_tails(self.task, sampler)
        if rows is not None:
            log.info(f"{candidate.what} are not taken: {OF_ROWS}")
        return rows

    def surrogate(self, taylor: ExpansionBound) -> Sampler:
        """Return the best of surrogate moves."""
        rows = estimate_rows(taylor, self.problems[0])
        kept = estimate_kept(taylor, self.problems[0])
        found = self.candidates.surrogates(rows, kept, taylor)
        candidates = sorted(found, key=lambda each: each.least)
        best = candidates[0]
        for candidate in candidates:
            if candidate.least < best.cost:
                self._try(candidate, best, [])
                best = min(best, candidate, key=lambda each: each.cost)
        self._say(best, "cheapest in pilot runs")
        return best.built()

    def _try(self, candidate: Candidate, best: Candidate | None, left: Sequence[Candidate]) -> None:
        """Estimate a candidate's cost, given that of the best so far, and learn of those left."""
        best_cost = np.inf if best is None else best.cost
        to_beat = min(best_cost, self.all_rows)
        limit = largest_cost(self.costs, self.problems, to_beat)
        if candidate.spec is JOINT:
            self._weigh_proposals(candidate, to_beat, limit, left)
            return
        if (candidate.spec.exact or candidate.as_all_rows) and self.found_gradients == np.inf:
            # The cost of reading all rows is not known: only this chain tells how many gradients
            # that takes.
            to_beat = best_cost
        self._run_chain(candidate, to_beat, limit, left)

    def _weigh_proposals(
        self, candidate: Candidate, to_beat: float, limit: float, left: Sequence[Candidate]
    ) -> None:
        """Estimate the cost of joint moves from the weights of independent proposals."""
        sampler = candidate.built()
        pilot = pilot_joint_moves(
            sampler.target, sampler.brightness, self.others, self.costs, limit, to_beat
        )
        candidate.cost = pilot.cost(self.costs)
        candidate.time = joint_time(pilot)
        # Log weights add up over rows. A share of the rows has about this share of their variance,
        # by whose exponential transitions are more.
        slower = max(candidate.cost / candidate.least, 1.0)
        rows = self.costs.drawn * pilot.rows
        for other in left:
            if other.spec.exact and other.rows > 0.0:
                other.rows *= slower ** min(other.rows / max(rows, 1.0), 1.0)
        if pilot.weighed.heavy_tails:
            # Chains stay for long where proposals seldom come. Weights understate that, and no
            # number of draws is enough.
            candidate.cost = np.inf

    def _run_chain(
        self, candidate: Candidate, to_beat: float, limit: float, left: Sequence[Candidate]
    ) -> None:
        """Estimate a candidate's cost by a short chain, and what gradients cost those left."""
        pilot = pilot_chain(candidate.built(), self.others, self.costs, to_beat, limit)
        unseen = candidate.spec.exact and not pilot.ended
        candidate.cost = USUAL * pilot.cost if unseen else pilot.cost
        candidate.time = chain_time(pilot)
        if candidate.cost == np.inf:  # a chain that never moved says nothing of others
            return
        gradients = pilot.gradients
        if candidate.spec.exact:
            # Trajectories through the posterior would be like those through a surrogate, without
            # rejections by weight.
            gradients *= pilot.accept / (2.0 - pilot.accept)
            # A stuck chain does not show how many gradients are needed: there is a least number.
            gradients = max(self.least_gradients, gradients)
            # With fewer exact rows weights vary more.
            for other in left:
                if pilot.ended and other.spec.exact and other.gradient < candidate.gradient:
                    other.rows *= max(1.0, pilot.transitions)
        if candidate.spec.exact or (candidate.as_all_rows and pilot.ended):
            self.found_gradients = min(self.found_gradients, gradients)
        # Of a chain that was cut off one transition may have been enough.
        least = gradients / (candidate.held_back * (1.0 if pilot.ended else pilot.transitions))
        for other in left:
            if other.gradients > 0.0:
                other.gradients = max(other.gradients, least)
        if not candidate.spec.exact:
            self.least_gradients = max(self.least_gradients, least)

    def _with_all_rows(self) -> Sampler:
        sampler = self.candidates.build([AllRows()] * len(self.problems), HAMILTONIAN)
        log.info(
            f"all {self.n_rows:,} rows are read in every step, because "
            f"{OF_ROWS if self.heavy_tails else 'reading fewer would cost more'}: this is at best "
            "some ten times as fast as pm.sample()"
        )
        say_time(self.task, sampler)
        return sampler

    def _say(self, best: Candidate, why: str) -> None:
        sampler = best.built()
        target = sampler.target
        (problem, *_), (part, *_) = self.problems, target.parts
        if best.spec is JOINT:
            log.info(f"{joint_moves_read(problem, part)}; {why}")
        elif target.data.exact is not None:
            log.info(
                f"surrogate moves read {count(part.expected_bright)} of {self.n_rows:,} rows of "
                f"{problem.name!r} each, and {len(target.data.exact.X):,} in each step of their "
                f"trajectories; {why}"
            )
        else:
            for problem, part in zip(self.problems, target.parts, strict=True):
                log.info(f"{best.what} {bright_rows_read(problem, part)}; {why}")
        say_verdict(best.time, self.task, sampler, self.found_gradients)


def _is_noise_in_a_neck(problem: Problem) -> bool:
    """Return whether rows with effects of groups hardly inform the scale of their noise."""
    nuisances = tuple(problem.likelihood.nuisances)
    if not problem.design.n_sparse or LOG_SCALE not in nuisances:
        return False
    place = len(problem.own.w) - len(nuisances) + nuisances.index(LOG_SCALE)
    return bool(np.linalg.norm(problem.own.w_factor[place]) > LEAST_SD)
