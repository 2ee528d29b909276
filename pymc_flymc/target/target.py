"""The augmented density p(theta, z | data), ready for kernels, and how it is built."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt

from pymc_flymc.bounds import (
    AllRows,
    Bound,
    ExpansionBound,
    Preparation,
    Problem,
    exact_factor,
    row_factor,
)
from pymc_flymc.bounds.taylor import treat_exactly
from pymc_flymc.graphs.compilation import (
    compile_density,
    compile_density_gradient,
    compile_log_factor,
    compile_log_factor_gradient,
    compile_vjp,
)
from pymc_flymc.kernels.adjusted_brightness import rows_of_columns
from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.kernels.layout import ROW
from pymc_flymc.kernels.native import Jacobian, NativeFunction, NativeGraph
from pymc_flymc.kernels.posterior import Posterior
from pymc_flymc.likelihoods.likelihood import Likelihood
from pymc_flymc.reading.flat import DensityGraph
from pymc_flymc.reporting import COMPILING_KERNELS, doing
from pymc_flymc.target.collapsed_density import check_preparation, collapsed_density, describe
from pymc_flymc.target.conditionals import Conditionals, compile_conditionals, effect_places
from pymc_flymc.target.data import (
    Data,
    combine_rows,
    make_alias_tables,
    make_rows,
    row_arrays,
    some_rows,
)
from pymc_flymc.target.resampling import ImplicitResampling, Levels, Resampling


@dataclass(frozen=True)
class KernelSpec:
    """How parameters and brightness are updated, and what this needs.

    A new kernel is a module of native code in `kernels`, a module in `sampling.adaptation` with its
    adaptation and one of these, and a step or a setting that uses it.
    """

    name: str
    #: ``run_kernel(dtype, n_likelihoods=1)`` compiles its loop for designs of a type.
    run_kernel: Callable[..., Any]
    #: The class of its `Adaptation`; ``adaptation()`` is as `FireflyMH` uses it.
    adaptation: Callable[..., Any]
    #: ``plan(target, resampling, cursor)`` returns how the loop draws z, with one chain's buffers.
    plan: Callable[..., Any]
    gradients: bool = False  #: Whether it follows gradients of the density.
    #: Whether z is drawn together with theta, independently of its previous value. Such a kernel is
    #: for one likelihood, under a bound for joint updates.
    fresh: bool = False
    #: Whether its proposals follow a surrogate, which treats some rows exactly, and expands others.
    exact: bool = False
    #: Whether it updates the effects of groups one by one: for one likelihood, whose rows have one
    #: effect each, under a bound without rates.
    local: bool = False

    @property
    def for_several(self) -> bool:
        """Return whether it supports several likelihoods."""
        return not (self.fresh or self.local)

    @property
    def weighs_density(self) -> bool:
        """Return whether the log weight of a state includes the log density of its parameters."""
        # It then changes when other steps change their variables. For a surrogate's proposals this
        # is the density of the surrogate.
        return self.fresh and not self.exact

    def compiled(self, dtype: np.dtype, n_likelihoods: int) -> Any:
        """Return its loop for designs of a type, compiled or loaded."""
        several = [n_likelihoods] if n_likelihoods > 1 else []
        return self.run_kernel(dtype, *several)


#: Number of evaluations of a density that are timed.
TIMED = 3


@dataclass
class TargetPart:
    """A likelihood and its bound."""

    likelihood: Likelihood
    bound: Bound
    #: Packed statistics of the collapsed bound (empty if all rows are bright).
    statistics: np.ndarray
    expected_bright: float  #: Number of bright rows expected over the Laplace approximation.
    log_factor: NativeFunction  #: Compiled `row_factor`.

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without machine code, which cannot be pickled; graphs can."""
        return {k: v for k, v in self.__dict__.items() if k != "log_factor"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.log_factor = compile_log_factor(row_factor(self.likelihood, self.bound))


@dataclass
class Target:
    """All that kernels read and never write, shared by all chains."""

    graph: DensityGraph
    parts: tuple[TargetPart, ...]
    #: Number of parameters of other step methods, which each chain appends to the statistics.
    n_others: int
    geometry: Geometry
    data: Data
    spec: KernelSpec
    n_exact: int = 0  #: Least number of rows that the kernel treats exactly.
    #: For the local kernel, indices in theta of the effects of groups, in the order of the columns.
    effects: np.ndarray | None = None

    def __post_init__(self) -> None:
        bounds = [(part.bound, part.likelihood, len(part.statistics)) for part in self.parts]
        exact, gradients = self.spec.exact, self.spec.gradients
        # If factors of rows are remainders alone, shared numbers are not needed.
        shares = not exact and any(part.bound.n_shared for part in self.parts)
        constant = self.graph.jacobian if gradients and not shares else None
        self.jacobian, is_affine = Jacobian.of(constant), constant is not None
        graphs = collapsed_density(self.graph, bounds, self.n_others, is_affine)
        self.factor_gradients: list[NativeFunction] = []
        self._density: NativeGraph | None = None
        self._density_gradient: NativeGraph | None = None
        self._vjp: NativeGraph | None = None
        if not gradients:
            self._density = compile_density(graphs)
        else:
            factor = exact_factor if exact else row_factor
            factors = [factor(part.likelihood, part.bound) for part in self.parts]
            nothing: Any = pt.zeros((0,))
            paths = graphs._replace(shared=nothing) if exact else graphs
            self._vjp = None if is_affine else compile_vjp(paths)
            self._density_gradient = compile_density_gradient(graphs)
            self.factor_gradients = [compile_log_factor_gradient(factor) for factor in factors]
        self.conditionals: Conditionals | None = None
        if self.effects is not None:
            self.conditionals = compile_conditionals(graphs, self.effects, self.data.parts[0])
        self.compiled_kernel()  # loaded now, it is in every forked chain

    @property
    def expected_bright(self) -> float:
        """Return the number of bright rows expected over the Laplace approximation."""
        return sum(part.expected_bright for part in self.parts)

    @property
    def subsamples(self) -> bool:
        """Return whether rows can be dark: under the bounds of all likelihoods, or of none."""
        return not isinstance(self.parts[0].bound, AllRows)

    @property
    def own_rows(self) -> list[np.ndarray]:
        """Return the arrays of rows that statistics miss: without a bound all rows are read."""
        parts = () if self.subsamples else self.data.parts
        return [array for rows in parts for array in row_arrays(rows)]

    @property
    def statistics(self) -> np.ndarray:
        """Return the statistics of all collapsed bounds, one after the other."""
        return np.concatenate([part.statistics for part in self.parts])

    @property
    def n_slopes(self) -> int:
        """Return the number of coefficients of all likelihoods, shared numbers included."""
        return self.graph.n_coefficients + sum(part.bound.n_shared for part in self.parts)

    @doing(COMPILING_KERNELS)
    def compiled_kernel(self) -> Any:
        """Return the compiled `run` of the kernel."""
        return self.spec.compiled(self.data.parts[0].X.dtype, len(self.parts))

    def density(self, theta: np.ndarray, statistics: np.ndarray, w_out: np.ndarray) -> float:
        """Return the log prior plus collapsed bounds, or expansions, at theta.

        It writes all likelihoods' coefficients, each followed by the numbers that its rows share.
        """
        if self._density is not None:
            return float(self._density(theta, statistics, w_out))
        return self.density_gradient(theta, statistics, w_out, np.empty_like(theta))

    def density_gradient(
        self, theta: np.ndarray, statistics: np.ndarray, w_out: np.ndarray, out: np.ndarray
    ) -> float:
        """Return `density`, for kernels that follow gradients; write the gradient in theta, too."""
        assert self._density_gradient is not None
        return float(self._density_gradient(self.jacobian, theta, statistics, w_out, out))

    def coefficients(self, theta: np.ndarray, statistics: np.ndarray) -> np.ndarray:
        """Return the coefficients of all likelihoods, (P,), without the numbers that rows share."""
        slopes, out, start = np.empty(self.n_slopes), [], 0
        self.density(theta, statistics, slopes)
        for size, part in zip(self.graph.sizes, self.parts, strict=True):
            out.append(slopes[start : start + size])
            start += size + part.bound.n_shared
        return np.concatenate(out)

    def density_at_centre(self, others: np.ndarray) -> float:
        """Return `density` at the centre of the geometry, given variables of other step methods."""
        statistics = np.concatenate([self.statistics, others])
        return self.density(self._centre, statistics, np.empty(self.n_slopes))

    @property
    def _centre(self) -> np.ndarray:
        return self.geometry.unstandardise(np.zeros(len(self.geometry.centre)))

    def seconds(self, others: np.ndarray) -> float:
        """Return the time of one evaluation without rows: the median of a few."""
        arguments = (
            self._centre,
            np.concatenate([self.statistics, others]),
            np.empty(self.n_slopes),
        )
        self.density(*arguments)  # the first call makes Python find the function
        times = []
        for _ in range(TIMED):
            start = time.perf_counter()
            self.density(*arguments)
            times.append(time.perf_counter() - start)
        return float(np.median(times))

    def posterior(self, statistics: np.ndarray, geometry: Geometry) -> Posterior:
        """Return the native form, with one chain's statistics and geometry."""
        factors: Any = tuple(part.log_factor.address for part in self.parts)
        gradients: Any = tuple(f.address for f in self.factor_gradients) or (0,) * len(factors)
        if len(self.parts) == 1:
            (factors,), (gradients,) = factors, gradients
        return Posterior(
            density=_address(self._density),
            log_factor=factors,
            density_gradient=_address(self._density_gradient),
            vjp=_address(self._vjp),
            log_factor_gradient=gradients,
            jacobian=self.jacobian,
            statistics=statistics,
            rows=self.data.rows,
            geometry=geometry,
            scales=self.graph.scales,
            shifts=self.graph.shifts,
            columns=self.data.columns,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without machine code, which cannot be pickled; graphs can."""
        native = "_density", "_density_gradient", "_vjp", "factor_gradients", "conditionals"
        return {k: v for k, v in self.__dict__.items() if k not in native}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()


def _address(native: NativeGraph | None) -> int:
    return 0 if native is None else native.address


#: Rows with a larger expected probability of being bright are kept bright. They are then read less
#: than twice as often. A row that is kept bright does not hold parameters back, unlike a row that
#: must turn bright before they can move on.
MOSTLY = 0.5


def build_target(
    graph: DensityGraph,
    problems: Sequence[Problem],
    bounds: Sequence[Bound],
    resampling: Resampling,
    n_others: int,
    spec: KernelSpec,
    n_exact: int = 0,
) -> Target:
    """Return the target: statistics of bounds and constants of rows, from one data pass."""
    # The rows that the kernel treats exactly are those whose remainder may be largest; if more rows
    # are kept bright, all of these.
    effects = effect_places(graph, problems) if spec.local else None
    with doing("preparing tables of all rows"):
        parts, data = _tables(problems, bounds, graph.sizes, resampling, spec, n_exact)
        if len(parts) == 1 and len(graph.scales.scale) and not (spec.fresh or spec.local):
            data.columns = rows_of_columns(data.parts[0])
    geometry = problems[0].anchor.geometry
    if spec.gradients and not spec.local:
        geometry = geometry.followed(graph.following)
    return Target(graph, parts, n_others, geometry, data, spec, n_exact, effects)


def target_at(target: Target, problems: Sequence[Problem], resampling: Resampling) -> Target:
    """Return a target at another anchor: one pass over the data, without compilation."""
    bounds = [part.bound for part in target.parts]
    kernel = target.n_others, target.spec, target.n_exact
    return build_target(target.graph, problems, bounds, resampling, *kernel)


def _prepare(problem: Problem, bound: Bound, log_factor: NativeFunction) -> Preparation:
    try:
        if isinstance(bound, ExpansionBound):
            return bound.prepare(problem, log_factor, MOSTLY)
        return bound.prepare(problem, log_factor)
    except ValueError as error:  # wrong sizes, say, of a user's bound
        who = describe(bound, problem.likelihood)
        error.add_note(f"while {who} was prepared for the rows of {problem.name!r}")
        raise


def _tables(
    problems: Sequence[Problem],
    bounds: Sequence[Bound],
    sizes: Sequence[int],
    resampling: Resampling,
    spec: KernelSpec,
    n_exact: int,
) -> tuple[tuple[TargetPart, ...], Data]:
    """Return the likelihoods with their bounds, and the arrays of all rows."""
    parts, rows, bright = [], [], []
    chosen = np.empty(0, np.int64)
    for problem, bound, size in zip(problems, bounds, sizes, strict=True):
        log_factor = compile_log_factor(row_factor(problem.likelihood, bound))
        prepared = _prepare(problem, bound, log_factor)
        check_preparation(bound, problem, prepared, size)
        if spec.exact:
            rates = prepared.constants[:, ROW.near]
            # Rows that are kept bright are read at each proposal anyway.
            n_exact = max(n_exact, int(np.sum(np.isinf(rates))))
            if n_exact:
                chosen = np.sort(np.argpartition(-rates, n_exact - 1)[:n_exact])
            treat_exactly(prepared.constants, prepared.bright, chosen)
        expected = float(prepared.bright.sum(dtype=np.float64))
        known = prepared.statistics, expected, log_factor
        parts.append(TargetPart(problem.likelihood, bound, *known))
        rows.append(make_rows(problem.design, prepared.constants, bound))
        bright.append(prepared.bright)
    levels, alias, exact = None, None, None
    if spec.exact:
        exact = some_rows(rows[0], chosen)
    if spec.fresh:
        alias = make_alias_tables(rows[0].constants, bright[0])
    elif isinstance(resampling, ImplicitResampling) and not isinstance(bounds[0], AllRows):
        levels = Levels.of(resampling, np.concatenate(bright))
        if spec.local:
            sparse = problems[0].design.sparse
            levels = levels.by_group(sparse.codes[:, 0], sparse.n_columns)
    lengths = [n + part.bound.n_shared for n, part in zip(sizes, parts, strict=True)]
    return tuple(parts), Data(combine_rows(rows, lengths), levels, alias, exact)
