"""Table of memory and start-up time: `python -m examples.benchmarks.memory_and_startup --help`.

Peak memory of a two-chain `FireflyMH` run, in multiples of the design in float64 that the user
holds; and the time from starting Python to the first draw, imports included, with compilation
caches that are warm, and empty. Linux only.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from examples.benchmarks.problem import synthetic
from examples.benchmarks.subprocesses import run


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.benchmarks.memory_and_startup")
    parser.add_argument("--memory-rows", type=int, default=1_000_000)
    parser.add_argument("--startup-rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=51)
    arguments = parser.parse_args()
    print("| | |\n|---|---:|", flush=True)
    measure_startup(arguments.startup_rows, arguments.columns)
    measure_memory(arguments.memory_rows, arguments.columns)


def measure_startup(n_rows: int, n_columns: int) -> None:
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as cache:
        folder = Path(name)
        synthetic(n_rows, n_columns, 0).save(folder)
        caches = {
            "PYTENSOR_FLAGS": f"base_compiledir={cache}/pytensor",
            "NUMBA_CACHE_DIR": f"{cache}/numba",
        }
        for state in ("empty", "warm"):  # the second run finds what the first has left
            began = time.time()
            run("examples.benchmarks.first_draw", name, "20", "1", **caches)
            taken = float((folder / "first_draw.txt").read_text()) - began
            print(
                f"| start of Python to first draw, N = {n_rows:,}, D = {n_columns}, "
                f"{state} compilation cache | {taken:.1f} s |",
                flush=True,
            )


def measure_memory(n_rows: int, n_columns: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        problem = synthetic(n_rows, n_columns, 0)
        problem.save(Path(name))
        design = problem.X.nbytes
        del problem
        peak = run("examples.benchmarks.first_draw", name, "1000", "2")
        print(
            f"| peak memory of two chains, N = {n_rows:,}, D = {n_columns} | {peak / 1e6:,.0f} MB, "
            f"{peak / design:.2f} times the design ({design / 1e6:,.0f} MB, included) |"
        )


if __name__ == "__main__":
    main()
