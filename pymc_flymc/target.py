"""The augmented density p(theta, z | data), ready for kernels."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pymc_flymc.bounds import Bound, Problem, log_odds
from pymc_flymc.compilation import (
    RowFactor,
    compile_density,
    compile_density_gradient,
    compile_log_factor,
    compile_log_factor_gradient,
    compile_pullback,
)
from pymc_flymc.data import Data, combine_rows, make_rows
from pymc_flymc.density import DensityGraph
from pymc_flymc.kernels import conditional, hamiltonian, joint, slice
from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.kernels.poisson import HEAVY, KAPPA, SPARE, AliasTables, alias_table
from pymc_flymc.kernels.posterior import Posterior
from pymc_flymc.likelihoods import Likelihood, outcome
from pymc_flymc.native import NativeFunction, read_only
from pymc_flymc.resampling import ImplicitResampling, Levels, Resampling

__all__ = ["Target", "TargetPart", "build_target", "row_factor"]

#: How theta is updated: with z, or given z.
KERNELS: dict[str, Any] = {
    "joint": joint,
    "metropolis": conditional,
    "hamiltonian": hamiltonian,
    "slice": slice,
}


@dataclass
class TargetPart:
    """A likelihood and its bound.

    Attributes
    ----------
    likelihood : Likelihood
    bound : Bound or None
    statistics : ndarray, float64
        Packed statistics of the collapsed bound (empty without a bound).
    expected_bright : float
        Bright rows expected over the Laplace approximation.
    log_factor : NativeFunction
        Compiled `row_factor`.
    """

    likelihood: Likelihood
    bound: Bound | None
    statistics: np.ndarray
    expected_bright: float
    log_factor: NativeFunction

    @property
    def n_shared(self) -> int:
        """Numbers that the density appends to the coefficients."""
        return 0 if self.bound is None else self.bound.n_shared

    def __getstate__(self) -> dict[str, Any]:
        """Graphs travel to other processes, machine code does not."""
        return {k: v for k, v in self.__dict__.items() if k != "log_factor"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.log_factor = compile_log_factor(row_factor(self.likelihood, self.bound))


@dataclass
class Target:
    """All that kernels read and never write. Shared by all chains.

    Attributes
    ----------
    graph : DensityGraph
    parts : tuple of TargetPart
        One for each likelihood.
    n_others : int
        Number of foreign parameters, which each chain appends to the statistics.
    geometry : Geometry
    data : Data
        Of all likelihoods.
    kernel : str
        One of `KERNELS`. Joint moves are for one likelihood.
    """

    graph: DensityGraph
    parts: tuple[TargetPart, ...]
    n_others: int
    geometry: Geometry
    data: Data
    kernel: str = "metropolis"

    def __post_init__(self) -> None:
        bounds = [(part.bound, part.likelihood, len(part.statistics)) for part in self.parts]
        graphs = self.graph.with_bounds(bounds, self.n_others)
        self.density = compile_density(*graphs)
        self.gradients: tuple[NativeFunction, ...] = ()
        if self.kernel == "hamiltonian":
            factors = [row_factor(part.likelihood, part.bound) for part in self.parts]
            of_factors = [compile_log_factor_gradient(factor) for factor in factors]
            of_density = compile_density_gradient(*graphs), compile_pullback(*graphs)
            self.gradients = *of_density, *of_factors
        self.compiled_kernel()  # loaded here, it is there in every forked chain

    @property
    def is_joint(self) -> bool:
        """Whether theta and z are updated together."""
        return self.kernel == "joint"

    @property
    def statistics(self) -> np.ndarray:
        """Statistics of all collapsed bounds, one after the other."""
        return np.concatenate([part.statistics for part in self.parts])

    @property
    def n_slopes(self) -> int:
        """Number of coefficients of all likelihoods, with what the rows of each share."""
        return self.graph.n_coefficients + sum(part.n_shared for part in self.parts)

    def compiled_kernel(self) -> Any:
        """Compiled `run` of the kernel."""
        dtype, n = self.data.parts[0].X.dtype, len(self.parts)
        several = () if n == 1 else (n,)
        return KERNELS[self.kernel].run_kernel(dtype, *several)

    def at(self, problems: Sequence[Problem], resampling: Resampling) -> Target:
        """Return the target at another anchor: a pass over the data, and nothing is compiled."""
        moved = copy(self)
        tables = _tables(problems, self.parts, self.graph.sizes, resampling, self.kernel)
        moved.__dict__.update(tables)
        return moved

    def coefficients(self, theta: np.ndarray, statistics: np.ndarray) -> np.ndarray:
        """Coefficients of all likelihoods, shape (P,), without what the rows of each share."""
        slopes, out, start = np.empty(self.n_slopes), [], 0
        self.density(theta, statistics, slopes)
        for size, part in zip(self.graph.sizes, self.parts, strict=True):
            out.append(slopes[start : start + size])
            start += size + part.n_shared
        return np.concatenate(out)

    def posterior(self, statistics: np.ndarray, geometry: Geometry) -> Posterior:
        """Native form, for one chain's own statistics and geometry."""
        factors: Any = tuple(part.log_factor.address for part in self.parts)
        density, pullback, *of_factors = [f.address for f in self.gradients] or [0, 0]
        gradients: Any = tuple(of_factors) or (0,) * len(factors)
        if len(self.parts) == 1:
            (factors,), (gradients,) = factors, gradients
        addresses = self.density.address, factors, density, pullback, gradients
        return Posterior(*addresses, statistics, self.data.rows, geometry)

    def __getstate__(self) -> dict[str, Any]:
        """Graphs travel to other processes, machine code does not."""
        native = "density", "gradients"
        return {k: v for k, v in self.__dict__.items() if k not in native}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()


def build_target(
    graph: DensityGraph,
    problems: Sequence[Problem],
    bounds: Sequence[Bound | None],
    resampling: Resampling,
    n_others: int,
    kernel: str,
) -> Target:
    """Compute the statistics of bounds and the constants of all rows, in one pass over the data.

    Parameters
    ----------
    bounds : sequence of Bound or None
        One for each problem, or None for all of them.

    Raises
    ------
    ValueError
        If a bound is not valid for its likelihood, or has settings for another number of rows.
    """
    for problem, bound in zip(problems, bounds, strict=True):
        if bound is not None and not bound.supports(problem.likelihood):
            raise ValueError(
                f"the {bound.name} bound is not one on {problem.likelihood.name} likelihoods, "
                f"such as that of {problem.name!r}; bound='auto' takes one that is"
            )
    parts = tuple(
        TargetPart(each.likelihood, bound, np.empty(0), 0.0, compile_log_factor(factor))
        for each, bound in zip(problems, bounds, strict=True)
        for factor in [row_factor(each.likelihood, bound)]
    )
    tables = _tables(problems, parts, graph.sizes, resampling, kernel)
    return Target(graph=graph, n_others=n_others, kernel=kernel, **tables)


def _tables(
    problems: Sequence[Problem],
    parts: Sequence[TargetPart],
    sizes: Sequence[int],
    resampling: Resampling,
    kernel: str,
) -> dict[str, Any]:
    """Return the fields of a target that depend on the anchor."""
    filled, rows, bright = [], [], []
    for problem, part in zip(problems, parts, strict=True):
        statistics, constants, of_rows = _prepare(problem, part)
        expected = float(of_rows.sum(dtype=np.float64))
        filled.append(replace(part, statistics=statistics, expected_bright=expected))
        rows.append(make_rows(problem.design, constants))
        bright.append(of_rows)
    levels, alias = None, None
    if kernel == "joint":
        alias = _alias_tables(rows[0].constants, bright[0])
    elif isinstance(resampling, ImplicitResampling) and parts[0].bound is not None:
        probabilities = np.concatenate(bright)
        levels = (
            Levels.by_row(resampling.ratio * probabilities)
            if resampling.q is None
            else Levels.single(resampling.q, len(probabilities))
        )
    anchor = problems[0].anchor
    lengths = [n + part.n_shared for n, part in zip(sizes, parts, strict=True)]
    return {
        "parts": tuple(filled),
        "geometry": Geometry(anchor.theta, *anchor.laplace),
        "data": Data(combine_rows(rows, lengths), levels, alias),
    }


def _prepare(problem: Problem, part: TargetPart) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the statistics, the constants of the rows, and their expected brightness."""
    n_rows = problem.design.n_rows
    if part.bound is None:
        constants = np.asarray(problem.y, dtype=np.float64).reshape(n_rows, -1)
        return np.empty(0), constants, np.ones(n_rows)
    prepared = part.bound.prepare(problem, part.log_factor)
    return prepared.statistics, prepared.constants, prepared.bright


def row_factor(likelihood: Likelihood, bound: Bound | None) -> RowFactor:
    """Log factor of a bright row: log(L/B - 1), or log L where there is no bound."""
    n_columns = 1 + len(likelihood.row_data)

    def log_factor(arguments: list[Any], constants: Any, shared: Any) -> Any:
        if bound is None:
            y = [constants[:, i] for i in range(n_columns)]
            return likelihood.log_likelihood(arguments, outcome(likelihood, y))
        return log_odds(bound.gap(likelihood, arguments, constants, shared))

    sizes = (n_columns, 0) if bound is None else (bound.n_constants(likelihood), bound.n_shared)
    return RowFactor(log_factor, likelihood.n_predictors, len(likelihood.nuisances), *sizes)


def _alias_tables(constants: np.ndarray, bright: np.ndarray) -> AliasTables:
    """Tables of the joint kernel from the constants and the expected brightness of all rows."""
    n_rows = len(bright)
    light = bright < HEAVY
    total = np.empty(2)
    parts: list[np.ndarray] = []
    for i in range(2):
        weights = np.where(light, constants[:, KAPPA + i], 0.0)
        total[i] = weights.sum()
        threshold, alias = np.empty(n_rows), np.empty(n_rows, np.int32)
        alias_table(weights, threshold, alias)
        parts += [read_only(threshold), read_only(alias)]
    heavy = np.flatnonzero(~light).astype(np.int32)
    fields: Any = [read_only(heavy), total, *parts, np.empty(n_rows + SPARE, np.int32)]
    return AliasTables(*fields)
