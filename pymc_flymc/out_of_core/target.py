"""Proposals of (theta, z) a thousand at a time, weighed where the rows lie.

From (key, unit) everybody makes the same thetas, from (key, unit, partition) the brightness of a
partition's rows: what is lost can be computed again to the last bit, by whomever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from pymc_flymc.bounds import Problem, Taylor, row_factor
from pymc_flymc.graphs.compilation import compile_density, compile_log_factor
from pymc_flymc.kernels.factors import make_scratch
from pymc_flymc.kernels.generators import address_of_generator
from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.kernels.native import read_only
from pymc_flymc.out_of_core.design_builder import DesignBuilder
from pymc_flymc.out_of_core.kernels import (
    RateTables,
    densities_kernel,
    draw_rows_kernel,
    weigh_kernel,
)
from pymc_flymc.out_of_core.rates import Rates, prepare_elsewhere, row_constants
from pymc_flymc.out_of_core.source import CHUNK, Partition, RowSource
from pymc_flymc.out_of_core.stored_rows import SourceRows, read_rows
from pymc_flymc.reading.flat import DensityGraph
from pymc_flymc.reporting import COMPILING_KERNELS, doing
from pymc_flymc.target.data import make_rows
from pymc_flymc.target.density import collapsed_density
from pymc_flymc.target.target import TargetPart
from pymc_flymc.target.validation import check_constants, describe_violation

__all__ = [
    "UNIT",
    "BlockTarget",
    "Key",
    "Proposals",
    "Weighed",
    "Weights",
    "build_block_target",
    "stream",
]

#: Proposals that are made from the same random numbers: a round has some units.
UNIT = 1024
#: Share of the proposals that come from a t law of so many degrees of freedom, lest the chain be
#: stuck where the posterior's tails are heavier than the Laplace approximation's.
DEFENSIVE, FREEDOM = 0.05, 5.0
#: Bright rows of a partition that are weighed at a time, at least.
ENOUGH = 1 << 20
#: Units whose proposals are kept.
MOST_MADE = 64
#: Streams of random numbers of a unit; partitions have those behind.
THETA, ACCEPT, FIRST_PARTITION = 0, 1, 2

#: What a chain's random numbers are made from.
Key = tuple[int, ...]


def stream(key: Key, unit: int, part: int) -> np.random.Generator:
    """Return the random numbers of a part of a unit, the same everywhere."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(key, spawn_key=(unit, part))))


def draw_v(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Draw whitened parameters of proposals, shape (n, d)."""
    v = rng.standard_normal((n, d))
    wide = rng.random(n) < DEFENSIVE
    scale = np.sqrt(FREEDOM / rng.chisquare(FREEDOM, n))
    return v * np.where(wide, scale, 1.0)[:, None]


def log_law(v: np.ndarray) -> np.ndarray:
    """Return the log density of `draw_v`, shape (n,)."""
    d, square = v.shape[1], np.sum(v**2, axis=1)
    normal = -0.5 * (square + d * np.log(2.0 * np.pi))
    nu = FREEDOM
    wide = gammaln(0.5 * (nu + d)) - gammaln(0.5 * nu) - 0.5 * d * np.log(nu * np.pi)
    wide = wide - 0.5 * (nu + d) * np.log1p(square / nu)
    return np.logaddexp(np.log1p(-DEFENSIVE) + normal, np.log(DEFENSIVE) + wide)


class Proposals(NamedTuple):
    """Parameters of K proposals, and what of their weights takes no row.

    Attributes
    ----------
    v, theta : ndarray, shape (K, D)
    w : ndarray, shape (K, P + S)
        Coefficients, and what rows share.
    log_weight : ndarray, shape (K,)
        Log of prior and expansion over the law of the proposals.
    """

    v: np.ndarray
    theta: np.ndarray
    w: np.ndarray
    log_weight: np.ndarray


class Weighed(NamedTuple):
    """Weights of a round's proposals.

    Attributes
    ----------
    log_weight : ndarray, shape (K,)
    n_bright : ndarray, shape (K,), int64
        Bright rows.
    not_finite : ndarray, shape (K,), bool
        Whether a log weight was NaN or positive infinity, and is taken as -inf.
    """

    log_weight: np.ndarray
    n_bright: np.ndarray
    not_finite: np.ndarray


class Weights(NamedTuple):
    """What a partition adds to the weights of a round's proposals, of those that read its rows.

    Attributes
    ----------
    places : ndarray, shape (M,), int32
        Proposals that have bright rows there.
    log_factor : ndarray, shape (M,)
    n_bright : ndarray, shape (M,), int32
        Number of these rows.
    """

    places: np.ndarray
    log_factor: np.ndarray
    n_bright: np.ndarray


@dataclass
class Proposer:
    """Makes and weighs proposals; it travels to where the rows are."""

    graph: DensityGraph
    part: TargetPart
    geometry: Geometry
    rates: Rates
    builder: DesignBuilder
    _made: dict[Any, Proposals] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        bounds = [(self.part.bound, self.part.likelihood, len(self.part.statistics))]
        # Without the remainder, which fresh brightness cancels.
        self._density = compile_density(collapsed_density(self.graph, bounds, 0, False))

    def __getstate__(self) -> dict[str, Any]:
        """Graphs travel to other processes, machine code does not."""
        return {k: v for k, v in self.__dict__.items() if k not in ("_density", "_made")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _made={})
        self.__post_init__()

    def proposals(self, key: Key, unit: int) -> Proposals:
        """Make the proposals of a unit, once for all partitions."""
        made = self._made.get((key, unit))
        if made is None:
            d = len(self.geometry.centre)
            made = self.at(draw_v(stream(key, unit, THETA), UNIT, d))
            # Several threads ask: what one forgets here, another one has in hand.
            if len(self._made) > MOST_MADE:
                self._made.clear()
            self._made[key, unit] = made
        return made

    def at(self, v: np.ndarray) -> Proposals:
        """Return proposals of given whitened parameters, shape (K, D)."""
        k = len(v)
        theta, log_density = np.empty_like(v), np.empty(k)
        w = np.empty((k, self.graph.n_coefficients + self.part.n_shared))
        statistics, address = self.part.statistics, self._density.address
        densities_kernel()(address, statistics, self.geometry, v, theta, w, log_density)
        return Proposals(v, theta, w, log_density - log_law(v))

    def weigh(
        self, partition: Partition, tables: RateTables, units: Sequence[tuple[Any, Proposals]]
    ) -> Weights:
        """Draw the brightness of a partition's rows for proposals, and weigh them.

        Parameters
        ----------
        units : sequence of (Generator, Proposals)
        """
        # What came over a network may lie between bytes.
        tables = RateTables(*(read_only(np.require(each, None, ["C", "A"])) for each in tables))
        w = np.concatenate([each.w for _, each in units])
        log_factor, count = np.zeros(len(w)), np.zeros(len(w), np.int32)
        drawn = np.empty(2 * max(1, partition.n_rows), np.int32)
        waiting: list[tuple[np.ndarray, np.ndarray]] = []
        place = held = 0
        for rng, proposals in units:
            address, start = address_of_generator(rng), 0
            shared = proposals.w[:, self.graph.n_coefficients :]
            ends = np.zeros(len(shared), np.int64)
            while start < len(shared):
                stop = draw_rows_kernel()(address, tables, shared, start, ends, drawn)
                rows = drawn[: ends[stop - 1]].copy()
                counts = np.diff(ends[start:stop], prepend=0)
                waiting.append((np.repeat(np.arange(place + start, place + stop), counts), rows))
                count[place + start : place + stop] = counts
                held, start = held + len(rows), stop
                if held > ENOUGH:
                    self._read(partition, tables, w, waiting, log_factor)
                    waiting, held = [], 0
            place += len(shared)
        if held:
            self._read(partition, tables, w, waiting, log_factor)
        index = np.flatnonzero(count).astype(np.int32)
        return Weights(index, log_factor[index], count[index])

    def _read(
        self,
        partition: Partition,
        tables: RateTables,
        w: np.ndarray,
        waiting: Sequence[tuple[np.ndarray, np.ndarray]],
        log_factor: np.ndarray,
    ) -> None:
        """Read the bright rows of many proposals, each once and in their order; add factors."""
        which, rows = (np.concatenate(each) for each in zip(*waiting, strict=True))
        distinct = np.unique(rows)
        for first in range(0, len(distinct), CHUNK):
            some = distinct[first : first + CHUNK]
            here = slice(None)
            if len(some) < len(distinct):
                here = (rows >= some[0]) & (rows <= some[-1])
            index = np.searchsorted(some, rows[here]).astype(np.int32)
            design, y = read_rows(self.builder, partition, some)
            constants = row_constants(tables, some, design.predictor(self.rates.w), y)
            check_constants(self.part.bound, self.part.likelihood, constants, len(some))
            native = make_rows(design, constants)
            native = native._replace(X=read_only(native.X.astype(np.float64, copy=False)))
            ends = np.cumsum(np.bincount(which[here], minlength=len(w)))
            out, buffer = np.zeros(len(w)), np.empty(len(index))
            scratch = make_scratch(design.n_predictors, constants.shape[1])
            address = self.part.log_factor.address
            weigh_kernel()(address, native, w, 0, len(w), ends, index, scratch, buffer, out)
            if scratch.violations[0]:
                row = partition.first + int(some[scratch.violated[0]])
                raise RuntimeError(describe_violation(self.part.bound, self.part.likelihood, row))
            log_factor += out


def weigh_round(
    partition: Partition, tables: RateTables, proposer: Proposer, key: Key, units: range
) -> Weights:
    """Weigh the proposals of some units by a partition's rows."""
    part = FIRST_PARTITION + partition.number
    made = [(stream(key, unit, part), proposer.proposals(key, unit)) for unit in units]
    return proposer.weigh(partition, tables, made)


def weigh_given(
    partition: Partition, tables: RateTables, proposer: Proposer, key: Key, v: np.ndarray
) -> Weights:
    """Weigh proposals of given parameters, shape (K, D): those with which a chain begins."""
    rng = stream(key, 0, FIRST_PARTITION + partition.number)
    return proposer.weigh(partition, tables, [(rng, proposer.at(v))])


@dataclass
class BlockTarget:
    """A posterior whose rows lie elsewhere, ready for rounds of independent proposals.

    Attributes
    ----------
    source : RowSource
    tables : list
        References to the tables of each partition.
    proposer : Proposer
    """

    source: RowSource
    tables: list[Any]
    proposer: Proposer

    @property
    def geometry(self) -> Geometry:
        """Whitened coordinates of the proposals."""
        return self.proposer.geometry

    @property
    def parts(self) -> tuple[TargetPart, ...]:
        """The likelihood and its bound."""
        return (self.proposer.part,)

    def begin_round(self, key: Key, units: range) -> Callable[[], Weighed]:
        """Begin to weigh some units; the result is their weights, once they are there."""
        wait = self.source.start(weigh_round, self.tables, self.proposer, key, units)

        def result() -> Weighed:
            made = [self.proposer.proposals(key, unit).log_weight for unit in units]
            return _total(np.concatenate(made), wait())

        return result

    def weigh(self, key: Key, v: np.ndarray) -> Weighed:
        """Return weights at given parameters, shape (K, D)."""
        wait = self.source.start(weigh_given, self.tables, self.proposer, key, v)
        return _total(self.proposer.at(v).log_weight, wait())


def _total(log_weight: np.ndarray, parts: Sequence[Weights]) -> Weighed:
    """Add up what partitions say of proposals, in their order."""
    total, count = log_weight.copy(), np.zeros(len(log_weight), np.int64)
    for part in parts:
        total[part.places] += part.log_factor
        count[part.places] += part.n_bright
    # An infinite weight would be accepted, and never left again.
    not_finite = ~(total < np.inf)
    total[not_finite] = -np.inf
    return Weighed(total, count, not_finite)


@doing("preparing tables of all rows")
def build_block_target(graph: DensityGraph, problem: Problem, bound: Taylor) -> BlockTarget:
    """Prepare all partitions, in one pass over the rows."""
    stored = problem.design.stored
    assert isinstance(stored, SourceRows)
    rates, tables, statistics, expected = prepare_elsewhere(problem, bound)
    with doing(COMPILING_KERNELS):
        log_factor = compile_log_factor(row_factor(problem.likelihood, bound))
        part = TargetPart(problem.likelihood, bound, statistics, expected, log_factor)
        proposer = Proposer(graph, part, problem.anchor.geometry, rates, stored.builder)
    return BlockTarget(stored.source, tables, proposer)
