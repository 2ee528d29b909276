"""The bounds that a user asks for, those that a step chooses, and advice on columns."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from pymc_flymc.bounds import (
    BOUNDS,
    AllRows,
    Bound,
    ExpansionBound,
    Problem,
    ScaledTaylor,
    ScaledTaylorInParts,
    Taylor,
    TaylorInParts,
    is_bound,
    is_for_joint_moves,
)
from pymc_flymc.errors import UnsupportedModelError, check_object
from pymc_flymc.kernels.layout import ROW
from pymc_flymc.order import first_largest, n_largest
from pymc_flymc.reading.flat import DensityGraph, Layout
from pymc_flymc.regression.matrices import LARGEST_DENSE
from pymc_flymc.regression.regression import Regression
from pymc_flymc.reporting import count, log
from pymc_flymc.sampling.diagnostics import evenly
from pymc_flymc.sampling.sampler import SamplingTask
from pymc_flymc.target.target import MOSTLY, Target

#: A bound for all likelihoods, or a dict of bounds by the names of observed variables.
BoundSetting = Bound | str | None | Mapping[str, Bound | str | None]


def check_bound_setting(bound: object) -> None:
    """Refuse settings other than a bound, None, "auto", or a dict of these."""
    for name, each in bound.items() if isinstance(bound, Mapping) else [("", bound)]:
        if each is not None and not (isinstance(each, str) and each == "auto"):
            setting = f"bound[{name!r}]" if name else "bound"
            check_object(setting, each, is_bound, "a bound, such as Taylor(), None or 'auto'")


def bounds_asked(bound: BoundSetting, regressions: Sequence[Regression]) -> list[Bound | str]:
    """Return the bound asked for each likelihood of a model, or "auto", before any pass over data.

    Raises ValueError if a bound does not support its likelihood.
    """
    settings = settings_of(bound, [regression.name for regression in regressions])
    for regression, asked in zip(regressions, settings, strict=True):
        if not (isinstance(asked, str) or asked.supports(regression.likelihood)):
            raise ValueError(
                f"the {asked.name} bound is not one on {regression.likelihood.name} likelihoods, "
                f"such as that of {regression.name!r}; bound='auto' takes one that is"
            )
    return settings


def settings_of(bound: BoundSetting, names: Sequence[str]) -> list[Bound | str]:
    """Return the bound asked for each likelihood, or "auto".

    Raises ValueError if one is asked for a variable that is not among them, or if only some have
    none.
    """
    if not isinstance(bound, Mapping):
        return [AllRows() if bound is None else bound] * len(names)
    for name in bound:
        if name not in names:
            raise ValueError(
                f"bound= names {name!r}; the observed variables whose rows are subsampled are "
                f"{', '.join(map(repr, names))}"
            )
    settings = [bound.get(name, "auto") for name in names]
    if None in settings and any(setting is not None for setting in settings):
        # The brightness of all rows is resampled in the same way; without a bound there is none.
        alone = names[settings.index(None)]
        raise ValueError(f"bound=None is for all likelihoods or for none, not for {alone!r} alone")
    return [AllRows() if setting is None else setting for setting in settings]


#: Bright rows are mentioned from this number on, and from this number for each coefficient:
#: concentrated posteriors have a few bright rows for each.
FEWEST_BRIGHT, EACH = 50, 5
#: With fewer rows for each parameter than this, it is no wonder that all rows are read.
FEW_ROWS = 100
#: Rows that are looked at, and columns that are named.
LOOKED_AT, NAMED = 5000, 3
#: A column is named if its mean square among the n brightest of N rows is at least this many times
#: its variance, and this many times log(N / n). Of a normal column's largest values it is about 2.
OUTSTANDING, TAIL = 5.0, 3.0
#: A column is skewed if its largest value is this many times as far from the median as its least.
SKEWED = 5.0
#: Least standard deviation, for columns of a size of one.
LEAST_COLUMN_SD = 1e-9


def advice_on_columns(
    target: Target, problems: Sequence[Problem], graph: DensityGraph, layout: Layout
) -> Iterator[str]:
    """Yield a sentence for each likelihood with columns that make many of its rows bright.

    Or one on the number of rows, where all are read and these are few.

    `graph`, `layout`: of the model: columns are named after the parameters that multiply them.
    """
    start, each = 0, sum(len(part.X) for part in target.data.parts) / layout.size
    if not target.subsamples and each < FEW_ROWS:
        yield (
            f"there are few rows for each parameter ({each:,.0f}): most of them would be bright. "
            "More rows, or fewer columns, make brightness pay"
        )
    parts = zip(problems, target.parts, _brightest(target), strict=True)
    for problem, part, brightest in parts:
        n, bright = problem.design.n_rows, part.expected_bright
        if len(brightest) and bright > max(FEWEST_BRIGHT, EACH * problem.design.n_coefficients):
            least = max(OUTSTANDING, TAIL * np.log(n / len(brightest)))
            found: dict[str, list[str]] = {}
            for j, remedy in _outstanding(problem.design.X, brightest, float(least)):
                found.setdefault(remedy, []).append(_name(graph, layout, start + j))
            if found:
                listed = "; ".join(f"{', '.join(names)} ({what})" for what, names in found.items())
                yield (
                    f"{count(bright)} of {n:,} rows of {problem.name!r} are bright, mostly those "
                    f"with values far out in the columns of {listed}"
                )
        start += problem.design.n_coefficients


def _brightest(target: Target) -> list[np.ndarray]:
    """Return the dense columns of the rows most often bright, as many as are bright at a time.

    One array for each likelihood, shape (m, P); empty if all rows have the same probability.
    """
    data = target.data
    n = int(target.expected_bright)
    chosen = np.empty(0, np.int64)
    if data.alias is not None:
        rates = data.parts[0].constants[:, ROW.near]
        chosen = n_largest(rates, n)
    elif data.levels is not None and len(data.levels.q) > 1:  # sorted by probability
        chosen = data.levels.order[:n]
    out = []
    for part in data.parts:
        own = chosen[(chosen >= part.first) & (chosen < part.first + len(part.X))] - part.first
        out.append(part.X[own])
    return out


def _outstanding(X: np.ndarray, brightest: np.ndarray, least: float) -> Iterator[tuple[int, str]]:
    """Yield columns in which some rows, shape (n, P), are far out, and what helps."""
    few = brightest[evenly(len(brightest), LOOKED_AT)].astype(np.float64)
    usual = X[evenly(len(X), LOOKED_AT)].astype(np.float64)
    mean, sd = usual.mean(axis=0), usual.std(axis=0)
    # Zero for a level so rare that these rows lack it. In a constant column nothing is far out.
    sd = np.maximum(sd, LEAST_COLUMN_SD * np.maximum(1.0, np.abs(mean)))
    squares = np.mean(((few - mean) / sd) ** 2, axis=0)
    for j in n_largest(squares, NAMED):
        if squares[j] > least:
            yield int(j), _remedy(np.concatenate([usual[:, j], few[:, j]]))


def _remedy(values: np.ndarray) -> str:
    if len(np.unique(values)) == 2:
        return "rare levels: put them together with others, or give them narrower priors"
    low, middle, high = np.quantile(values, (0.0, 0.5, 1.0))
    if high - middle > SKEWED * (middle - low):
        return "skewed: take logarithms"
    if middle - low > SKEWED * (high - middle):
        return "skewed to the left: take logarithms of the distance from a largest value"
    return "look for errors, or limit the range"


def _name(graph: DensityGraph, layout: Layout, coefficient: int) -> str:
    """Name a column after the one parameter that multiplies it, or else by its number."""
    if graph.jacobian is not None:
        (places,) = np.nonzero(graph.jacobian[coefficient])
        if len(places) == 1:
            return layout.describe(int(places[0]))
    return f"coefficient {coefficient}"


#: End of messages: in joint moves the Taylor bound has a single radius for all coefficients.
WITH_EFFECTS = f" with more than {LARGEST_DENSE} coefficients, of groups or sparse columns"
#: What moves are called in the log, by the name of their kernel; of others, by that name.
MOVES = {
    "joint": "joint moves",
    "surrogate": "surrogate moves",
    "hamiltonian": "conditional Hamiltonian moves",
    "metropolis": "conditional Metropolis moves",
    "local": "local sweeps",
}
#: Rows looked at for a first estimate.
SAMPLE_ROWS = 20_000


def conditional_bounds(task: SamplingTask) -> list[Bound]:
    """Return the bounds of a kernel of conditional updates, by default tangent bounds."""
    chosen = []
    for problem, asked in zip(task.problems, task.bounds, strict=True):
        if isinstance(asked, str):
            valid = valid_bounds(problem)
        else:
            valid = forms(asked, problem) or [asked]  # which refuses the design
        chosen.append(tightest(valid, problem))
    return chosen


def log_rows_read(problems: Sequence[Problem], target: Target) -> None:
    """Log how many rows an update reads, of how many of each likelihood."""
    spec = target.spec
    moves = MOVES.get(spec.name, f"conditional {spec.name} moves")
    for problem, part in zip(problems, target.parts, strict=True):
        rows, n_rows = count(part.expected_bright), f"{problem.design.n_rows:,}"
        if spec.fresh:
            read = f"{rows} of {n_rows} rows of {problem.name!r} each"
        else:
            read = f"the bright rows, {rows} of {n_rows} of {problem.name!r}"
        exact = target.data.exact
        of_exact = "" if exact is None else f", and {len(exact.X):,} in each step of trajectories"
        log.info(f"{moves} read {read} ({part.bound.name} bound){of_exact}")


def valid_bounds(problem: Problem) -> list[Bound]:
    """Bounds on a likelihood, and for its design."""
    supported = [bound for bound in BOUNDS if bound.supports(problem.likelihood)]
    valid = [each for bound in supported for each in forms(bound, problem)]
    if not valid:
        raise UnsupportedModelError(
            f"no bound of this package is one on {problem.likelihood.name} likelihoods"
            f"{WITH_EFFECTS * (not problem.design.format.one_radius)}: give the step bound=None, "
            "which reads all rows"
        )
    return valid


def forms(bound: Bound, problem: Problem) -> list[Bound]:
    """Return the forms that a bound takes for a design: Taylor's have one for conditional moves.

    With more effects of groups than one radius serves, that form is the only one.
    """
    one_radius = problem.design.format.one_radius
    found = [bound] if one_radius or not is_for_joint_moves(bound) else []
    design = problem.design
    in_parts: list[ExpansionBound] = []
    if isinstance(bound, Taylor) and bound.order == 2:
        in_parts = [TaylorInParts(design.n_sparse, design.n_predictors)]
    elif isinstance(bound, ScaledTaylor):
        in_parts = [ScaledTaylorInParts(design.n_sparse)]
    if design.n_sparse:
        found += [each for each in in_parts if each.supports(problem.likelihood)]
    return found


def tightest(valid: Sequence[Bound], problem: Problem) -> Bound:
    """Return the bound for conditional moves that leaves the fewest rows bright.

    Taylor bounds are used if there is no other. They leave fewer rows bright on average. But where
    effects are far from the anchor, ever more rows are bright, and hold the effects there.
    """
    conditional = [bound for bound in valid if not isinstance(bound, ExpansionBound)]
    conditional = conditional or list(valid)
    if len(conditional) == 1:
        return conditional[0]
    expected = np.array([estimate_rows(bound, problem) for bound in conditional])
    return conditional[first_largest(-expected)]


def estimate_rows(bound: Bound, problem: Problem) -> float:
    """Rows expected to be bright over the Laplace approximation, from a sample of rows."""
    return bound.expected_rows(problem, _stride(problem))


def estimate_kept(bound: ExpansionBound, problem: Problem) -> int:
    """Rows expected to be kept bright, from a sample of rows."""
    return int(bound.expected_rows(problem, _stride(problem), MOSTLY))


def _stride(problem: Problem) -> int:
    return max(1, problem.design.n_rows // SAMPLE_ROWS)


def joint_bound(problems: Sequence[Problem]) -> ExpansionBound | None:
    """Return the bound for joint moves, if there is one: they are for one likelihood."""
    if len(problems) > 1:
        return None
    return next(filter(is_for_joint_moves, valid_bounds(problems[0])), None)
