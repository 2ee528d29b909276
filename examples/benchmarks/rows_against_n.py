"""Rows read per effective draw, against N: `python -m examples.benchmarks.rows_against_n`.

Prints a Markdown table and draws a figure, from a CSV file beside it with `--redraw`. Counts of
rows do not depend on the machine, nor on what else it is doing. Where a method takes too long its
count is extrapolated in proportion to N, which is marked with `*` in the table and by dashes in the
figure.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from examples.benchmarks import nuts
from examples.benchmarks.__main__ import three_digits
from examples.benchmarks.figures import name_curves, style_log_log
from examples.benchmarks.measurement import count_rows
from examples.benchmarks.problem import Problem, synthetic
from examples.palette import look
from pymc_flymc import FireflyMH, ImplicitResampling, JaakkolaJordan

COUNTS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
FEWEST, MOST = COUNTS[0], COUNTS[-1]


def firefly(problem: Problem, seed: int, **settings: Any) -> float:
    """Rows per effective draw of two chains of 1,000 draws."""
    return count_rows(problem.model(), partial(FireflyMH, **settings), seed).each


def gradients(problem: Problem, seed: int) -> float:
    """Rows per effective draw of NUTS: a gradient reads all of them."""
    return nuts.measure(problem, seed, budget=60.0).rows


@dataclass(frozen=True)
class Method:
    """A curve of the figure.

    Attributes
    ----------
    label : name in the table and in the figure.
    rows_at : numbers of rows for which it is measured; None for all.
    measure : takes a problem and a seed.
    """

    label: str
    rows_at: tuple[int, ...] | None
    measure: Callable[[Problem, int], float]


METHODS = (
    Method(
        "random-walk MH, all rows",
        (1_000, 10_000),
        partial(firefly, bound=None, proposal="random_walk"),
    ),
    Method("NUTS, all rows", (2_000,), gradients),
    Method(
        "FlyMC as in the paper",
        (1_000, 10_000, 100_000),
        partial(
            firefly,
            bound=JaakkolaJordan(slack=0),
            brightness=ImplicitResampling(q=0.01),
            proposal="random_walk",
        ),
    ),
    Method("FireflyMH()", None, firefly),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m examples.benchmarks.rows_against_n", description=__doc__
    )
    parser.add_argument("--columns", type=int, default=11, help="intercept included")
    parser.add_argument(
        "--most-rows",
        type=int,
        default=MOST,
        help=f"largest N for which FireflyMH() is measured (default: {MOST:,})",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("docs/figures/rows_against_n.png"))
    parser.add_argument("--redraw", action="store_true", help="from the CSV beside the figure")
    arguments = parser.parse_args()

    points = arguments.output.with_suffix(".csv")
    if not arguments.redraw:
        found = measure(arguments.most_rows, arguments.columns, arguments.seed)
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        found.to_csv(points, index=False, float_format="%.4g")
    measured: dict[str, dict[int, float]] = {method.label: {} for method in METHODS}
    for label, n_rows, each in pd.read_csv(points).itertuples(index=False):
        measured[label][n_rows] = each
    print_table(measured)
    draw_figure(measured, arguments.columns, arguments.output)


def measure(most_rows: int, n_columns: int, seed: int) -> pd.DataFrame:
    """Return the rows per effective draw of each method, where it is measured."""
    wanted = {n for method in METHODS for n in method.rows_at or COUNTS}
    found = []
    for n_rows in sorted(n for n in wanted if n <= most_rows):
        problem = synthetic(n_rows, n_columns, seed)
        for method in METHODS:
            if n_rows in (method.rows_at or COUNTS):
                found.append((method.label, n_rows, method.measure(problem, seed)))
        del problem
    return pd.DataFrame(found, columns=["method", "N", "rows per effective draw"])


def at(method: Method, points: dict[int, float], n_rows: int) -> tuple[float, bool]:
    """Rows per effective draw, and whether they are extrapolated from the nearest count."""
    if n_rows in points:
        return points[n_rows], False
    if method.rows_at is None or not points:  # not in proportion to N, or never measured
        return np.nan, False
    nearest = min(points, key=lambda n: abs(np.log(n / n_rows)))
    return points[nearest] * n_rows / nearest, True


def print_table(measured: dict[str, dict[int, float]]) -> None:
    print("\n| method | " + " | ".join(f"N = {n:,}" for n in COUNTS) + " |")
    print("|---" + "|---:" * len(COUNTS) + "|")
    for method in METHODS:
        cells = [
            "" if np.isnan(value) else three_digits(value) + "*" * extrapolated
            for value, extrapolated in (at(method, measured[method.label], n) for n in COUNTS)
        ]
        print(f"| {method.label} | " + " | ".join(cells) + " |")


def draw_figure(measured: dict[str, dict[int, float]], n_columns: int, path: Path) -> None:
    """Curves with their names at the right end, extrapolations dashed."""
    figure, axes = plt.subplots(figsize=(6.0, 4.8), layout="constrained")
    labels = []
    axes.plot([FEWEST, MOST], [FEWEST, MOST], color="0.4", lw=1, ls=":")
    axes.text(4e5, 1.2e5, "each row once", color="0.4", va="top")
    for method in METHODS:
        if not (points := measured[method.label]):
            continue
        n = sorted(points if method.rows_at is None else {*COUNTS, *points})
        own = look(method.label)
        values, guessed = zip(*(at(method, points, i) for i in n), strict=True)
        for i in range(len(n) - 1):
            dashed = guessed[i] or guessed[i + 1]
            axes.plot(
                n[i : i + 2],
                values[i : i + 2],
                color=own.colour,
                lw=2,
                ls="--" if dashed else "-",
            )
        axes.plot(list(points), list(points.values()), own.marker or "o", color=own.colour, ms=7)
        labels.append((values[-1], method.label, own.colour))
    style_log_log(
        axes,
        xlim=(FEWEST * 0.8, MOST * 1.3),
        ylabel="rows per effective draw",
        title=f"Logistic regression with {n_columns} coefficients",
    )
    name_curves(axes, labels, MOST)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
