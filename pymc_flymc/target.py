"""The augmented density p(theta, z | data), ready for kernels."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
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
from pymc_flymc.data import Data
from pymc_flymc.density import DensityGraph
from pymc_flymc.design import Design
from pymc_flymc.kernels import conditional, hamiltonian, joint, slice
from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.kernels.poisson import HEAVY, KAPPA, SPARE, AliasTables, alias_table
from pymc_flymc.kernels.posterior import Posterior
from pymc_flymc.likelihoods import Likelihood, outcome
from pymc_flymc.native import NativeFunction, read_only
from pymc_flymc.resampling import ImplicitResampling, Levels, Resampling
from pymc_flymc.rows import Rows

__all__ = ["Target", "build_target", "make_rows", "row_factor"]

#: How theta is updated: with z, or given z.
KERNELS: dict[str, Any] = {
    "joint": joint,
    "metropolis": conditional,
    "hamiltonian": hamiltonian,
    "slice": slice,
}


@dataclass
class Target:
    """All that kernels read and never write. Shared by all chains.

    Attributes
    ----------
    graph : DensityGraph
    likelihood : Likelihood
    bound : Bound or None
    n_others : int
        Number of foreign parameters, which each chain appends to the statistics.
    statistics : ndarray, float64
        Packed statistics of the collapsed bound (empty without a bound).
    geometry : Geometry
    data : Data
    expected_bright : float
        Bright rows expected over the Laplace approximation.
    log_factor : NativeFunction
        Compiled `row_factor`.
    kernel : str
        One of `KERNELS`.
    """

    graph: DensityGraph
    likelihood: Likelihood
    bound: Bound | None
    n_others: int
    statistics: np.ndarray
    geometry: Geometry
    data: Data
    expected_bright: float
    log_factor: NativeFunction
    kernel: str = "metropolis"

    def __post_init__(self) -> None:
        graphs = self.graph.with_bound(self.bound, self.likelihood, self.n_others)
        self.density = compile_density(*graphs)
        self.gradients: tuple[NativeFunction, ...] = ()
        if self.kernel == "hamiltonian":
            factor = row_factor(self.likelihood, self.bound)
            self.gradients = (
                compile_density_gradient(*graphs),
                compile_pullback(*graphs),
                compile_log_factor_gradient(factor),
            )
        self.kernels()  # loaded here, they are there in every forked chain

    @property
    def is_joint(self) -> bool:
        """Whether theta and z are updated together."""
        return self.kernel == "joint"

    @property
    def n_shared(self) -> int:
        """Numbers that the density appends to the coefficients."""
        return 0 if self.bound is None else self.bound.n_shared

    def kernels(self) -> tuple[Any, Any]:
        """Compiled `begin` and `run`."""
        dtype = self.data.rows.X.dtype
        start = joint if self.is_joint else conditional
        return start.begin_kernel(dtype), KERNELS[self.kernel].run_kernel(dtype)

    def at(self, problem: Problem, resampling: Resampling) -> Target:
        """Return the target at another anchor: a pass over the data, and nothing is compiled."""
        moved = copy(self)
        tables = _tables(problem, self.bound, self.log_factor, resampling, self.kernel)
        moved.__dict__.update(tables)
        return moved

    def posterior(self, statistics: np.ndarray, geometry: Geometry) -> Posterior:
        """Native form, for one chain's own statistics and geometry."""
        density, pullback, factor = [f.address for f in self.gradients] or [0, 0, 0]
        addresses = self.density.address, self.log_factor.address, density, pullback, factor
        return Posterior(*addresses, statistics, self.data.rows, geometry)

    def __getstate__(self) -> dict[str, Any]:
        """Graphs travel to other processes, machine code does not."""
        native = "density", "log_factor", "gradients"
        return {k: v for k, v in self.__dict__.items() if k not in native}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.log_factor = compile_log_factor(row_factor(self.likelihood, self.bound))
        self.__post_init__()


def build_target(
    graph: DensityGraph,
    problem: Problem,
    bound: Bound | None,
    resampling: Resampling,
    n_others: int,
    kernel: str,
) -> Target:
    """Compute the statistics of a bound and the constants of all rows, in one pass over the data.

    Raises
    ------
    ValueError
        If the bound is not valid for the likelihood, or has settings for another number of rows.
    """
    likelihood = problem.likelihood
    if bound is not None and not bound.supports(likelihood):
        raise ValueError(
            f"the {bound.name} bound is not one on {likelihood.name} likelihoods; bound='auto' "
            "takes one that is"
        )
    log_factor = compile_log_factor(row_factor(likelihood, bound))
    tables = _tables(problem, bound, log_factor, resampling, kernel)
    return Target(
        graph,
        likelihood,
        bound,
        n_others,
        log_factor=log_factor,
        kernel=kernel,
        **tables,
    )


def _tables(
    problem: Problem,
    bound: Bound | None,
    log_factor: NativeFunction,
    resampling: Resampling,
    kernel: str,
) -> dict[str, Any]:
    """Return the fields of a target that depend on the anchor."""
    design = problem.design
    levels, alias = None, None
    statistics, expected_bright = np.empty(0), float(design.n_rows)
    if bound is None:
        constants = np.asarray(problem.y, dtype=np.float64).reshape(design.n_rows, -1)
    else:
        prepared = bound.prepare(problem, log_factor)
        statistics, constants = prepared.statistics, prepared.constants
        expected_bright = float(prepared.bright.sum(dtype=np.float64))
        if kernel == "joint":
            alias = _alias_tables(constants, prepared.bright)
        elif isinstance(resampling, ImplicitResampling):
            levels = (
                Levels.by_row(resampling.ratio * prepared.bright)
                if resampling.q is None
                else Levels.single(resampling.q, design.n_rows)
            )
    return {
        "statistics": statistics,
        "geometry": Geometry(problem.anchor.theta, *problem.anchor.laplace),
        "data": Data(make_rows(design, constants), levels, alias),
        "expected_bright": expected_bright,
    }


def make_rows(design: Design, constants: np.ndarray) -> Rows:
    """Return what kernels see of a design and the rows' constants, without copies."""
    rows = Rows(
        read_only(design.X), read_only(design.offset), int(design.intercept), read_only(constants)
    )
    if design.sparse is None:
        return rows
    pairs = design.sparse
    return rows._replace(
        n_sparse=design.n_sparse,
        indptr=read_only(pairs.indptr.astype(np.int64)),
        indices=read_only(pairs.indices.astype(np.int32, copy=False)),
        values=read_only(pairs.data),
    )


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
