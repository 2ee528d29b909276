"""The methods that the benchmark compares."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from examples.benchmarks import firefly, independence, nuts
from examples.benchmarks.measurement import Measurement
from examples.benchmarks.problem import Problem

#: Takes problem, seed, and the seconds that a run may take.
Method = Callable[[Problem, int, float], Measurement]

METHODS: dict[str, tuple[str, Method]] = {
    "firefly": ("FireflyMH()", firefly.measure),
    "conditional": ("FireflyMH(bound=JaakkolaJordan())", firefly.measure_conditional),
    "hmc": ("FireflyHMC()", firefly.measure_hmc),
    "mala": ("FireflyMALA()", firefly.measure_mala),
    "slice": ("FireflySlice()", firefly.measure_slice),
    "all-rows": ("FireflyMH(bound=None)", partial(firefly.measure, bound=None)),
    "nuts": ("pm.sample()", nuts.measure),
    "nuts-low-rank": (
        'pm.sample(nuts={"adaptation": "low_rank"})',
        partial(nuts.measure, adaptation="low_rank"),
    ),
    "independence": ("Laplace + independence MH", independence.measure),
}
#: Beyond so many rows a method is left out unless it is asked for.
MOST_ROWS = {"all-rows": 20_000, "nuts": 200_000, "nuts-low-rank": 200_000, "mala": 0, "slice": 0}


#: Methods that know logistic regression only.
LOGISTIC_ONLY = ("conditional", "independence")


def default_methods(n_rows: int, likelihood: str) -> list[str]:
    logistic = likelihood == "logistic"
    names = [name for name in METHODS if logistic or name not in LOGISTIC_ONLY]
    return [name for name in names if n_rows <= MOST_ROWS.get(name, n_rows)]
