"""Measure one method on one model: `python -m examples.benchmarks.real_worker MODEL METHOD ...`."""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pymc as pm

import pymc_flymc
from examples.benchmarks.firefly import Clock
from examples.benchmarks.measurement import draws_of, smallest_ess
from examples.benchmarks.nuts import measure_model
from examples.benchmarks.real_models import MODELS

#: Smallest effective sample size that a run is timed to.
ENOUGH = 400
#: Settings of `FireflyMH`, or of `pm.sample` for NUTS.
METHODS: dict[str, dict[str, Any]] = {
    "auto": {},
    "joint": {"kernel": "joint"},
    "surrogate": {"kernel": "surrogate"},
    "given z": {"kernel": "hamiltonian"},
    "all rows": {"kernel": "hamiltonian", "bound": None},
    "nuts": {},
    "nuts, low rank": {"adaptation": "low_rank"},
}


def measure(model: pm.Model, n_rows: int, seed: int, **settings: Any) -> dict[str, Any]:
    """Seconds from a built model to enough effective draws, two chains on two cores."""
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("pymc.flymc").addHandler(handler)
    began = time.perf_counter()
    with model:
        step = pymc_flymc.FireflyMH(**settings)
        ready = time.perf_counter()
        clock = Clock()
        options = {"chains": 2, "cores": 2, "progressbar": False, "random_seed": seed}
        idata = pm.sample(step=step, callback=clock, **options)
    wall = time.perf_counter() - began
    ess, steady = smallest_ess(draws_of(idata)), clock.steady()
    reads = float(idata.sample_stats["likelihood_queries"].sum()) / ess
    return {
        "seconds": wall - steady + steady * ENOUGH / ess,
        "setup": ready - began,
        "rate": ess / steady,
        "rows": reads,
        "said": said[-1] if said else "",
        "kernel": step.target.kernel,
    }


def measure_nuts(model: pm.Model, n_rows: int, seed: int, **nuts: Any) -> dict[str, Any]:
    """As `measure`; what would take long is extrapolated, by gradients."""
    began = time.perf_counter()
    found = measure_model(model, n_rows, seed, BUDGET, cold=True, **nuts)
    wall = time.perf_counter() - began
    return {
        "seconds": found.setup + found.warmup + ENOUGH / found.rate,
        "setup": found.setup,
        "rate": found.rate,
        "rows": found.rows,
        "extrapolated": found.extrapolated,
        "took": wall,
    }


#: Seconds that NUTS may sample before it is extrapolated.
BUDGET = 60.0


def main() -> None:
    """Write what was measured as JSON."""
    name, method, folder, seed, out = sys.argv[1:]
    warnings.simplefilter("ignore")
    model = MODELS[name](Path(folder))
    n_rows = sum(int(v.eval().shape[0]) for v in map(model.rvs_to_values.get, model.observed_RVs))
    run = measure_nuts if method.startswith("nuts") else measure
    Path(out).write_text(json.dumps(run(model, n_rows, int(seed), **METHODS[method])))


if __name__ == "__main__":
    main()
