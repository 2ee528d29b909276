"""Weights of proposals of (theta, z), a thousand and more at a time, where the rows are stored."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pymc_flymc.bounds import Bound, Problem, row_factor
from pymc_flymc.bounds.tangent import pack_sums, sums_of_rows
from pymc_flymc.bounds.taylor import Packed, Radius, Taylor, cubic_form, table_of
from pymc_flymc.graphs.compilation import compile_log_factor
from pymc_flymc.kernels.factors import make_scratch
from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.kernels.native import address_of_generator, read_only
from pymc_flymc.likelihoods.likelihood import Likelihood
from pymc_flymc.likelihoods.weighted import unweighted
from pymc_flymc.out_of_core.design_builder import DesignBuilder
from pymc_flymc.out_of_core.proposals import (
    FIRST_PARTITION,
    Key,
    Proposals,
    Proposer,
    RateTables,
    draw_rows,
    make_tables,
    stream,
    weigh,
)
from pymc_flymc.out_of_core.source import CHUNK, Partition, RowSource
from pymc_flymc.out_of_core.stored_rows import SourceRows, read_rows
from pymc_flymc.reading.flat import DensityGraph
from pymc_flymc.regression.derivatives import RowDerivatives
from pymc_flymc.regression.passes import blocks_of, sum_rows
from pymc_flymc.reporting import COMPILING_KERNELS, PATIENCE, doing, log
from pymc_flymc.target.collapsed_density import check_constants, describe_violation
from pymc_flymc.target.data import make_rows
from pymc_flymc.target.target import TargetPart


@dataclass(frozen=True)
class Rates:
    """All that is needed to bound the remainders of rows.

    Attributes
    ----------
    bound : Taylor
    likelihood : Likelihood
    w : ndarray, shape (P,)
        Coefficients at the anchor.
    radius : Radius
    """

    bound: Taylor
    likelihood: Likelihood
    w: np.ndarray
    radius: Radius


def prepare_rates(problem: Problem, bound: Taylor) -> tuple[Rates, list[Any], np.ndarray, float]:
    """Bound the remainders of all rows, where they are stored, in one pass over them.

    Returns
    -------
    rates : Rates
    tables : list
        References to the `RateTables` of each partition.
    statistics : ndarray
        As of `Taylor.prepare`.
    expected : float
        Expected number of bright rows over the Laplace approximation.
    """
    stored, anchor = problem.design.stored, problem.own
    assert isinstance(stored, SourceRows)
    radius = Radius.of(anchor, problem.design.n_predictors, bound.order + 1)
    rates = Rates(bound, problem.likelihood, anchor.w, radius)
    tables, sums = stored.source.prepare(partial(_bound_partition, stored.builder, rates))
    growth = max(each[1] for each in sums)
    expected = sum(each[0] for each in sums)
    cubic = sum(each[2] for each in sums)
    packed = Packed(radius.ridge, radius.limit, growth, cubic / 6.0)
    statistics = np.concatenate([anchor.expansion.pack(), *packed.ravelled()])
    return rates, tables, statistics, float(expected)


def exact_statistics(problem: Problem) -> np.ndarray:
    """Return the statistics of `Tangent` for normal noise, whose likelihood it is, in one pass."""
    design, w = problem.design, problem.own.w
    sums = sum_rows(design, problem.y, w, partial(_exact_sums, problem.likelihood))
    return pack_sums(problem, sums)


def _exact_sums(
    likelihood: Likelihood, rows: slice, x: Any, arguments: np.ndarray, y: np.ndarray
) -> tuple[Any, ...]:
    eta, *nuisances = arguments
    family: Any = unweighted(likelihood)
    tightness = family.tangent(np.zeros(len(eta)), nuisances)
    return sums_of_rows(likelihood, x, eta, y, tightness, np.zeros(len(eta)))


def _bound_partition(
    builder: DesignBuilder, rates: Rates, partition: Partition
) -> tuple[RateTables, tuple[float, float, Any]]:
    """Return the tables of a partition, its expected rows, growth, cubic form."""
    near, beyond = (np.empty(partition.n_rows, np.float32) for _ in range(2))
    third = RowDerivatives(rates.likelihood).third if rates.bound.order == 3 else None
    expected, growth, cubic = 0.0, 0.0, rates.bound.no_cubic(len(rates.w))
    for chunk in partition.chunks():
        design, y = read_rows(builder, partition, chunk)
        for rows, x, eta, of_rows in blocks_of(design, y, rates.w):
            rows_of = eta, x, of_rows, rates.radius
            *both, each = rates.bound.remainders(rates.likelihood, *rows_of)
            place = slice(chunk.start + rows.start, chunk.start + rows.stop)
            near[place], beyond[place] = map(_rounded_up, both)
            expected -= float(np.expm1(-both[0] * rates.radius.moment).sum())
            growth = max(growth, float(each.max(initial=0.0)))
            if third is not None:
                cubic = cubic + cubic_form(x, third(eta, of_rows))
    return make_tables(near, beyond), (expected, growth, cubic)


def _rounded_up(rates: np.ndarray) -> np.ndarray:
    """Return bounds in float32 that are nowhere below those given."""
    narrow = rates.astype(np.float32)
    return np.where(rates > 0.0, np.nextafter(narrow, np.float32(np.inf)), narrow)


#: Bright rows of a partition are collected until there are more than this, and weighed together.
ENOUGH = 1 << 20


class Weights(NamedTuple):
    """Weights of a superbatch's proposals.

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


class PartialWeights(NamedTuple):
    """What a partition contributes to the weights of those proposals that read its rows.

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


@dataclass(eq=False)
class Weigher:
    """Weighs proposals by a likelihood of a partition's rows; it is sent to where these are.

    Attributes
    ----------
    proposer : Proposer
    rates : Rates
    builder : DesignBuilder
    number : int
        Of the likelihood, among those of the proposer.
    """

    proposer: Proposer
    rates: Rates
    builder: DesignBuilder
    number: int

    @property
    def _part(self) -> TargetPart:
        return self.proposer.parts[self.number]

    def weigh_batches(
        self, partition: Partition, tables: RateTables, key: Key, batches: range
    ) -> PartialWeights:
        """Weigh the proposals of some batches."""
        streams = [self._stream(key, each, partition) for each in batches]
        proposals = [self.proposer.batch(key, each) for each in batches]
        return self._weigh(partition, tables, list(zip(streams, proposals, strict=True)))

    def weigh_start(
        self, partition: Partition, tables: RateTables, key: Key, v: np.ndarray
    ) -> PartialWeights:
        """Weigh parameters with which a chain begins, shape (K, D)."""
        rng = self._stream(key, 0, partition)
        return self._weigh(partition, tables, [(rng, self.proposer.at(v))])

    def _stream(self, key: Key, batch: int, partition: Partition) -> np.random.Generator:
        # Each likelihood has its own random numbers: brightness is independent between them.
        further = (self.number,) if self.number else ()
        return stream(key, batch, FIRST_PARTITION + partition.number, *further)

    def _weigh(
        self,
        partition: Partition,
        tables: RateTables,
        batches: Sequence[tuple[np.random.Generator, Proposals]],
    ) -> PartialWeights:
        """Draw the brightness of a partition's rows for proposals, and weigh them."""
        # Arrays that came over a network may be unaligned.
        tables = RateTables(*(read_only(np.require(each, None, ["C", "A"])) for each in tables))
        own, n_shared = self.proposer.place_of(self.number), self._part.bound.n_shared
        w = np.concatenate([proposals.w[:, own] for _, proposals in batches])
        log_factor, count = np.zeros(len(w)), np.zeros(len(w), np.int32)
        drawn = np.empty(2 * max(1, partition.n_rows), np.int32)
        waiting: list[tuple[np.ndarray, np.ndarray]] = []
        place = held = 0
        for rng, proposals in batches:
            address, start = address_of_generator(rng), 0
            shared = proposals.w[:, own.stop - n_shared : own.stop]
            ends = np.zeros(len(shared), np.int64)
            while start < len(shared):
                stop = draw_rows(address, tables, shared, start, ends, drawn)
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
        return PartialWeights(index, log_factor[index], count[index])

    def _read(
        self,
        partition: Partition,
        tables: RateTables,
        w: np.ndarray,
        waiting: Sequence[tuple[np.ndarray, np.ndarray]],
        log_factor: np.ndarray,
    ) -> None:
        """Read the bright rows of many proposals, each once and in order; add their log factors."""
        part = self._part
        which, rows = (np.concatenate(each) for each in zip(*waiting, strict=True))
        distinct = np.unique(rows)
        for first in range(0, len(distinct), CHUNK):
            some = distinct[first : first + CHUNK]
            here = slice(None)
            if len(some) < len(distinct):
                here = (rows >= some[0]) & (rows <= some[-1])
            index = np.searchsorted(some, rows[here]).astype(np.int32)
            design, y = read_rows(self.builder, partition, some)
            eta = design.predictor(self.rates.w)
            constants = table_of(tables.near[some], tables.beyond[some], eta, y)
            check_constants(part.bound, part.likelihood, constants, len(some))
            native = make_rows(design, constants, part.bound)
            native = native._replace(X=read_only(native.X.astype(np.float64, copy=False)))
            ends = np.cumsum(np.bincount(which[here], minlength=len(w)))
            out, buffer = np.zeros(len(w)), np.empty(len(index))
            scratch = make_scratch(design.n_predictors, constants.shape[1])
            address = part.log_factor.address
            weigh(address, native, w, 0, len(w), ends, index, scratch, buffer, out)
            if scratch.violations[0]:
                row = partition.first + int(some[scratch.violated[0]])
                raise RuntimeError(describe_violation(part.bound, part.likelihood, row))
            log_factor += out


@dataclass
class BatchTarget:
    """A posterior whose rows are out of core, ready for batches of independent proposals.

    Attributes
    ----------
    source : RowSource
    proposer : Proposer
    weighers : list of (Weigher, list)
        For each likelihood that is not its own bound, with references to the tables of each
        partition. No row of the other likelihoods is ever bright.
    """

    #: Arrays of rows that no statistics depend on.
    own_rows: ClassVar[tuple[np.ndarray, ...]] = ()

    source: RowSource
    proposer: Proposer
    weighers: list[tuple[Weigher, list[Any]]]

    @property
    def geometry(self) -> Geometry:
        """Standardised coordinates of the proposals."""
        return self.proposer.geometry

    @property
    def parts(self) -> tuple[TargetPart, ...]:
        """The likelihoods and their bounds."""
        return self.proposer.parts

    def density_at_centre(self, others: np.ndarray) -> float:
        """Log prior and expansions at the centre of the geometry, over the proposals' density.

        There are no `others`: variables of other step methods are refused.
        """
        return float(self.proposer.at(np.zeros((1, len(self.geometry.centre)))).log_weight[0])

    def begin(self, key: Key, batches: range) -> Callable[[], Weights]:
        """Begin to weigh some batches; the result waits for their weights."""
        waits = [
            self.source.start(weigher.weigh_batches, tables, key, batches)
            for weigher, tables in self.weighers
        ]

        def result() -> Weights:
            made = [self.proposer.batch(key, each).log_weight for each in batches]
            return _total(np.concatenate(made), [part for wait in waits for part in wait()])

        return result

    def weigh(self, key: Key, v: np.ndarray) -> Weights:
        """Return weights at given parameters, shape (K, D)."""
        waits = [
            self.source.start(weigher.weigh_start, tables, key, v)
            for weigher, tables in self.weighers
        ]
        parts = [part for wait in waits for part in wait()]
        return _total(self.proposer.at(v).log_weight, parts)


def _total(log_weight: np.ndarray, parts: Sequence[PartialWeights]) -> Weights:
    """Add up what partitions contribute, in their order."""
    total, count = log_weight.copy(), np.zeros(len(log_weight), np.int64)
    for part in parts:
        total[part.places] += part.log_factor
        count[part.places] += part.n_bright
    # A chain would accept an infinite weight, and never leave it.
    not_finite = ~(total < np.inf)
    total[not_finite] = -np.inf
    return Weights(total, count, not_finite)


@doing("preparing tables of all rows")
def build_batch_target(
    graph: DensityGraph, problems: Sequence[Problem], bounds: Sequence[Bound]
) -> BatchTarget:
    """Prepare all partitions, in one pass over the rows for each likelihood."""
    parts: list[TargetPart] = []
    prepared: list[tuple[int, Rates, list[Any]]] = []
    for problem, bound in zip(problems, bounds, strict=True):
        source, began = _stored(problem).source, time.perf_counter()
        if isinstance(bound, Taylor):
            rates, tables, statistics, expected = prepare_rates(problem, bound)
            prepared.append((len(parts), rates, tables))
        else:
            statistics, expected = exact_statistics(problem), 0.0
        seconds = time.perf_counter() - began
        if seconds > PATIENCE:
            log.info(
                f"read rows and prepared bounds: {source.n_rows / seconds:,.0f} rows per second, "
                f"{1e-6 * source.n_rows * source.row_bytes / seconds:,.0f} MB per second"
            )
        with doing(COMPILING_KERNELS):
            log_factor = compile_log_factor(row_factor(problem.likelihood, bound))
        parts.append(TargetPart(problem.likelihood, bound, statistics, expected, log_factor))
    with doing(COMPILING_KERNELS):
        proposer = Proposer(graph, tuple(parts), problems[0].anchor.geometry)
    weighers = [
        (Weigher(proposer, rates, _stored(problems[number]).builder, number), tables)
        for number, rates, tables in prepared
    ]
    return BatchTarget(source, proposer, weighers)


def _stored(problem: Problem) -> SourceRows:
    stored = problem.design.stored
    assert isinstance(stored, SourceRows)
    return stored
