"""Table 1: printed as Markdown and written as CSV."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from examples.paper.agreement import Comparison
from examples.paper.published import PAPER, REPORT
from examples.paper.running import Run

__all__ = ["agreement_lines", "digits", "print_table", "speedups", "table_1", "write_csv"]

HEADER = (
    "algorithm",
    "queries per iteration",
    "ESS per 1,000 iterations: median",
    "min",
    "speedup: by the median",
    "by the min",
    "paper: queries, ESS, speedup",
    "report: queries, ESS, speedup",
    "chains x draws",
)


def speedups(runs: Sequence[Run]) -> list[tuple[float, float]]:
    """Effective draws for a query in units of the first run's: by median and by minimum."""
    rates = [
        np.array([np.median(run.ess_per_thousand), np.min(run.ess_per_thousand)]) / run.mean_queries
        for run in runs
    ]
    return [(float(rate[0] / rates[0][0]), float(rate[1] / rates[0][1])) for rate in rates]


def table_1(name: str, runs: Sequence[Run]) -> list[list[str]]:
    """Rows of cells under `HEADER`."""
    rows = []
    for run, (by_median, by_min) in zip(runs, speedups(runs), strict=True):
        ess = run.ess_per_thousand
        rows.append(
            [
                run.line.label,
                digits(run.mean_queries),
                digits(float(np.median(ess))),
                digits(float(ess.min())),
                digits(by_median),
                digits(by_min),
                *(_published(source, name, run.line.key) for source in (PAPER, REPORT)),
                f"{run.draws.shape[0]} x {run.draws.shape[1]:,}",
            ]
        )
    return rows


def _published(source: dict, name: str, key: str) -> str:
    found = source.get(name, {}).get(key)
    return "" if found is None else ", ".join(digits(number) for number in found)


def agreement_lines(comparisons: Sequence[Comparison]) -> list[str]:
    """Say for each comparison how far apart the runs are."""
    lines = []
    for c in comparisons:
        verdict = "agree" if c.agree else "DISAGREE" if c.compared else "too few draws to tell"
        text = f"{c.first} and {c.second}: {verdict}"
        if c.compared:
            text += (
                f"; of {c.compared} means and sds the farthest are {c.errors:.1f} standard "
                f"errors apart, {c.largest:.2f} of what is allowed"
            )
        if c.left_out:
            text += f"; {c.left_out} left out for want of effective draws"
        lines.append(text)
    return lines


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a Markdown table."""
    print(f"\n**{title}**\n\n| " + " | ".join(header) + " |")
    print("|---" + "|---:" * (len(header) - 1) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write the same cells as CSV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def digits(value: float) -> str:
    """Three significant digits, and whole numbers in full."""
    if not np.isfinite(value):
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:#.3g}".rstrip(".") if value % 1 else f"{value:.0f}"
