"""Which moves make an effective draw cheapest: by estimates, and where these may err, by trials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pymc_flymc.bounds import AllRows, Bound, Problem
from pymc_flymc.reading.flat import DensityGraph
from pymc_flymc.reporting import count, log
from pymc_flymc.sampling.bound_choice import (
    bright_rows_read,
    estimate_rows,
    joint_bound,
    joint_moves_read,
    tightest,
    valid_bounds,
)
from pymc_flymc.sampling.trial import (
    GRADIENT,
    evaluation_cost,
    try_chain,
    try_joint_moves,
)
from pymc_flymc.sampling.tuners import Tuner, tuner_of
from pymc_flymc.sampling.tuners.surrogate import REPEATS
from pymc_flymc.target.target import Target, build_target

__all__ = ["Competition"]

#: Metropolis updates given z for an effective draw, per parameter: the least that trials showed.
CONDITIONAL_TRANSITIONS = 1.5
#: Gradients for an effective draw: the fewest given z, in a surrogate's trajectory, and of
#: Hamiltonian Monte Carlo on all rows where no trial of trajectories says better.
GIVEN_Z, TRAJECTORY, ALL_ROWS = 5.0, 2.0, 12.0
#: What an effective draw must be expected to save before another kernel is compiled and tried, in
#: seconds: over 4,000 of them, the time that this takes.
WORTHWHILE = 0.5e-3
#: Seconds that a row takes, beside those for each of its numbers, and for each pair of classes.
ROW, NUMBER, PAIR = 40e-9, 3e-9, 30e-9
#: Shares of the rows that a surrogate may treat exactly.
SHARES = (0.0, 1 / 512, 1 / 128, 1 / 32, 1 / 8)
#: What a trial may read: so many times all rows, and as many rows as take a second.
PASSES, SECONDS = 40.0, 1.0
#: By how much joint proposals are distrusted whose weights have heavy tails, and walks, whose slow
#: directions a short chain hardly shows.
HEAVY_TAILS, WALKS = 3.0, 3.0


@dataclass
class Candidate:
    """Moves that might sample the model.

    Attributes
    ----------
    kernel : str
    least : float
        Cost of an effective draw, in rows, if all goes well.
    build : callable
        Builds their target.
    """

    kernel: str
    least: float
    build: Callable[[], Target]
    cost: float = np.inf
    target: Target | None = None
    what: str = ""

    def built(self) -> Target:
        """Return the target, built once."""
        if self.target is None:
            self.target = self.build()
        return self.target


class Competition:
    """Finds the moves that sample a model best.

    Joint updates of (theta, z) under a Taylor bound give nearly independent draws where the
    posterior is concentrated; those through a surrogate follow posteriors of any shape, at the
    price of gradients; updates given z read fewer rows where remainders are large; and all rows
    are read where nothing else pays. Candidates are tried in the order of the least that they can
    cost, until no other can be expected to beat the best. Costs are counted, never timed, and
    trials have random numbers of their own.

    Parameters
    ----------
    graph : DensityGraph
    problems : sequence of Problem
    others : ndarray, shape (F,)
        Values of the variables of other step methods.
    """

    def __init__(
        self,
        graph: DensityGraph,
        problems: Sequence[Problem],
        others: np.ndarray,
    ) -> None:
        self.graph, self.problems = graph, problems
        self.others = others
        self.n_rows = sum(problem.design.n_rows for problem in problems)
        n_coefficients = sum(graph.sizes)
        self.each = evaluation_cost(n_coefficients, n_coefficients)
        self.gradients = ALL_ROWS
        # Constants, as of one machine: with clocks, a seed would not say what is sampled.
        k = max(problem.design.n_predictors for problem in problems)
        self.row = ROW + NUMBER * n_coefficients + PAIR * (k * k - 1)
        self.worthwhile = WORTHWHILE / self.row

    @property
    def all_rows(self) -> float:
        """Cost of an effective draw of Hamiltonian Monte Carlo on all rows."""
        return self.gradients * (self.n_rows + GRADIENT * self.each)

    def winner(self) -> tuple[Target, Tuner]:
        """Return the target and the tuner of the best moves."""
        taylor = joint_bound(self.problems)
        candidates = self._given_z()
        if taylor is not None:
            candidates += [self._joint(taylor), *self._surrogates(taylor)]
        candidates.sort(key=lambda each: each.least)
        best: Candidate | None = None
        for candidate in candidates:
            if best is not None and best.cost - candidate.least < self.worthwhile:
                break
            if candidate.least > self.all_rows:
                break
            known = self.all_rows if best is None else min(best.cost, self.all_rows)
            self._try(candidate, known)
            if best is None or candidate.cost < best.cost:
                best = candidate
            else:
                candidate.target = None
        if best is None or (
            best.cost > self.all_rows and best.cost - self.all_rows > self.worthwhile
        ):
            return self._with_all_rows()
        others = [f"{each.what} {count(each.cost)}" for each in candidates if each.cost < np.inf]
        self._say(best, f"rows for an effective draw, by trial: {', '.join(others)}")
        return best.built(), tuner_of(best.kernel)

    def surrogate(self, taylor: Bound) -> tuple[Target, Tuner]:
        """Return the best of surrogate moves."""
        candidates = sorted(self._surrogates(taylor), key=lambda each: each.least)
        best = candidates[0]
        for candidate in candidates:
            if candidate.least < best.cost:
                self._try(candidate, min(best.cost, self.all_rows))
                best = min(best, candidate, key=lambda each: each.cost)
        self._say(best, "by trial")
        return best.built(), tuner_of("surrogate")

    def _given_z(self) -> list[Candidate]:
        bounds = [tightest(valid_bounds(problem), problem) for problem in self.problems]
        pairs = zip(bounds, self.problems, strict=True)
        bright = sum(estimate_rows(*pair) for pair in pairs)
        n_parameters = len(self.problems[0].anchor.theta)
        walk = CONDITIONAL_TRANSITIONS * n_parameters * (self.each + 2.0 * bright)
        follow = GIVEN_Z * (GRADIENT * self.each + 2.0 * bright)
        return [
            Candidate("metropolis", walk, lambda: self._build(bounds, "metropolis"), what="walks"),
            Candidate(
                "hamiltonian",
                follow,
                lambda: self._build(bounds, "hamiltonian"),
                what="trajectories given z",
            ),
        ]

    def _joint(self, taylor: Bound) -> Candidate:
        rows = estimate_rows(taylor, self.problems[0])
        return Candidate(
            "joint",
            self.each + rows,
            lambda: self._build([taylor], "joint"),
            what="joint moves",
        )

    def _surrogates(self, taylor: Bound) -> list[Candidate]:
        (problem,) = self.problems
        rows = estimate_rows(taylor, problem)
        found = []
        for share in SHARES:
            n_exact = int(share * self.n_rows)
            # As if those rows were the brightest: at best, bright always.
            least = max(rows - n_exact, 0.0)
            least += REPEATS * TRAJECTORY * (GRADIENT * self.each + n_exact)
            found.append(
                Candidate(
                    "surrogate",
                    least,
                    lambda n=n_exact: self._build([taylor], "surrogate", n),  # type: ignore[misc]
                    what=f"surrogate with {n_exact:,} exact rows",
                )
            )
        return found

    def _build(self, bounds: Sequence[Bound], kernel: str, n_exact: int = 0) -> Target:
        settings = tuner_of(kernel).brightness, len(self.others), kernel, n_exact
        return build_target(self.graph, self.problems, bounds, *settings)

    def _try(self, candidate: Candidate, known: float) -> None:
        """Estimate a candidate's cost, given that of something else."""
        target, tuner = candidate.built(), tuner_of(candidate.kernel)
        if candidate.kernel == "joint":
            weighed = try_joint_moves(target, tuner.brightness, self.others)
            candidate.cost = (self.each + weighed.rows) * weighed.autocorrelation_time
            candidate.cost *= HEAVY_TAILS if weighed.heavy_tails else 1.0
            return
        limit = PASSES * self.n_rows + SECONDS / self.row
        trial = try_chain(target, tuner, self.others, known, limit)
        candidate.cost = trial.cost * (WALKS if candidate.kernel == "metropolis" else 1.0)
        if candidate.kernel == "surrogate":
            # Trajectories through a surrogate are what those through the posterior would be.
            self.gradients = min(self.gradients, trial.gradients)

    def _with_all_rows(self) -> tuple[Target, Tuner]:
        target = self._build([AllRows()] * len(self.problems), "hamiltonian")
        log.info(
            f"all {self.n_rows:,} rows are read in every step, for no subset pays: no faster than "
            "pm.sample() is to be expected"
        )
        return target, tuner_of("hamiltonian")

    def _say(self, best: Candidate, why: str) -> None:
        target = best.built()
        (problem, *_), (part, *_) = self.problems, target.parts
        if best.kernel == "joint":
            log.info(f"{joint_moves_read(problem, part, part.expected_bright)}; {why}")
        elif best.kernel == "surrogate":
            log.info(
                f"surrogate moves read {count(part.expected_bright)} of {self.n_rows:,} rows of "
                f"{problem.name!r} each, and {target.n_exact:,} in every step; {why}"
            )
        else:
            for problem, part in zip(self.problems, target.parts, strict=True):
                moves = "conditional" + " Hamiltonian" * (best.kernel == "hamiltonian")
                log.info(f"{moves} {bright_rows_read(problem, part)}; {why}")
