"""Which columns make many rows bright, and what can be done about it: for the log."""

from collections.abc import Iterator, Sequence

import numpy as np

from pymc_flymc.bounds import Problem
from pymc_flymc.kernels.layout import ROW
from pymc_flymc.order import n_largest
from pymc_flymc.reading.flat import DensityGraph, Layout
from pymc_flymc.reporting import count
from pymc_flymc.sampling.even_choice import evenly
from pymc_flymc.target.target import Target

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

    Parameters
    ----------
    target : Target
    problems : sequence of Problem
    graph, layout
        Of the model: columns are named after the parameters that multiply them.
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
