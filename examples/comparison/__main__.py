"""Compare methods for tall data: `python -m examples.comparison --help`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

from threadpoolctl import threadpool_limits

# One thread a method, as far as libraries let themselves be told; before JAX starts.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from examples.comparison import problem as problems
from examples.comparison.laplace import laplace
from examples.comparison.measurement import Curve, Task, TooSlow
from examples.comparison.methods import METHODS
from examples.comparison.output import (
    draw,
    points_of,
    print_header,
    print_row,
    read_csv,
    write_csv,
)
from examples.comparison.problem import Problem
from examples.comparison.reference import reference

#: Seconds of each method, and of the reference for each of a method's.
SECONDS, LONGER, FULL = 10.0, 8.0, 60.0


def main() -> None:
    arguments = parse_arguments()
    if arguments.redraw:
        for name in ("tall", "awkward") if arguments.problem == "all" else (arguments.problem,):
            path = arguments.output / f"comparison_{name}"
            draw(*read_csv(path.with_suffix(".csv")), path.with_suffix(".png"))
        return
    if arguments.problem == "all":
        both()
        return
    arguments.output.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        compare(
            build(arguments.problem, arguments),
            arguments.methods or list(METHODS),
            arguments.seconds or (FULL if arguments.full else SECONDS),
            arguments.seed,
            arguments.output,
        )


def both() -> None:
    """Run the two problems side by side, a core each; the second's table comes at the end."""
    options = [option for option in sys.argv[1:] if option != "all"]
    command = [sys.executable, "-m", "examples.comparison"]
    with tempfile.TemporaryFile("w+") as lines:
        second = subprocess.Popen([*command, "awkward", *options], stdout=lines)
        failed = subprocess.run([*command, "tall", *options]).returncode
        failed |= second.wait()
        lines.seek(0)
        print(lines.read(), end="")
    sys.exit(failed)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.comparison",
        description="Errors of posterior means and standard deviations against rows read and "
        "processor time, for Firefly and other methods for tall data. Prints a table of each "
        "problem, and writes a figure and a CSV file.",
    )
    parser.add_argument("problem", nargs="?", choices=("tall", "awkward", "all"), default="all")
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help="with adult.npz, in place of a simulation"
    )
    parser.add_argument("--methods", nargs="+", choices=METHODS, help="by default all")
    parser.add_argument("--redraw", action="store_true", help="the figures, from the CSV files")
    parser.add_argument("--full", action="store_true", help="ten times the rows, six the seconds")
    parser.add_argument("--rows", type=int, help="of simulated problems")
    parser.add_argument("--seconds", type=float, help=f"for each method (default: {SECONDS:g})")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("docs/figures"), metavar="FOLDER")
    return parser.parse_args()


def build(name: str, arguments: argparse.Namespace) -> Problem:
    if name == "awkward" and arguments.data:
        return problems.adult(arguments.data)
    if name == "tall":
        return problems.tall(
            arguments.rows or (problems.TALLER if arguments.full else problems.TALL)
        )
    return problems.awkward(
        arguments.rows or (problems.MORE_AWKWARD if arguments.full else problems.AWKWARD)
    )


def compare(
    problem: Problem, names: list[str], seconds: float, seed: int, folder: Path, draws: int = 10**6
) -> dict[str, Curve]:
    """Print a table, a line for each method as it ends; write figure and CSV."""
    print(f"\n**{problem.title}**\n")
    for name in names:
        if missing := METHODS[name].missing():
            print(f"{METHODS[name].label}: skipped, {', '.join(missing)} not installed")
    start = laplace(problem)
    truth, origin = reference(problem, start, seed + 1, LONGER * seconds, draws)
    print(
        f"Reference: {origin}, Monte Carlo error of means "
        f"{truth.error_mean:.2g} sd, of log sd {truth.error_sd:.2g}. "
        f"The search for the mode read {start.rows:,} rows."
    )
    print_header()
    curves, began = {}, time.perf_counter()
    for name in names:
        if METHODS[name].missing():
            continue
        try:
            curves[name] = METHODS[name].run(Task(problem, start, truth, seconds, draws, seed + 2))
        except TooSlow:
            print(f"| {METHODS[name].label} | | | | no draws in time |", flush=True)
        else:
            print_row(name, curves[name], truth)
    points = points_of(curves, truth)
    path = folder / f"comparison_{problem.name}"
    own = truth.error_mean, truth.error_sd
    write_csv(points, own, path.with_suffix(".csv"))
    draw(points, own, path.with_suffix(".png"))
    print(f"\n{time.perf_counter() - began:.0f} s in all.", flush=True)
    return curves


if __name__ == "__main__":
    main()
