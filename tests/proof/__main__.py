"""``python -m tests.proof``: print a table of what was proved, and of what failed.

Three parts: exact draws that stay exact, for combinations of family, form, bound, kernel and
resampling from the registries of the package, chosen by a seed; calibration of small models
through ``pm.sample``; and ten million transitions of each kernel against drift. An exact package
fails with a probability of at most `ALARM`, in all.
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

import numpy as np

from tests.mutants.table import MUTANTS
from tests.proof import calibrated, working
from tests.proof.combinations import chosen
from tests.proof.drift import CHAINS
from tests.proof.working import Row

#: Probability that an exact package fails anywhere: half for each of the parts that have any.
ALARM = 0.01


def tasks(given: Any, seed: int) -> list[tuple[Callable[..., list[Row]], tuple[Any, ...]]]:
    """Return functions for other processes, and their arguments."""
    found: list[tuple[Callable[..., list[Row]], tuple[Any, ...]]] = []
    if given.each:
        models = list(chosen(seed, given.each))
        alarm = 0.5 * ALARM / sum(map(len, models))
        names = [[one.name for one in model] for model in models if model]
        found += [(working.prove, (each, seed, given.chains, alarm)) for each in names]
    if given.sets:
        alarm = 0.5 * ALARM / len(calibrated.MODELS)
        every = calibrated.MODELS
        found += [(working.calibrate, (name, seed, given.sets, alarm)) for name in every]
    if given.transitions:
        found += [(working.drift, (name, seed, given.transitions)) for name in CHAINS]
    return found


def run(given: Any, seed: int) -> list[Row]:
    """Return the table's rows, printed as they come."""
    # Before NumPy is imported there: processes share the cores.
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    rows: list[Row] = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(given.jobs, context) as pool:
        waiting = [pool.submit(function, *arguments) for function, arguments in tasks(given, seed)]
        for future in as_completed(waiting):
            for row in future.result():
                rows.append(row)
                print(*row, sep="  ", flush=True)
    return rows


def main() -> int:
    """Run the command; return whether anything failed."""
    parser = argparse.ArgumentParser("tests.proof", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="by default one of its own choice")
    parser.add_argument("--each", type=int, default=4, help="combinations of each way to write")
    parser.add_argument("--chains", type=int, default=1000, help="of a combination, at first")
    parser.add_argument("--sets", type=int, default=32, help="data sets of a model, at first")
    parser.add_argument("--transitions", type=int, default=10_000_000, help="of each kernel")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else int(np.random.SeedSequence().entropy % 2**31)
    print(f"seed {seed}", flush=True)
    began = time.monotonic()
    rows = sorted(run(given, seed))
    print("\n| what | verdict | p-values or differences | s |\n| --- | --- | --- | --- |")
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")
    print(f"\nseed {seed}, {time.monotonic() - began:.0f} s,", end=" ")
    print(f"{sum(row.seconds for row in rows):.0f} s of processor time:")
    for (kind, verdict), n in sorted(Counter((row.kind, row.verdict) for row in rows).items()):
        print(f"  {kind}: {n} {verdict}")
    print(f"  mutants, by python -m tests.mutants: {len(MUTANTS)}")
    failed = [row.what for row in rows if row.verdict in ("FAILED", "ERROR")]
    print("failed:", ", ".join(failed) or "none")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
