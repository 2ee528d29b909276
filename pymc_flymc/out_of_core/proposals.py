"""Independent proposals by batches: the same parameters from the same numbers, on any machine."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from pymc_flymc.graphs.compilation import compile_density
from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.out_of_core.batch_kernels import densities
from pymc_flymc.reading.flat import DensityGraph
from pymc_flymc.target.collapsed_density import collapsed_density
from pymc_flymc.target.target import TargetPart

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
