"""Table of what building a step costs: `python -m examples.benchmarks.setup --help`.

Seconds of wall clock and of processor time of each part, and in units of one evaluation of the log
density and its gradient as NUTS makes them, measured in the same process. Compilation caches are
warm: a model of other rows, and of as many columns, has been set up before. Like the other
benchmarks, it is meant for BLAS pinned to one thread (`OMP_NUM_THREADS=1`).
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from examples.benchmarks.problem import CLASSES, LIKELIHOODS, synthetic

#: Parts of the set-up, and the functions that do them; what one calls of another's is the other's.
PARTS = {
    "reading the model, checks of data": (
        ("steps.setup", "read_model"),
        ("reading.fingerprint", "Fingerprint.of"),
    ),
    "search for the anchor": (
        ("anchor.mode_finding", "ModeFinder.find"),
        ("anchor.expanded_density", "ExpandedDensity.__init__"),
    ),
    "passes of the search": (("anchor.objective", "expand"),),
    "tables for draws of rows": (
        ("target.target", "make_alias_tables"),
        ("target.resampling", "Levels.by_row"),
    ),
    "trials of moves": (
        ("sampling.choice", "weigh_joint_moves"),
        ("sampling.choice", "look_at_tails"),
    ),
    "compilation": (
        ("target.target", "Target.__post_init__"),
        ("target.target", "compile_log_factor"),
        ("target.target", "compile_log_factor"),
        ("bounds.jaakkola_jordan", "compile_log_factor"),
        ("regression.derivatives", "RowDerivatives.__init__"),
    ),
}
#: Likewise, of each bound.
OF_BOUNDS = {"statistics and constants": "prepare", "estimates of bright rows": "expected_rows"}
REST = "all else"


def owner_of(module: str, path: str) -> tuple[Any, str]:
    """Return the module or class that holds a function, and its name there."""
    owner: Any = importlib.import_module(f"pymc_flymc.{module}")
    *outer, name = path.split(".")
    for each in outer:
        owner = getattr(owner, each)
    return owner, name


class Stopwatch:
    """Wall and processor seconds of each part; while one is in another, the other's stand still."""

    def __init__(self) -> None:
        self.seconds: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(2))
        self._stack = [REST]
        self._last = _clocks()

    def _lap(self) -> None:
        now = _clocks()
        self.seconds[self._stack[-1]] += now - self._last
        self._last = now

    def start(self) -> None:
        """Forget all so far."""
        self.seconds.clear()
        self._last = _clocks()

    def stop(self) -> None:
        """Take the last lap."""
        self._lap()

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, its time counted."""

        def timed_function(*arguments: Any, **settings: Any) -> Any:
            self._lap()
            self._stack.append(part)
            try:
                return function(*arguments, **settings)
            finally:
                self._lap()
                self._stack.pop()

        return timed_function

    def watch(self, part: str, owner: Any, name: str) -> None:
        """Count the time of a function of a module or class."""
        timed = self.timed(part, getattr(owner, name))
        is_bound = isinstance(vars(owner)[name], classmethod)
        setattr(owner, name, staticmethod(timed) if is_bound else timed)

    def watch_all(self) -> None:
        """Count the times of all parts."""
        for part, functions in PARTS.items():
            for module, path in functions:
                self.watch(part, *owner_of(module, path))
        bounds = importlib.import_module("pymc_flymc.bounds").BOUNDS
        for kind in {each for bound in bounds for each in type(bound).__mro__}:
            for part, name in OF_BOUNDS.items():
                if name in vars(kind):
                    self.watch(part, kind, name)


def _clocks() -> np.ndarray:
    return np.array([time.perf_counter(), time.process_time()])


def gradient_seconds(model: Any) -> np.ndarray:
    """Wall and processor seconds of log density and gradient together: the best of some."""
    function = model.logp_dlogp_function(ravel_inputs=True, mode="NUMBA")
    function.set_extra_values({})
    point = np.zeros(sum(v.size for v in model.initial_point().values()))
    function(point)
    times, began = [], time.perf_counter()
    while len(times) < 5 or time.perf_counter() - began < 2.0:
        before = _clocks()
        function(point)
        times.append(_clocks() - before)
    return np.min(times, axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.benchmarks.setup")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=51, help="intercept included")
    parser.add_argument("--likelihood", choices=LIKELIHOODS, default="logistic")
    parser.add_argument("--classes", type=int, default=CLASSES)
    parser.add_argument("--step", default="FireflyMH")
    parser.add_argument("--repeats", type=int, default=3, help="the fastest counts")
    arguments = parser.parse_args()

    import pymc_flymc

    def problem(n_rows: int, seed: int) -> Any:
        size = n_rows, arguments.columns, seed, arguments.likelihood, arguments.classes
        return synthetic(*size).model()

    step = getattr(pymc_flymc, arguments.step)
    model = problem(arguments.rows, 0)
    watch = Stopwatch()
    watch.watch_all()
    step(model=problem(20_000, 1))
    gradient = gradient_seconds(model)
    runs = []
    for _ in range(arguments.repeats):
        watch.start()
        step(model=model)
        watch.stop()
        runs.append(dict(watch.seconds))
    best = min(runs, key=lambda run: sum(run.values())[1])
    print(
        f"\n{arguments.step}, {arguments.likelihood}, N = {arguments.rows:,}, "
        f"D = {arguments.columns}\n"
    )
    print("| | wall clock, s | processor, s | in gradients: wall clock, processor |")
    print("|---|---:|---:|---:|")
    lines = [*best.items(), ("all together", sum(best.values())), ("one gradient", gradient)]
    for part, seconds in lines:
        ratios = ", ".join(f"{each:.1f}" for each in seconds / gradient)
        print(f"| {part} | {seconds[0]:.3f} | {seconds[1]:.3f} | {ratios} |")


if __name__ == "__main__":
    main()
