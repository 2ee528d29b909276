"""Measure `pm.sample()` as PyMC runs it by default: NUTS, by nutpie where it is installed."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from examples.benchmarks.measurement import Measurement, draws_of, smallest_ess
from examples.benchmarks.problem import Problem

#: PyMC's defaults.
TUNE, DRAWS = 1000, 1000
#: Gradient evaluations of a draw that are reckoned with before anything is measured.
GRADIENTS_PER_DRAW = 12


def measure(problem: Problem, seed: int, budget: float, **nuts: Any) -> Measurement:
    """As `measure_model`, once its functions have been compiled."""
    return measure_model(problem.model(), len(problem.y), seed, budget, **nuts)


def measure_model(
    model: Any, n_rows: int, seed: int, budget: float, cold: bool = False, **nuts: Any
) -> Measurement:
    """Two chains on two cores; fewer draws than the default if these would exceed the budget.

    A draw's time is apportioned by its gradient evaluations, which for many rows is where all of
    the time goes. Compilation counts if `cold`.
    """
    import pymc as pm

    options: dict[str, Any] = {
        "chains": 2,
        "cores": 2,
        "progressbar": False,
        "random_seed": seed,
        "discard_tuned_samples": False,
        "nuts_sampler": "nutpie",
    }
    if nuts:
        options["nuts"] = nuts
    compiled = time.perf_counter()
    gradient = gradient_time(model)  # fills the compilation cache, too
    affordable = int(budget / (2 * gradient * GRADIENTS_PER_DRAW))
    tune = int(np.clip(affordable, 100, TUNE))
    draws = int(np.clip(affordable, 100, DRAWS))
    with model:
        pm.sample(tune=2, draws=2, **options)
        compiled = time.perf_counter() - compiled if cold else 0.0
        began = time.perf_counter()
        idata = pm.sample(tune=tune, draws=draws, **options)
        wall = time.perf_counter() - began
    sampling = float(idata.posterior.attrs["sampling_time"])
    before = idata.warmup_sample_stats["n_steps"].to_numpy().sum(axis=1)
    after = idata.sample_stats["n_steps"].to_numpy().sum(axis=1)
    seconds_per_gradient = sampling / (before + after).max()
    ess = smallest_ess(draws_of(idata))
    steady = seconds_per_gradient * after.max()
    return Measurement(
        setup=compiled + wall - sampling,
        warmup=seconds_per_gradient * before.max() * TUNE / tune,
        rate=ess / steady,
        rows=float(after.sum()) * n_rows / ess,
        ess=ess,
        extrapolated=tune < TUNE,
    )


def gradient_time(model: Any) -> float:
    """Seconds for one evaluation of log density and gradient on one core."""
    function = model.logp_dlogp_function(ravel_inputs=True)
    function.set_extra_values({})
    point = np.zeros(sum(v.size for v in model.initial_point().values()))
    function(point)
    repeats, began = 0, time.perf_counter()
    while time.perf_counter() - began < 0.5:
        function(point)
        repeats += 1
    return (time.perf_counter() - began) / repeats
