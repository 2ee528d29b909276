"""Firefly Monte Carlo, by this package."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from examples.comparison.clock import clock
from examples.comparison.measurement import FIRST, Curve, Task, curve_of

#: Tuning draws, as many as NUTS has here; passes over all rows for the constants of bounds, at
#: the most.
TUNE, PASSES = 300, 3


@contextlib.contextmanager
def rows_of_set_up() -> Iterator[list[int]]:
    """Collect the rows that the search for the mode and trials of moves read.

    Steps tell of the rows that draws read only; these are counted from within.
    """
    from pymc_flymc.regression.derivatives import RowDerivatives
    from pymc_flymc.sampling.chain import FireflyChain

    rows: list[int] = []
    derive, take = RowDerivatives.__call__, FireflyChain.take_queries

    def deriving(self: Any, arguments: Any, y: Any) -> Any:
        rows.append(len(y))
        return derive(self, arguments, y)

    def taking(self: Any) -> int:
        rows.append(take(self))
        return rows[-1]

    RowDerivatives.__call__, FireflyChain.take_queries = deriving, taking  # type: ignore
    try:
        yield rows
    finally:
        RowDerivatives.__call__, FireflyChain.take_queries = derive, take  # type: ignore


def run(task: Task, kind: str) -> Curve:
    """Run a step as it comes."""
    import pymc as pm

    import pymc_flymc

    logging.getLogger("pymc").setLevel(logging.ERROR)
    logging.getLogger("pymc_flymc").setLevel(logging.ERROR)
    make_step = getattr(pymc_flymc, kind)
    seconds: list[float] = []

    def look(trace: Any, draw: Any) -> None:
        seconds.append(clock() - began)
        if len(seconds) > TUNE + FIRST and task.over(seconds[-1], len(seconds) - TUNE):
            raise KeyboardInterrupt  # pm.sample returns the draws so far

    options: dict[str, Any] = {
        "chains": 1,
        "cores": 1,
        "random_seed": task.seed,
        "progressbar": False,
        "compute_convergence_checks": False,
        "discard_tuned_samples": False,
    }
    with task.problem.model():
        pm.sample(step=make_step(), tune=10, draws=10, **options)  # compiles
        began = clock()
        with rows_of_set_up() as found:
            step = make_step()
        idata = pm.sample(step=step, tune=TUNE, draws=task.draws, callback=look, **options)
    draws = idata.posterior["beta"].to_numpy()[0]
    set_up = PASSES * len(task.problem.y) + sum(found)
    first = set_up + int(idata.warmup_sample_stats["likelihood_queries"].sum())
    rows = first + np.cumsum(idata.sample_stats["likelihood_queries"].to_numpy()[0])
    return curve_of(draws, rows, np.array(seconds[-len(draws) :]), first)


run_mh = partial(run, kind="FireflyMH")
run_hmc = partial(run, kind="FireflyHMC")
