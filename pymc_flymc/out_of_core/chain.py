"""Chains that scan blocks of independent proposals, and whether these serve a posterior."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_flymc.anchor.expanded_density import expanded_density
from pymc_flymc.bounds import Problem, Taylor
from pymc_flymc.bounds.setting import BoundSetting, settings_of
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.out_of_core.target import (
    ACCEPT,
    UNIT,
    BlockTarget,
    Key,
    Weighed,
    build_block_target,
    draw_v,
    log_law,
    stream,
)
from pymc_flymc.reading.flat import DensityGraph
from pymc_flymc.reporting import count, doing, log
from pymc_flymc.sampling.trial import SEED, Independence, weigh_approximation
from pymc_flymc.sampling.tuners import Tuner

__all__ = ["BlockChain", "BlockTuner", "choose_blocks"]

#: Seconds that a round should take, and units that it may have.
SECONDS, MOST_UNITS = 1.0, 32
#: Draws of a chain that may be worth one independent draw: with more it is not said to sample.
LARGEST_TIME = 20.0

Round = Callable[[], Weighed]


@dataclass
class BlockState:
    """Where a chain is: whitened and unconstrained parameters, shape (D,), and its log weight."""

    v: np.ndarray
    theta: np.ndarray
    log_weight: float = -np.inf


class BlockChain:
    """One chain of independence Metropolis-Hastings updates of (theta, z), weighed in rounds.

    Of z nothing is kept but its number: a state's weight is all that its rejection depends on.

    Parameters
    ----------
    target : BlockTarget
    """

    anchor = None
    others = np.empty(0)

    def __init__(self, target: BlockTarget) -> None:
        self.target = target
        d = len(target.geometry.centre)
        self.state = BlockState(np.zeros(d), np.zeros(d))
        self.key: Key = ()
        self.n_bright = 0
        self.next = 0  # proposals that were looked at
        self.started = False
        self._queries = self._not_finite = 0
        self._units = 1
        self._waiting: deque[tuple[range, Round]] = deque()
        self._now: tuple[range, Weighed, np.ndarray] | None = None

    def start(self, rng: np.random.Generator, v: np.ndarray) -> float:
        """Begin at whitened parameters v, with fresh brightness; return the log weight."""
        self.key = tuple(int(n) for n in rng.integers(0, 2**63, 2))
        self.next = 0
        self.started = False  # until it has: the model's graph may raise
        self._waiting.clear()
        self._now = None
        log_weight, bright, _ = self.target.weigh(self.key, v[None])
        self.state = BlockState(v, self.target.geometry.unwhiten(v), float(log_weight[0]))
        self.n_bright = int(bright[0])
        self._queries += self.n_bright
        self.started = True
        return self.state.log_weight

    def start_at(self, rng: np.random.Generator, theta: np.ndarray) -> float:
        """As `start`, from unconstrained parameters."""
        log_weight = self.start(rng, self.target.geometry.whiten(theta))
        self.state.theta[:] = theta  # to the last bit: v is theta's up to rounding
        return log_weight

    def start_dispersed(self, rng: np.random.Generator, spread: float = 2.0) -> bool:
        """As `start`, from a point drawn around the anchor; see `FireflyChain`."""
        raised: Exception | None = None
        for _ in range(50):
            try:
                if np.isfinite(self.start(rng, spread * rng.standard_normal(len(self.state.v)))):
                    return True
            except Exception as error:  # of a user's own type
                raised = error
            spread *= 0.8
        if raised is not None:
            raise raised
        return False

    def set_others(self, others: np.ndarray) -> None:
        """There are no variables of other step methods."""

    def unwhiten(self, v: np.ndarray) -> np.ndarray:
        """Return theta for whitened parameters v."""
        return self.target.geometry.unwhiten(v)

    def advance(self, rng: np.random.Generator, n: int, gain: float) -> float:
        """Look at the next n proposals; return the mean acceptance probability."""
        total = 0.0
        for _ in range(n):
            unit, place = 1 + self.next // UNIT, self.next % UNIT
            units, (log_weight, bright, not_finite), exponential = self._round(unit)
            at = (unit - units.start) * UNIT + place
            self._not_finite += int(not_finite[at])
            log_ratio = log_weight[at] - self.state.log_weight
            self._queries += int(bright[at])
            if -exponential[at] < log_ratio:
                made = self.target.proposer.proposals(self.key, unit)
                self.state = BlockState(
                    made.v[place].copy(), made.theta[place].copy(), float(log_weight[at])
                )
                self.n_bright = int(bright[at])
            total += float(np.exp(min(0.0, log_ratio)))
            self.next += 1
        return total / n

    def _round(self, unit: int) -> tuple[range, Weighed, np.ndarray]:
        """Return the round that has a unit, with rounds behind it under way."""
        if self._now is not None and unit in self._now[0]:
            return self._now
        last = unit
        if self._waiting:
            last = self._waiting[-1][0].stop
        while len(self._waiting) < self.target.source.in_flight:
            units = range(last, last + self._units)
            self._waiting.append((units, self.target.begin_round(self.key, units)))
            last = units.stop
        units, wait = self._waiting[0]
        began = time.perf_counter()
        weighed = wait()
        self._waiting.popleft()  # not before: the model's graph may have raised
        # Of the time nothing depends but how many units come together.
        if time.perf_counter() - began < 0.5 * SECONDS:
            self._units = min(2 * self._units, MOST_UNITS)
        elif self._units > 1:
            self._units //= 2
        draws = [stream(self.key, each, ACCEPT).standard_exponential(UNIT) for each in units]
        self._now = units, weighed, np.concatenate(draws)
        return self._now

    @property
    def log_weight(self) -> float:
        """Log weight of the state among proposals."""
        return self.state.log_weight

    def take_queries(self) -> int:
        """Rows read since the last call."""
        queries, self._queries = self._queries, 0
        return queries

    def take_not_finite(self) -> int:
        """Log weights that were NaN or positive infinity since the last call: taken as -inf."""
        not_finite, self._not_finite = self._not_finite, 0
        return not_finite

    def take_violations(self) -> int:
        """Return zero: a round in which a bound is violated raises an error at once."""
        return 0

    def save(self) -> dict[str, Any]:
        """Copy of all that the next transition depends on."""
        state = self.state
        return {
            "started": self.started,
            "v": state.v.copy(),
            "theta": state.theta.copy(),
            "log_weight": state.log_weight,
            "n_bright": self.n_bright,
            "key": self.key,
            "next": self.next,
            "anchor": None,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Return to a saved state."""
        self.started, self.key, self.next = saved["started"], saved["key"], saved["next"]
        self.state = BlockState(saved["v"].copy(), saved["theta"].copy(), saved["log_weight"])
        self.n_bright = saved["n_bright"]
        self._queries = self._not_finite = 0
        self._waiting.clear()
        self._now = None


class BlockTuner(Tuner):
    """Independent proposals have nothing to learn."""

    fewest = most = 1

    def first_transitions(self, target: Any) -> int:
        """Return one."""
        return 1

    def begin(self, target: Any) -> Any:
        """Return no settings."""
        return ()

    def new_chain(self, target: Any, brightness: Any, anchor: Any) -> Any:
        """Return a chain of blocks."""
        return BlockChain(target)

    def statistics(self, chain: Any) -> dict[str, Any]:
        """Return no statistics of its own."""
        return {}


def choose_blocks(
    graph: DensityGraph, problem: Problem, asked: BoundSetting
) -> tuple[BlockTarget, Tuner]:
    """Prepare blocks of independent proposals, and see whether they sample the posterior.

    Raises
    ------
    UnsupportedModelError
        If the weights of proposals have heavy tails, or vary by orders of magnitude.
    """
    bound = _bound(asked, problem)
    # Before a pass over all rows: no row is read for this.
    v = draw_v(np.random.default_rng(SEED), UNIT, len(problem.anchor.geometry.centre))
    density = expanded_density(graph, np.empty(0))
    _check(weigh_approximation(density, problem, v, log_law(v)), problem)
    target = build_block_target(graph, problem, bound)
    with doing("trying joint moves"):
        log_weight, bright, _ = target.begin_round((SEED,), range(1, 2))()
    weighed = Independence.of(log_weight)
    _check(weighed, problem)
    log.info(
        f"joint moves read {count(float(bright.mean()))} of {problem.design.n_rows:,} rows of "
        f"{problem.name!r} each ({bound.name} bound), {UNIT:,} proposals at a time; a draw is "
        f"worth {1.0 / weighed.autocorrelation_time:.2f} independent ones, by trial"
    )
    return target, BlockTuner()


def check_elsewhere(bound: object, brightness: object, proposal: str, kernel: str) -> None:
    """Refuse settings that are not for rows that lie elsewhere, before any work is done.

    Raises
    ------
    ValueError
    """
    if brightness is not None or kernel not in ("auto", "joint"):
        asked = "brightness=" if brightness is not None else f"kernel={kernel!r}"
        raise ValueError(
            f"{asked} is for rows in memory: moves given brightness and trajectories read rows at "
            "each step. Rows given by data= are sampled by joint moves, kernel='joint'"
        )
    if proposal not in ("auto", "independent"):
        raise ValueError(
            f"proposal={proposal!r} is for rows in memory: with data= proposals are independent"
        )
    if not isinstance(bound, str | Mapping) and not getattr(bound, "joint", False):
        raise ValueError("data= needs bound=Taylor(), which bound='auto' takes")


def _bound(asked: BoundSetting, problem: Problem) -> Taylor:
    """Return the bound asked for, or the Taylor bound."""
    (setting,) = settings_of(asked, [problem.name])
    bound = Taylor() if isinstance(setting, str) else setting
    assert isinstance(bound, Taylor)
    return bound


def _check(weighed: Independence, problem: Problem) -> None:
    if not weighed.heavy_tails and weighed.autocorrelation_time < LARGEST_TIME:
        return
    reason = (
        "the weights of proposals have heavy tails"
        if weighed.heavy_tails
        else f"a draw would be worth {1.0 / weighed.autocorrelation_time:.3f} independent ones"
    )
    raise UnsupportedModelError(
        "rows given by data= are sampled by proposals from a normal law around the posterior "
        f"mode, and the posterior of {problem.name!r} is too far from one: {reason}. Fewer "
        "coefficients, stronger priors or another parametrisation (fixed scales, centred effects "
        "of large groups) may help; more rows do. Or put the rows into the model, without data=, "
        "where Firefly has moves for any posterior"
    )
