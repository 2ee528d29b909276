"""Weights of proposals of (theta, z), a thousand and more at a time, where the rows are stored.

From (key, batch) everybody makes the same thetas, from (key, batch, partition) the brightness of a
partition's rows: what is lost can be computed again to the last bit, by whomever.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pymc_flymc.bounds import Bound, Problem, Taylor, row_factor
from pymc_flymc.graphs.compilation import compile_log_factor
from pymc_flymc.kernels.factors import make_scratch
from pymc_flymc.kernels.generators import address_of_generator
from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.kernels.records import read_only
from pymc_flymc.out_of_core.design_builder import DesignBuilder
from pymc_flymc.out_of_core.kernels import RateTables, draw_rows_kernel, weigh_kernel
from pymc_flymc.out_of_core.proposals import FIRST_PARTITION, Key, Proposals, Proposer, stream
from pymc_flymc.out_of_core.rates import Rates, exact_statistics, prepare_rates, row_constants
from pymc_flymc.out_of_core.source import CHUNK, Partition, RowSource
from pymc_flymc.out_of_core.stored_rows import SourceRows, read_rows
from pymc_flymc.reading.flat import DensityGraph
from pymc_flymc.reporting import COMPILING_KERNELS, PATIENCE, doing, log
from pymc_flymc.target.data import make_rows
from pymc_flymc.target.target import TargetPart
from pymc_flymc.target.validation import check_constants, describe_violation

__all__ = ["BatchTarget", "Weights", "build_target"]

#: Bright rows of a partition that are weighed at a time, at least.
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
    """Weighs proposals by the rows of a partition; it travels to where these are.

    Attributes
    ----------
    proposer : Proposer
    rates : Rates
    builder : DesignBuilder
    """

    proposer: Proposer
    rates: Rates
    builder: DesignBuilder

    def weigh_batches(
        self, partition: Partition, tables: RateTables, key: Key, batches: range
    ) -> PartialWeights:
        """Weigh the proposals of some batches."""
        part = FIRST_PARTITION + partition.number
        made = [(stream(key, each, part), self.proposer.batch(key, each)) for each in batches]
        return self._weigh(partition, tables, made)

    def weigh_start(
        self, partition: Partition, tables: RateTables, key: Key, v: np.ndarray
    ) -> PartialWeights:
        """Weigh parameters with which a chain begins, shape (K, D)."""
        rng = stream(key, 0, FIRST_PARTITION + partition.number)
        return self._weigh(partition, tables, [(rng, self.proposer.at(v))])

    def _weigh(
        self,
        partition: Partition,
        tables: RateTables,
        batches: Sequence[tuple[np.random.Generator, Proposals]],
    ) -> PartialWeights:
        """Draw the brightness of a partition's rows for proposals, and weigh them."""
        # What came over a network may lie between bytes.
        tables = RateTables(*(read_only(np.require(each, None, ["C", "A"])) for each in tables))
        w = np.concatenate([proposals.w for _, proposals in batches])
        log_factor, count = np.zeros(len(w)), np.zeros(len(w), np.int32)
        drawn = np.empty(2 * max(1, partition.n_rows), np.int32)
        waiting: list[tuple[np.ndarray, np.ndarray]] = []
        place = held = 0
        for rng, proposals in batches:
            address, start = address_of_generator(rng), 0
            shared = proposals.w[:, self.proposer.graph.n_coefficients :]
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
        return PartialWeights(index, log_factor[index], count[index])

    def _read(
        self,
        partition: Partition,
        tables: RateTables,
        w: np.ndarray,
        waiting: Sequence[tuple[np.ndarray, np.ndarray]],
        log_factor: np.ndarray,
    ) -> None:
        """Read the bright rows of many proposals, each once and in their order; add factors."""
        part = self.proposer.part
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
            check_constants(part.bound, part.likelihood, constants, len(some))
            native = make_rows(design, constants, part.bound)
            native = native._replace(X=read_only(native.X.astype(np.float64, copy=False)))
            ends = np.cumsum(np.bincount(which[here], minlength=len(w)))
            out, buffer = np.zeros(len(w)), np.empty(len(index))
            scratch = make_scratch(design.n_predictors, constants.shape[1])
            address = part.log_factor.address
            weigh_kernel()(address, native, w, 0, len(w), ends, index, scratch, buffer, out)
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
    tables : list
        References to the tables of each partition.
    proposer : Proposer
    weigher : Weigher or None
        None where the bound is the likelihood: then no row is ever bright.
    """

    source: RowSource
    tables: list[Any]
    proposer: Proposer
    weigher: Weigher | None

    @property
    def geometry(self) -> Geometry:
        """Standardised coordinates of the proposals."""
        return self.proposer.geometry

    @property
    def parts(self) -> tuple[TargetPart, ...]:
        """The likelihood and its bound."""
        return (self.proposer.part,)

    def begin(self, key: Key, batches: range) -> Callable[[], Weights]:
        """Begin to weigh some batches; the result waits for their weights."""
        wait: Callable[[], list[PartialWeights]] = list
        if self.weigher is not None:
            wait = self.source.start(self.weigher.weigh_batches, self.tables, key, batches)

        def result() -> Weights:
            made = [self.proposer.batch(key, each).log_weight for each in batches]
            return _total(np.concatenate(made), wait())

        return result

    def weigh(self, key: Key, v: np.ndarray) -> Weights:
        """Return weights at given parameters, shape (K, D)."""
        log_weight = self.proposer.at(v).log_weight
        if self.weigher is None:
            return _total(log_weight, [])
        wait = self.source.start(self.weigher.weigh_start, self.tables, key, v)
        return _total(log_weight, wait())


def _total(log_weight: np.ndarray, parts: Sequence[PartialWeights]) -> Weights:
    """Add up what partitions contribute, in their order."""
    total, count = log_weight.copy(), np.zeros(len(log_weight), np.int64)
    for part in parts:
        total[part.places] += part.log_factor
        count[part.places] += part.n_bright
    # An infinite weight would be accepted, and never left again.
    not_finite = ~(total < np.inf)
    total[not_finite] = -np.inf
    return Weights(total, count, not_finite)


@doing("preparing tables of all rows")
def build_target(graph: DensityGraph, problem: Problem, bound: Bound) -> BatchTarget:
    """Prepare all partitions, in one pass over the rows."""
    stored = problem.design.stored
    assert isinstance(stored, SourceRows)
    began, source = time.perf_counter(), stored.source
    rates: Rates | None = None
    tables: list[Any] = []
    if isinstance(bound, Taylor):
        rates, tables, statistics, expected = prepare_rates(problem, bound)
    else:
        statistics, expected = exact_statistics(problem), 0.0
    seconds = time.perf_counter() - began
    if seconds > PATIENCE:
        log.info(
            f"read and bounded {source.n_rows / seconds:,.0f} rows a second, "
            f"{1e-6 * source.n_rows * source.row_bytes / seconds:,.0f} MB a second"
        )
    with doing(COMPILING_KERNELS):
        log_factor = compile_log_factor(row_factor(problem.likelihood, bound))
        part = TargetPart(problem.likelihood, bound, statistics, expected, log_factor)
        proposer = Proposer(graph, part, problem.anchor.geometry)
    weigher = None if rates is None else Weigher(proposer, rates, stored.builder)
    return BatchTarget(source, tables, proposer, weigher)
