"""Compare the step with weighted draws: `python -m examples.benchmarks.laplace --data FOLDER`.

What someone who knows their trade would do instead, for logistic regression: find the posterior
mode by Newton steps, draw from the normal approximation, evaluate the density of all draws in
batches of matrix products, and weigh the draws, the weights Pareto-smoothed (Vehtari et al. 2024).
Prints a Markdown table of processor seconds from a built model to 400 effective draws, each run in
a new process with warm kernel caches, and k-hat of the weights: above 0.7 they cannot be trusted.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from arviz_stats.base import array_stats

from examples.benchmarks.__main__ import three_digits
from examples.benchmarks.independence import BATCH, laplace, log_densities
from examples.benchmarks.problem import Problem, synthetic
from examples.benchmarks.real_models import LOGISTIC, logistic
from examples.benchmarks.real_worker import ENOUGH, measure
from examples.benchmarks.subprocesses import result_of

DRAWS = 1024
HEADER = (
    "data",
    "rows, columns",
    "Laplace, s",
    "k-hat",
    f"effective of {DRAWS:,}",
    "`FireflyMH()`, s",
    "of which set-up",
    "moves",
)


def simulated(n_rows: int, n_columns: int) -> Callable[[Path], tuple[np.ndarray, np.ndarray]]:
    """Return a maker of a design and outcomes, as those of `python -m examples.benchmarks`."""

    def make(folder: Path) -> tuple[np.ndarray, np.ndarray]:
        problem = synthetic(n_rows, n_columns, 0)
        return problem.X, problem.y

    return make


SIMULATED = {f"simulated, {n:,} rows": simulated(n, 51) for n in (12_214, 100_000, 1_000_000)}
#: By name: makers of design and outcomes, that take the folder of the data.
DATA = SIMULATED | LOGISTIC


def measure_laplace(problem: Problem, seed: int) -> dict[str, Any]:
    """Processor seconds to enough effective draws, and k-hat."""
    rng = np.random.default_rng(seed)
    began = time.process_time()
    mode, factor = laplace(problem)
    ready = time.process_time()
    parts = []
    for _ in range(DRAWS // BATCH):
        noise = rng.standard_normal((len(mode), BATCH))
        density = log_densities(problem, mode[:, None] + factor @ noise)
        parts.append(density + 0.5 * (noise**2).sum(axis=0))
    log_weights, k_hat = array_stats.psislw(np.concatenate(parts))
    drawing = time.process_time() - ready
    weights = np.exp(log_weights)
    ess = weights.sum() ** 2 / (weights**2).sum()
    seconds = ready - began + drawing * ENOUGH / ess
    return {"seconds": seconds, "setup": ready - began, "k_hat": float(k_hat), "ess": ess}


def measure_here(name: str, method: str, folder: Path, seed: int) -> dict[str, Any]:
    """Measure in this process."""
    warnings.simplefilter("ignore")
    X, y = DATA[name](folder)
    if method == "laplace":
        return {"shape": X.shape} | measure_laplace(Problem(X, y.astype(np.int8)), seed)
    return measure(logistic(X, y), len(X), seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of the .npz files")
    parser.add_argument("--models", nargs="+", choices=list(DATA), metavar="MODEL")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--measure", choices=("laplace", "firefly"), help="one, in this process")
    options = parser.parse_args()
    names = options.models or list(DATA if options.data else SIMULATED)
    folder = options.data or Path()
    if options.measure:
        print(json.dumps(measure_here(names[0], options.measure, folder, options.seed)))
        return
    print(f"| {' | '.join(HEADER)} |\n|---|---:|---:|---:|---:|---:|---:|---|")
    for name in names:
        where = "--models", name, "--data", str(folder), "--seed", str(options.seed)
        weighed, ours = (
            result_of("examples.benchmarks.laplace", "--measure", method, *where)
            for method in ("laplace", "firefly")
        )
        n_rows, n_columns = weighed["shape"]
        cells = [
            f"{n_rows:,}, {n_columns}",
            three_digits(weighed["seconds"]),
            f"{weighed['k_hat']:.2f}",
            f"{weighed['ess']:,.0f}",
            three_digits(ours["seconds"]),
            three_digits(ours["setup"]),
            ours["kernel"],
        ]
        print(f"| {name} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
