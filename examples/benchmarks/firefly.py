"""Measure a `FireflyMH` step."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from examples.benchmarks.measurement import Measurement, draws_of, smallest_ess
from examples.benchmarks.problem import Problem


class Clock:
    """A callback of `pm.sample` that notes when each chain ends tuning and when it ends.

    Parameters
    ----------
    now : callable
        Returns a time in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self.now = now
        self.began: dict[int, float] = {}
        self.ended: dict[int, float] = {}

    def __call__(self, trace: Any, draw: Any) -> None:
        """Note the time of a draw."""
        now = self.now()
        if not draw.tuning:
            self.began.setdefault(draw.chain, now)
            self.ended[draw.chain] = now

    def each(self) -> list[float]:
        """Time of each chain after tuning."""
        return [self.ended[chain] - self.began[chain] for chain in self.began]

    def steady(self) -> float:
        """Time of the slowest chain after tuning."""
        return max(self.each())


def measure_conditional(problem: Problem, seed: int, budget: float) -> Measurement:
    """Measure the step with the bound that leads to conditional moves."""
    from pymc_flymc import JaakkolaJordan

    return measure(problem, seed, budget, bound=JaakkolaJordan())


def measure_hmc(problem: Problem, seed: int, budget: float) -> Measurement:
    """Measure the step with Hamiltonian moves."""
    return measure(problem, seed, budget, kind="FireflyHMC")


def measure_mala(problem: Problem, seed: int, budget: float) -> Measurement:
    """Measure the step with Langevin moves."""
    return measure(problem, seed, budget, kind="FireflyMALA")


def measure_slice(problem: Problem, seed: int, budget: float) -> Measurement:
    """Measure the step with slice moves."""
    return measure(problem, seed, budget, kind="FireflySlice")


def measure(
    problem: Problem, seed: int, budget: float, kind: str = "FireflyMH", **settings: Any
) -> Measurement:
    """Two chains on two cores, PyMC's default number of draws."""
    import pymc as pm

    import pymc_flymc

    make_step = getattr(pymc_flymc, kind)
    with problem.model():
        # Fill the compilation cache; nothing of this run is kept.
        options = {"chains": 2, "cores": 2, "progressbar": False, "random_seed": seed}
        pm.sample(step=make_step(**settings), tune=10, draws=10, **options)

        began = time.perf_counter()
        step = make_step(**settings)
        ready = time.perf_counter()
        clock = Clock()
        idata = pm.sample(step=step, callback=clock, **options)
        wall = time.perf_counter() - ready
    ess = smallest_ess(draws_of(idata))
    queries = idata.sample_stats["likelihood_queries"]
    return Measurement(
        setup=ready - began,
        warmup=wall - clock.steady(),
        rate=ess / clock.steady(),
        rows=float(queries.sum()) / ess,
        ess=ess,
        bright=float(idata.sample_stats["n_bright"].mean()) / len(problem.y),
        queries=float(queries.mean()),
        chosen="" if settings or step.bounds[0] is None else step.bounds[0].name,
    )
