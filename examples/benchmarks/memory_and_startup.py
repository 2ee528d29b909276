"""Table of memory and start-up time: `python -m examples.benchmarks.memory_and_startup --help`.

Peak memory of a two-chain run, and how much of it a byte of the data that the user holds costs, by
comparison with a tenth of the rows; and the time from starting Python to the first draw, imports
included, with compilation caches that are warm, and empty. Linux only.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from examples.benchmarks.problem import synthetic
from examples.benchmarks.subprocesses import run

#: Ten slopes and an intercept, beside those of the groups.
GROUP_COLUMNS = 11


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.benchmarks.memory_and_startup")
    parser.add_argument("--memory-rows", type=int, default=1_000_000)
    parser.add_argument("--startup-rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=51)
    arguments = parser.parse_args()
    print("| | |\n|---|---:|", flush=True)
    measure_startup(arguments.startup_rows, arguments.columns)
    measure_memory("logistic", "FireflyMH", arguments.memory_rows, arguments.columns)
    measure_memory("groups", "FireflyHMC", arguments.memory_rows, GROUP_COLUMNS)


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
            run("examples.benchmarks.first_draw", name, "FireflyMH", "20", "1", **caches)
            taken = float((folder / "first_draw.txt").read_text()) - began
            print(
                f"| start of Python to first draw, N = {n_rows:,}, D = {n_columns}, "
                f"{state} compilation cache | {taken:.1f} s |",
                flush=True,
            )


def measure_memory(likelihood: str, step: str, n_rows: int, n_columns: int) -> None:
    sizes, peaks = [], []
    for n in (n_rows // 10, n_rows):
        with tempfile.TemporaryDirectory() as name:
            problem = synthetic(n, n_columns, 0, likelihood)
            problem.save(Path(name))
            sizes.append(problem.n_bytes)
            del problem
            peaks.append(run("examples.benchmarks.first_draw", name, step, "1000", "2"))
    growth = (peaks[1] - peaks[0]) / (sizes[1] - sizes[0])
    print(
        f"| peak memory of two chains, {likelihood}, {step}(), N = {n_rows:,}, D = {n_columns} | "
        f"{peaks[1] / 1e6:,.0f} MB, of data {sizes[1] / 1e6:,.0f} MB; {growth:.2f} bytes for each "
        f"byte of data, these included, beside a fixed amount |",
        flush=True,
    )


if __name__ == "__main__":
    main()
