"""Construction of the augmented density: tables of all rows under the bounds, in one pass."""

from collections.abc import Sequence

import numpy as np

from pymc_flymc.bounds import AllRows, Bound, ExpansionBound, Preparation, Problem, row_factor
from pymc_flymc.bounds.kept_rows import treat_exactly
from pymc_flymc.graphs.compilation import compile_log_factor
from pymc_flymc.kernels.layout import ROW
from pymc_flymc.kernels.native import NativeFunction
from pymc_flymc.reading.flat import DensityGraph
from pymc_flymc.reporting import doing
from pymc_flymc.target.conditionals import effect_places
from pymc_flymc.target.data import Data, combine_rows, make_alias_tables, make_rows, some_rows
from pymc_flymc.target.kernel_spec import KernelSpec
from pymc_flymc.target.resampling import ImplicitResampling, Levels, Resampling
from pymc_flymc.target.target import Target, TargetPart
from pymc_flymc.target.validation import check_preparation, describe

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
    geometry = problems[0].anchor.geometry
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
