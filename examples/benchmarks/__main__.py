"""Print a table of methods for chosen problems: `python -m examples.benchmarks --help`."""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

from examples.benchmarks.measurement import TARGET_ESS, Measurement
from examples.benchmarks.methods import METHODS, default_methods
from examples.benchmarks.problem import GROUPS, LIKELIHOODS, Problem, from_file, synthetic
from examples.benchmarks.subprocesses import run

HEADER = (
    "method",
    "min-ESS/s",
    f"s to min-ESS {TARGET_ESS:,}",
    "rows per effective draw",
    "rows read per draw",
    "bright, %",
    "set-up s",
    "peak memory MB",
)


def main() -> None:
    arguments = parse_arguments()
    problems = (
        [from_file(arguments.data)]
        if arguments.data
        else (
            synthetic(n, d, arguments.seed, likelihood, groups=arguments.groups)
            for likelihood in arguments.likelihood
            for d in arguments.columns
            for n in arguments.rows
        )
    )
    for problem in problems:
        print_table(problem, arguments.methods, arguments.seed, arguments.budget)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.benchmarks",
        description="Compare samplers on a regression, each in a fresh process with two "
        "chains and BLAS pinned to one thread. Peak memory is measured on Linux only.",
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[12_214], metavar="N")
    parser.add_argument(
        "--columns", type=int, nargs="+", default=[51], metavar="D", help="intercept included"
    )
    parser.add_argument("--likelihood", nargs="+", choices=LIKELIHOODS, default=["logistic"])
    parser.add_argument(
        "--groups", type=int, default=GROUPS, metavar="G", help="those of groups and slopes"
    )
    parser.add_argument(
        "--data", type=Path, help="npz file with X and labels y, in place of a simulation"
    )
    parser.add_argument(
        "--methods",
        nargs="+",
        choices=METHODS,
        help="by default all that end in reasonable time",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--budget",
        type=float,
        default=240.0,
        help="seconds of sampling beyond which NUTS and the baseline are given fewer draws",
    )
    return parser.parse_args()


def print_table(problem: Problem, names: list[str] | None, seed: int, budget: float) -> None:
    n_rows, n_columns = problem.X.shape
    size = f"N = {n_rows:,}, D = {n_columns} (design: {problem.X.nbytes / 1e6:,.0f} MB)"
    print(f"\n**{problem.likelihood}, {size}**\n")
    print("| " + " | ".join(HEADER) + " |")
    print("|---" + "|---:" * (len(HEADER) - 1) + "|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        problem.save(Path(folder))
        for name in names or default_methods(n_rows, problem.likelihood):
            label = METHODS[name][0]
            try:
                peak = run("examples.benchmarks.worker", name, folder, str(seed), str(budget))
            except subprocess.CalledProcessError:
                cells = ["failed"] + [""] * (len(HEADER) - 2)
            else:
                result = Measurement(**json.loads(Path(folder, f"{name}.json").read_text()))
                label += f" → {result.chosen}" if result.chosen else ""
                cells = format_cells(result, peak)
            print("| " + " | ".join([label, *cells]) + " |", flush=True)


def format_cells(measurement: Measurement, peak_bytes: int) -> list[str]:
    mark = "*" if measurement.extrapolated else ""
    return [
        f"{three_digits(measurement.rate)}{mark}",
        f"{three_digits(measurement.wall)}{mark}",
        three_digits(measurement.rows),
        "" if measurement.queries is None else three_digits(measurement.queries),
        "" if measurement.bright is None else f"{100 * measurement.bright:.2g}",
        three_digits(measurement.setup),
        f"{peak_bytes / 1e6:,.0f}" if peak_bytes else "unknown",
    ]


def three_digits(value: float) -> str:
    """Three significant digits, no exponent; below 1 three decimals."""
    decimals = sum(value < limit for limit in (1, 10, 100))
    return f"{float(f'{value:.3g}'):,.{decimals}f}"


if __name__ == "__main__":
    main()
