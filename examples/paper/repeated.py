"""The molecules repeated until there are as many as in the paper."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np

from examples.paper.data import Data
from examples.paper.experiments import MOLECULES
from examples.paper.models import robust
from examples.paper.questions import Answer
from examples.paper.running import Settings, run_line
from examples.paper.table import digits

__all__ = ["ROWS", "repeated"]

#: Molecules of the paper.
ROWS = 1_800_000
#: Draws of each line on the larger data.
DRAWS = {"tuned": 8000, "own": 8000, "standardised": 4000, "hmc": 1000, "mh": 1000}
HEADER = ("algorithm", "N", "queries per iteration", "ESS per 1,000 iterations", "speedup")


def repeated(data: Data, settings: Settings, n_rows: int = ROWS) -> Answer:
    """MAP-tuned FlyMC and this package on all rows many times over; regular MCMC on the rows once.

    A regular iteration costs in proportion to N, and mixes alike once the prior hardly counts: its
    line for the larger N is that of the smaller one, with more queries.
    """
    lines = {line.key: line for line in MOLECULES.lines}
    once = replace(lines["regular"], of_paper=False, tune=200, draws=2500)
    regular = run_line(once, robust(data), settings)
    ess = float(np.median(regular.ess_per_thousand))
    times = max(1, round(n_rows / len(data.y)))
    n = times * len(data.y)
    queries = regular.mean_queries * times
    rows = [
        ["Regular MCMC", f"{len(data.y):,}", digits(regular.mean_queries), digits(ess), ""],
        ["the same, in proportion", f"{n:,}", digits(queries), digits(ess), "1"],
    ]
    rate = ess / queries
    many = Data(np.tile(data.X, (times, 1)), np.tile(data.y, times), data.source, data.simulated)
    model = robust(many)
    for key, draws in DRAWS.items():
        # From the mode: on the way from the prior all rows are bright, at each of ten evaluations.
        line = replace(lines[key], of_paper=False, tune=500, draws=draws)
        run = run_line(line, model, settings)
        ess = float(np.median(run.ess_per_thousand))
        cells = (run.mean_queries, ess, ess / run.mean_queries / rate)
        rows.append([run.line.label, f"{n:,}", *(digits(float(cell)) for cell in cells)])
        gc.collect()
    return f"Molecules, each {times} times: {data.source}", HEADER, rows
