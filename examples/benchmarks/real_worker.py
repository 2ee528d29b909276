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
from examples.benchmarks.nuts import TUNE, affordable, gradients, nuts_options
from examples.benchmarks.real_models import MODELS

#: Smallest effective sample size that a run is timed to.
ENOUGH = 400
#: Settings of `FireflyMH`, or of `pm.sample` for NUTS.
METHODS: dict[str, dict[str, Any]] = {
    "auto": {},
    "joint": {"kernel": "joint"},
    "surrogate": {"kernel": "surrogate"},
    "conditional": {"kernel": "hamiltonian"},
    "all rows": {"kernel": "hamiltonian", "bound": None},
    "nuts": {},
    "nuts, low rank": {"adaptation": "low_rank"},
}


def measure(model: pm.Model, n_rows: int, seed: int, **settings: Any) -> dict[str, Any]:
    """Processor seconds from a built model to enough effective draws of two chains."""
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("pymc.flymc").addHandler(handler)
    began = time.process_time()
    with model:
        try:
            step = pymc_flymc.FireflyMH(**settings)
        except ValueError as error:
            if "for one likelihood" not in str(error):
                raise
            return {"refused": True}  # joint moves of several, or of one that is not smooth
        ready = time.process_time()
        clock = Clock(time.process_time)
        # One chain after the other, in this process, whose processor time is what is measured.
        options = {"chains": 2, "cores": 1, "progressbar": False, "random_seed": seed}
        idata = pm.sample(step=step, callback=clock, **options)
    total = time.process_time() - began
    ess, steady = smallest_ess(draws_of(idata)), sum(clock.each())
    return {
        "seconds": total - steady + steady * ENOUGH / ess,
        "setup": ready - began,
        "rate": ess / steady,
        "rows": float(idata.sample_stats["likelihood_queries"].sum()) / ess,
        "said": said[-1] if said else "",
        "kernel": step.target.spec.name,
    }


def measure_nuts(model: pm.Model, n_rows: int, seed: int, **nuts: Any) -> dict[str, Any]:
    """As `measure`; what would take long is extrapolated, by gradients."""
    options = nuts_options(seed, nuts)
    tune, draws = affordable(model, BUDGET)
    with model:
        began = time.process_time()
        pm.sample(tune=2, draws=2, **options)
        compiled = time.process_time()
        idata = pm.sample(tune=tune, draws=draws, **options)
    setup = compiled - began
    before, after = (float(each.sum()) for each in gradients(idata))
    gradient = (time.process_time() - compiled - setup) / (before + after)
    ess = smallest_ess(draws_of(idata))
    return {
        "seconds": setup + gradient * (before * TUNE / tune + after * ENOUGH / ess),
        "setup": setup,
        "rate": ess / (gradient * after),
        "rows": after * n_rows / ess,
        "extrapolated": tune < TUNE,
    }


#: Seconds that NUTS may sample before it is extrapolated.
BUDGET = 60.0


def main() -> None:
    """Print what was measured as JSON."""
    name, method, folder, seed = sys.argv[1:]
    warnings.simplefilter("ignore")
    model = MODELS[name](Path(folder))
    n_rows = sum(int(v.eval().shape[0]) for v in map(model.rvs_to_values.get, model.observed_RVs))
    run = measure_nuts if method.startswith("nuts") else measure
    print(json.dumps(run(model, n_rows, int(seed), **METHODS[method])))


if __name__ == "__main__":
    main()
