"""The three bounds on the softmax likelihood: `python -m examples.benchmarks.softmax_bounds`.

For simulated data of 3 and 5 classes, prints a Markdown table of the rows that are bright and of
those read per effective draw, and draws the latter against N, from a CSV file beside the figure
with `--redraw`. Counts of rows do not depend on the machine, nor on what else it is doing. A ring
is around the bound that `FireflyMH()` takes.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from examples.benchmarks.__main__ import three_digits
from examples.benchmarks.figures import style_log_log
from examples.benchmarks.measurement import count_rows
from examples.benchmarks.problem import synthetic
from examples.palette import look
from pymc_flymc import Bohning, FireflyMH, JebaraChoromanska, Taylor

BOUNDS = {"Böhning": Bohning, "Jebara-Choromanska": JebaraChoromanska, "Taylor": Taylor}
CLASSES = (3, 5)


@dataclass(frozen=True)
class Count:
    """Rows bright at the end of a draw, rows read per effective draw, whether it is the choice.

    NaN where the draws are too dependent to tell.
    """

    bright: float
    rows: float
    chosen: bool


def count(n_rows: int, n_columns: int, classes: int, seed: int) -> dict[str, Count]:
    """Sample two chains of 300 draws under each bound."""
    counts = {}
    model = synthetic(n_rows, n_columns, seed, "softmax", classes).model()
    with model:
        choice = type(FireflyMH().bounds[0])
    for name, bound in BOUNDS.items():
        step = partial(FireflyMH, bound=bound())
        ess, rows, bright = count_rows(model, step, seed, tune=300, draws=300)
        counts[name] = Count(bright, rows if ess > 100 else np.nan, choice is bound)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m examples.benchmarks.softmax_bounds", description=__doc__
    )
    parser.add_argument("--columns", type=int, default=4, help="intercept included")
    parser.add_argument("--most-rows", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("docs/figures/softmax_bounds.png"))
    parser.add_argument("--redraw", action="store_true", help="from the CSV beside the figure")
    arguments = parser.parse_args()

    points = arguments.output.with_suffix(".csv")
    if not arguments.redraw:
        found = [
            {"classes": classes, "N": n, "bound": name} | asdict(of)
            for classes in CLASSES
            for n in (1_000, 10_000, 100_000, 1_000_000)
            if n <= arguments.most_rows
            for name, of in count(n, arguments.columns, classes, arguments.seed).items()
        ]
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(found).to_csv(points, index=False, float_format="%.4g")
    measured: dict[int, dict[int, dict[str, Count]]] = {classes: {} for classes in CLASSES}
    for classes, n, name, *of in pd.read_csv(points).itertuples(index=False):
        measured[classes].setdefault(n, {})[name] = Count(*of)
    for classes, by_rows in measured.items():
        print_table(classes, by_rows)
    draw_figure(measured, arguments.columns, arguments.output)


def print_table(classes: int, by_rows: dict[int, dict[str, Count]]) -> None:
    """Bright rows and rows per effective draw; the bound that is taken in bold."""
    print(f"\n| {classes} classes | " + " | ".join(f"N = {n:,}" for n in by_rows) + " |")
    print("|---" + "|---:" * len(by_rows) + "|")
    for name in BOUNDS:
        cells = []
        for counts in by_rows.values():
            of = counts[name]
            cell = f"{three_digits(of.bright)} / "
            cell += "-" if np.isnan(of.rows) else three_digits(of.rows)
            cells.append(f"**{cell}**" if of.chosen else cell)
        print(f"| {name} | " + " | ".join(cells) + " |")


def draw_figure(
    measured: dict[int, dict[int, dict[str, Count]]], n_columns: int, path: Path
) -> None:
    """One panel for each number of classes."""
    figure, panels = plt.subplots(
        1, len(measured), figsize=(6.0, 4.2), sharey=True, layout="constrained"
    )
    for axes, (classes, by_rows) in zip(panels, measured.items(), strict=True):
        numbers = list(by_rows)
        axes.plot(numbers, numbers, color="0.4", lw=1, ls=":", label="each row once")
        for name in BOUNDS:
            rows = [by_rows[n][name].rows for n in numbers]
            own = look(name)
            axes.plot(numbers, rows, color=own.colour, marker=own.marker, lw=2, ms=6, label=name)
            chosen = [(n, r) for n, r in zip(numbers, rows, strict=True) if by_rows[n][name].chosen]
            if chosen:
                axes.plot(*zip(*chosen, strict=True), "o", ms=13, mfc="none", mec="0.3", mew=1.2)
        title = f"{classes} classes, {n_columns * (classes - 1)} coefficients"
        style_log_log(axes)
        axes.set_title(title, fontsize=10)
    panels[0].set_ylabel("rows per effective draw")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, ncols=2, loc="outside lower center")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
