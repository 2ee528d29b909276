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
    """Two chains on two cores; fewer draws than the default if these would exceed the budget.

    A draw's time is apportioned by its gradient evaluations, which for many rows is where all of
    the time goes.
    """
    import pymc as pm

    model = problem.model()
    options = nuts_options(seed, nuts)
    tune, draws = affordable(model, budget)
    with model:
        pm.sample(tune=2, draws=2, **options)  # fills the compilation cache
        began = time.perf_counter()
        idata = pm.sample(tune=tune, draws=draws, **options)
        wall = time.perf_counter() - began
    sampling = float(idata.posterior.attrs["sampling_time"])
    before, after = gradients(idata)
    seconds_per_gradient = sampling / (before + after).max()
    ess = smallest_ess(draws_of(idata))
    steady = seconds_per_gradient * after.max()
    return Measurement(
        setup=wall - sampling,
        warmup=seconds_per_gradient * before.max() * TUNE / tune,
        rate=ess / steady,
        rows=float(after.sum()) * len(problem.y) / ess,
        ess=ess,
        extrapolated=tune < TUNE,
    )


def nuts_options(seed: int, nuts: dict[str, Any]) -> dict[str, Any]:
    """Return options of `pm.sample`."""
    options: dict[str, Any] = {
        "chains": 2,
        "cores": 2,
        "progressbar": False,
        "random_seed": seed,
        "discard_tuned_samples": False,
        "nuts_sampler": "nutpie",
    }
    return options | ({"nuts": nuts} if nuts else {})


def affordable(model: Any, budget: float) -> tuple[int, int]:
    """Return numbers of tuning steps and of draws: the default's, or what the budget allows."""
    number = int(budget / (2 * gradient_time(model) * GRADIENTS_PER_DRAW))
    return int(np.clip(number, 100, TUNE)), int(np.clip(number, 100, DRAWS))


def gradients(idata: Any) -> tuple[np.ndarray, np.ndarray]:
    """Count the gradients that each chain evaluated in tuning, and after it."""
    groups = idata.warmup_sample_stats, idata.sample_stats
    before, after = (group["n_steps"].to_numpy().sum(axis=1) for group in groups)
    return before, after


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
