"""A chain that scans independent proposals, weighed many at a time."""

import copy
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_flymc.out_of_core.batch_target import BatchTarget, Weights
from pymc_flymc.out_of_core.proposals import ACCEPT, BATCH, Key, stream
from pymc_flymc.sampling.chain import OVERDISPERSION

#: Seconds that a superbatch should take, and batches that it may have.
SECONDS, MOST_BATCHES = 1.0, 32
#: What the next transition depends on.
SAVED = "started", "state", "n_bright", "key", "next"


@dataclass
class BatchState:
    """Where a chain is: in standardised coordinates and unconstrained, (D,), and its log weight."""

    v: np.ndarray
    theta: np.ndarray
    log_weight: float = -np.inf


class BatchChain:
    """One chain of independence Metropolis-Hastings updates of (theta, z), weighed in superbatches.

    Only the number of bright rows is kept of z: acceptance depends on a state's weight alone.

    Parameters
    ----------
    target : BatchTarget
    """

    anchor = None
    #: Scales have no moves of their own.
    rescaling_acceptance_probability = np.nan

    def __init__(self, target: BatchTarget) -> None:
        self.target = target
        d = len(target.geometry.centre)
        self.state = BatchState(np.zeros(d), np.zeros(d))
        self.key: Key = ()
        self.n_bright = 0
        self.next = 0  # number of proposals weighed so far
        self.started = False
        self._queries = self._not_finite = 0
        self._n_batches = 1
        self._waiting: deque[tuple[range, Callable[[], Weights]]] = deque()
        self._now: tuple[range, Weights, np.ndarray] | None = None

    def start(self, rng: np.random.Generator, v: np.ndarray) -> float:
        """Begin at standardised coordinates v, with fresh brightness; return the log weight."""
        self.key = tuple(int(n) for n in rng.integers(0, 2**63, 2))
        self.next = 0
        self.started = False  # until the end: the model's graph may raise
        self._waiting.clear()
        self._now = None
        log_weight, bright, _ = self.target.weigh(self.key, v[None])
        self.state = BatchState(v, self.target.geometry.unstandardise(v), float(log_weight[0]))
        self.n_bright = int(bright[0])
        self._queries += self.n_bright
        self.started = True
        return self.state.log_weight

    def start_at(self, rng: np.random.Generator, theta: np.ndarray) -> float:
        """As `start`, from unconstrained parameters.

        Raises
        ------
        RuntimeError
            If the chain has started: another step has moved it.
        """
        if self.started:
            raise RuntimeError(
                "Firefly: another step method moves variables that this one samples from rows out "
                "of core, and knows of those rows only what the model has of them; leave these "
                "variables to this step"
            )
        log_weight = self.start(rng, self.target.geometry.standardise(theta))
        self.state.theta[:] = theta  # to the last bit: v is theta's up to rounding
        return log_weight

    def start_dispersed(self, rng: np.random.Generator) -> bool:
        """As `start`, from a point drawn around the anchor; see `FireflyChain`."""
        raised: Exception | None = None
        spread = OVERDISPERSION  # less with each attempt
        for _ in range(50):
            v = spread * rng.standard_normal(len(self.state.v))
            try:
                self.target.proposer.at(v[None])
            except Exception as error:  # of a user's own type
                raised = error
            else:
                # Errors of the start are not caught: rows that cannot be read do not depend on the
                # point, and would be waited for again at each.
                if np.isfinite(self.start(rng, v)):
                    return True
            spread *= 0.8
        if raised is not None:
            raise raised
        return False

    def set_others(self, others: np.ndarray) -> None:
        """There are no variables of other step methods."""

    def advance(self, rng: np.random.Generator, n: int, gain: float) -> float:
        """Look at the next n proposals; return the mean acceptance probability."""
        total = 0.0
        for _ in range(n):
            batch, place = 1 + self.next // BATCH, self.next % BATCH
            batches, (log_weight, bright, not_finite), exponential = self._superbatch(batch)
            at = (batch - batches.start) * BATCH + place
            self._not_finite += int(not_finite[at])
            log_ratio = log_weight[at] - self.state.log_weight
            self._queries += int(bright[at])
            if -exponential[at] < log_ratio:
                made = self.target.proposer.batch(self.key, batch)
                self.state = BatchState(
                    made.v[place].copy(), made.theta[place].copy(), float(log_weight[at])
                )
                self.n_bright = int(bright[at])
            total += float(np.exp(min(0.0, log_ratio)))
            self.next += 1
        return total / n

    def _superbatch(self, batch: int) -> tuple[range, Weights, np.ndarray]:
        """Return the superbatch that contains a batch; the following ones are begun."""
        if self._now is not None and batch in self._now[0]:
            return self._now
        last = batch
        if self._waiting:
            last = self._waiting[-1][0].stop
        while len(self._waiting) < self.target.source.in_flight:
            batches = range(last, last + self._n_batches)
            self._waiting.append((batches, self.target.begin(self.key, batches)))
            last = batches.stop
        batches, wait = self._waiting[0]
        began = time.perf_counter()
        weighed = wait()
        self._waiting.popleft()  # not before: the model's graph may have raised
        # The time decides only how many batches are weighed together.
        if time.perf_counter() - began < 0.5 * SECONDS:
            self._n_batches = min(2 * self._n_batches, MOST_BATCHES)
        elif self._n_batches > 1:
            self._n_batches //= 2
        draws = [stream(self.key, each, ACCEPT).standard_exponential(BATCH) for each in batches]
        self._now = batches, weighed, np.concatenate(draws)
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
        """Return zero: where a bound is violated an error is raised at once."""
        return 0

    def save(self) -> dict[str, Any]:
        """Copy of all that the next transition depends on."""
        return {name: copy.deepcopy(getattr(self, name)) for name in (*SAVED, "anchor")}

    def restore(self, saved: dict[str, Any]) -> None:
        """Return to a saved state."""
        for name in SAVED:
            setattr(self, name, copy.deepcopy(saved[name]))
        self._queries = self._not_finite = 0
        self._waiting.clear()
        self._now = None
