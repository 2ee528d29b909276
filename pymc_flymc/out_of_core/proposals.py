"""Independent proposals by batches, the same on any machine, and their native kernels."""

from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import numpy as np
from numba import types
from scipy.special import gammaln

from pymc_flymc.compat.numba import generator_at, view
from pymc_flymc.graphs.compilation import compile_density
from pymc_flymc.kernels.factors import Scratch, log_factors
from pymc_flymc.kernels.fresh_brightness import log_weight_of_z, sort
from pymc_flymc.kernels.geometry import Geometry, unstandardise
from pymc_flymc.kernels.layout import POWERS
from pymc_flymc.kernels.native import (
    GENERATOR,
    call_density,
    kernel_part,
    lazy_kernel,
    matrix,
    record_type,
    unwritten,
    vector,
)
from pymc_flymc.kernels.rows import Rows
from pymc_flymc.reading.flat import DensityGraph
from pymc_flymc.target.collapsed_density import collapsed_density
from pymc_flymc.target.target import TargetPart

#: Rows whose rates are added up together. Within a group a row is found by adding up rates again.
#: This takes 4 bytes per row, where an alias table takes twelve.
GROUP = 256
#: The rows of a partition are visited one by one if there are no more than this.
FEW = 16


class RateTables(NamedTuple):
    """Bounds on the remainders of a partition's rows, from which brightness is drawn.

    Attributes
    ----------
    near, beyond : ndarray, shape (n,), float32
        Multipliers of the two powers of the radius. The bounds are exactly these float32 numbers.
    near_sums, beyond_sums : ndarray, shape (ceil(n / GROUP) + 1,), float64
        Their cumulative sums at the beginnings of groups, and at the end.
    """

    near: Annotated[np.ndarray, unwritten(types.float32)]
    beyond: Annotated[np.ndarray, unwritten(types.float32)]
    near_sums: Annotated[np.ndarray, unwritten()]
    beyond_sums: Annotated[np.ndarray, unwritten()]


def make_tables(near: np.ndarray, beyond: np.ndarray) -> RateTables:
    """Return the tables of a partition, from rates in float32, shape (n,)."""
    frozen = [np.ascontiguousarray(each) for each in (near, beyond)]
    frozen += [_sums(each) for each in frozen]
    for each in frozen:
        each.flags.writeable = False
    return RateTables(*frozen)


def _sums(rates: np.ndarray) -> np.ndarray:
    starts = np.arange(0, len(rates), GROUP)
    sums = np.add.reduceat(rates, starts, dtype=np.float64) if len(rates) else np.empty(0)
    return np.concatenate([[0.0], np.cumsum(sums)])


@lazy_kernel(
    types.void(types.int64, vector(), record_type(Geometry), matrix, matrix, matrix, vector())
)
def densities(density, statistics, geometry, v, theta, w, out):
    """Write theta, w with what rows share, and the log density with the bounds, for each v."""
    for k in range(v.shape[0]):
        unstandardise(geometry, v[k], theta[k])
        out[k] = call_density(density, theta[k], statistics, w[k])


@kernel_part
def find_row(rates, sums, place):
    """Return the row whose interval of the cumulative rates contains a place."""
    low, high = 0, sums.shape[0] - 1
    total = sums[high]
    while high - low > 1:
        middle = (low + high) // 2
        # By rounding, the place may be the total: groups of zero rates may come after it.
        if sums[middle] <= place and sums[middle] < total:
            low = middle
        else:
            high = middle
    left = place - sums[low]
    last = low * GROUP
    for n in range(low * GROUP, min((low + 1) * GROUP, rates.shape[0])):
        if rates[n] > 0.0:
            last = n
            left -= rates[n]
            if left < 0.0:
                return n
    return last  # by rounding, the place may be beyond the last row


@kernel_part
def draw_by_sums(rng, rates, sums, power, drawn, first, count):
    """Add rows drawn in proportion to their rates, Poisson-many, to those in drawn[first:count].

    Returns their end. They are distinct and in order.
    """
    total = sums[sums.shape[0] - 1]
    n_drawn, n_wanted = 0, rng.poisson(total * power)
    while n_drawn < n_wanted:
        # Duplicates are removed in between, so that the array has room for all draws.
        room = min(n_wanted - n_drawn, rates.shape[0] - (count - first))
        if room == 0:  # all rows are bright already
            break
        for _i in range(room):
            drawn[count] = find_row(rates, sums, rng.random() * total)
            count += 1
        n_drawn += room
        sort(drawn, first, count)
        kept = first
        for i in range(first, count):
            if i == first or drawn[i] != drawn[kept - 1]:
                drawn[kept] = drawn[i]
                kept += 1
        count = kept
    return count


@lazy_kernel(
    types.int64(
        GENERATOR,
        record_type(RateTables),
        types.Array(types.float64, 2, "A"),
        types.int64,
        vector(types.int64),
        vector(types.int32),
    )
)
def draw_rows(rng, tables, shared, start, ends, drawn):
    """Draw the bright rows of proposals from `start` on: each with probability 1 - exp(-o_n).

    They are the rows drawn at least once, as in `fresh_brightness.draw_bright`. Those of
    proposal k end at ends[k] in `drawn`. Returns the first proposal that `drawn` has no room
    for; its length is twice the number of rows at least.

    Parameters
    ----------
    shared : ndarray, shape (K, 2)
        The `POWERS` of each proposal.
    """
    rng, tables = generator_at(rng), view(tables)
    n_rows, count = tables.near.shape[0], 0
    last = tables.near_sums.shape[0] - 1
    for k in range(start, shared.shape[0]):
        if drawn.shape[0] - count < n_rows:
            return k
        near, beyond = shared[k, POWERS.near], shared[k, POWERS.beyond]
        total = tables.near_sums[last] * near
        if beyond > 0.0:
            total += tables.beyond_sums[last] * beyond
        if not np.isfinite(near + beyond):  # never accepted, see `Proposer.at`
            ends[k] = count
            continue
        if n_rows <= FEW or not total <= n_rows / 8.0:
            for n in range(n_rows):
                rate = tables.near[n] * near + tables.beyond[n] * beyond
                # At the anchor infinity times zero is NaN: the row is kept bright.
                if rate != rate or rng.random() < -np.expm1(-rate):
                    drawn[count] = n
                    count += 1
            ends[k] = count
            continue
        first = count
        count = draw_by_sums(rng, tables.near, tables.near_sums, near, drawn, first, count)
        if beyond > 0.0:
            rates, sums = tables.beyond, tables.beyond_sums
            count = draw_by_sums(rng, rates, sums, beyond, drawn, first, count)
        ends[k] = count
    return shared.shape[0]


@lazy_kernel(
    types.void(
        types.int64,
        record_type(Rows, np.dtype(np.float64)),
        matrix,
        types.int64,
        types.int64,
        vector(types.int64),
        vector(types.int32),
        record_type(Scratch),
        vector(),
        vector(),
    )
)
def weigh(log_factor, rows, w, start, stop, ends, index, scratch, buffer, out):
    """Write the log of the bright rows' factors over their chances for proposals start to stop.

    Parameters
    ----------
    rows : Rows
        Of all proposals, with constants as of a Taylor bound.
    w : ndarray, shape (K, P + S)
        Coefficients, and what rows share.
    ends, index : ndarray
        Proposal k has the rows ``index[ends[k - 1]:ends[k]]``, from zero for the first.
    buffer : ndarray
        Of floats, as long as `index`.
    out : ndarray, shape (K,)
    """
    rows, scratch = view(rows), view(scratch)
    first = 0
    for k in range(start, stop):
        last = ends[k]
        if last > first:
            size = last - first
            part, factors = index[first:last], buffer[first:last]
            log_factors(rows, log_factor, w[k], part, 0, size, factors, scratch)
            out[k] = log_weight_of_z(rows, w[k], part, factors, size)
        first = last


#: Proposals that are made from the same random numbers: a superbatch has some batches.
BATCH = 1024
#: Share of the proposals that come from a t distribution, and its degrees of freedom. Without it a
#: chain is stuck where the posterior's tails are heavier than the Laplace approximation's.
DEFENSIVE, FREEDOM = 0.05, 5.0
#: Batches whose proposals are kept.
MOST_MADE = 64
#: Streams of random numbers of a batch; partitions have those behind.
THETA, ACCEPT, FIRST_PARTITION = 0, 1, 2

#: What a chain's random numbers are made from.
Key = tuple[int, ...]


def stream(key: Key, batch: int, *part: int) -> np.random.Generator:
    """Return the random numbers of a part of a batch, the same everywhere."""
    seed = np.random.SeedSequence(key, spawn_key=(batch, *part))
    return np.random.Generator(np.random.PCG64(seed))


def draw_v(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Draw proposals in standardised coordinates, shape (n, d)."""
    v = rng.standard_normal((n, d))
    wide = rng.random(n) < DEFENSIVE
    scale = np.sqrt(FREEDOM / rng.chisquare(FREEDOM, n))
    return v * np.where(wide, scale, 1.0)[:, None]


def log_proposal_density(v: np.ndarray) -> np.ndarray:
    """Return the log density of `draw_v`, shape (n,)."""
    d, square = v.shape[1], np.sum(v**2, axis=1)
    normal = -0.5 * (square + d * np.log(2.0 * np.pi))
    nu = FREEDOM
    wide = gammaln(0.5 * (nu + d)) - gammaln(0.5 * nu) - 0.5 * d * np.log(nu * np.pi)
    wide = wide - 0.5 * (nu + d) * np.log1p(square / nu)
    return np.logaddexp(np.log1p(-DEFENSIVE) + normal, np.log(DEFENSIVE) + wide)


class Proposals(NamedTuple):
    """Parameters of K proposals, and the part of their weights that needs no row.

    Attributes
    ----------
    v, theta : ndarray, shape (K, D)
        In standardised coordinates, and unconstrained.
    w : ndarray, shape (K, P + S)
        Coefficients, and what rows share; of several likelihoods one after the other.
    log_weight : ndarray, shape (K,)
        Log of prior and expansion over the density of the proposals.
    """

    v: np.ndarray
    theta: np.ndarray
    w: np.ndarray
    log_weight: np.ndarray


@dataclass(eq=False)
class Proposer:
    """Makes proposals; it is sent to where the rows are.

    Attributes
    ----------
    graph : DensityGraph
    parts : tuple of TargetPart
        Likelihoods and their bounds.
    geometry : Geometry
        Standardised coordinates.
    """

    graph: DensityGraph
    parts: tuple[TargetPart, ...]
    geometry: Geometry
    _made: dict[Any, Proposals] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        bounds = [(part.bound, part.likelihood, len(part.statistics)) for part in self.parts]
        # Without the remainder, which fresh brightness cancels.
        self._density = compile_density(collapsed_density(self.graph, bounds, 0))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle graphs only: other processes compile them again."""
        return Proposer, (self.graph, self.parts, self.geometry)

    def place_of(self, number: int) -> slice:
        """Where a likelihood's coefficients are in w, with what its rows share behind them."""
        pairs = zip(self.graph.sizes, self.parts, strict=True)
        sizes = [n + part.bound.n_shared for n, part in pairs]
        return slice(sum(sizes[:number]), sum(sizes[: number + 1]))

    def batch(self, key: Key, number: int) -> Proposals:
        """Make the proposals of a batch, once for all partitions."""
        made = self._made.get((key, number))
        if made is None:
            d = len(self.geometry.centre)
            made = self.at(draw_v(stream(key, number, THETA), BATCH, d))
            # Several threads call this. Clearing is safe: each holds its own reference.
            if len(self._made) > MOST_MADE:
                self._made.clear()
            self._made[key, number] = made
        return made

    def at(self, v: np.ndarray) -> Proposals:
        """Return proposals at given standardised coordinates, shape (K, D)."""
        k = len(v)
        theta, log_density = np.empty_like(v), np.empty(k)
        w = np.empty((k, self.place_of(len(self.parts) - 1).stop))
        statistics = np.concatenate([part.statistics for part in self.parts])
        address = self._density.address
        densities(address, statistics, self.geometry, v, theta, w, log_density)
        # Without powers of the radius no row would be drawn as bright. The weight is not known.
        log_density[(log_density > -np.inf) & ~np.isfinite(w).all(axis=1)] = np.nan
        return Proposals(v, theta, w, log_density - log_proposal_density(v))
