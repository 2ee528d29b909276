"""Open questions of the paper (section 5) and of the report on its reproduction, by experiment.

Each function samples, and returns a title, a header and rows of cells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from examples.benchmarks.problem import synthetic
from examples.paper.data import Data
from examples.paper.experiments import Line
from examples.paper.models import Model, logistic, softmax
from examples.paper.running import Run, Settings, run_line
from examples.paper.table import digits
from pymc_flymc import (
    Bohning,
    FireflyHMC,
    FireflyMALA,
    FireflyMH,
    FireflySlice,
    ImplicitResampling,
    JaakkolaJordan,
    JebaraChoromanska,
    Taylor,
)

__all__ = [
    "Answer",
    "automatic_bounds",
    "gradients",
    "joint_updates",
    "larger_data",
    "per_datum_q",
    "several_draws",
]

#: Title, header, rows.
Answer = tuple[str, tuple[str, ...], list[list[str]]]
SIZES = (1_000, 10_000, 100_000)


def automatic_bounds(settings: Settings, sizes: tuple[int, ...] = SIZES) -> Answer:
    """Bright rows under bounds made for a likelihood, and under Taylor's, which asks for none."""
    quadratic = {"Jaakkola-Jordan": JaakkolaJordan(slack=0)}
    several = {"Böhning": Bohning(slack=0), "Jebara-Choromanska": JebaraChoromanska(slack=0)}
    taylor = {"Taylor, order 2": Taylor()}
    cases = {
        "logistic, 5 coefficients": ("logistic", 5, quadratic | taylor | {"order 3": Taylor(3)}),
        "logistic, 20 coefficients": ("logistic", 20, quadratic | taylor | {"order 3": Taylor(3)}),
        "softmax, 3 classes, 8 coefficients": ("softmax", 4, several | taylor),
    }
    rows = []
    for label, (likelihood, n_columns, bounds) in cases.items():
        models = [_simulated(n, n_columns, likelihood) for n in sizes]
        for name, bound in bounds.items():
            step = _conditional(bound)
            runs = [run_line(_line(name, step, 300, 600), model, settings) for model in models]
            rows.append([label, name, *(digits(float(run.bright.mean())) for run in runs)])
    header = ("model", "bound", *(f"bright rows, N = {n:,}" for n in sizes))
    return "Automatic bounds: rows bright without slack", header, rows


def per_datum_q(data: Data, settings: Settings) -> Answer:
    """One proposal probability for all dark rows, as in the paper, or one for each row."""
    choices = {f"q = {q} for all rows": ImplicitResampling(q=q) for q in (0.001, 0.01, 0.1)}
    choices |= {f"q by row, ratio {r}": ImplicitResampling(ratio=r) for r in (0.25, 0.5, 1.0, 2.0)}
    model, rows = logistic(data), []
    for name, brightness in choices.items():
        step = _walk(JaakkolaJordan(), brightness)
        rows.append([name, *_costs(run_line(_line(name, step, 3000, 20_000), model, settings))])
    return f"Proposal probabilities by row: {data.source}", ("brightness", *COSTS), rows


def joint_updates(settings: Settings, sizes: tuple[int, ...] = SIZES) -> Answer:
    """Parameters and brightness in turn, or together."""
    choices: dict[str, Callable[[], Any]] = {
        "in turn, Jaakkola-Jordan": _conditional(JaakkolaJordan()),
        "in turn, Taylor": _conditional(Taylor()),
        "together, Taylor": lambda: FireflyMH(kernel="joint"),
        "together, through a surrogate": lambda: FireflyMH(kernel="surrogate"),
    }
    models = [_simulated(n, 10) for n in sizes]
    rows = []
    for name, step in choices.items():
        runs = [run_line(_line(name, step, 500, 1500), model, settings) for model in models]
        rows.append([name, *(digits(run.queries_for_an_effective_draw) for run in runs)])
    header = ("update", *(f"rows per effective draw, N = {n:,}" for n in sizes))
    return "Joint updates: logistic regression, 10 coefficients", header, rows


def several_draws(data: Data, settings: Settings, n_draws: int = 200) -> Answer:
    """Bounds that touch at the mode, or are best on average over draws of the posterior.

    For draws theta_s the sum of expected gaps is least at xi_n^2 = mean of (x_n' theta_s)^2
    (Jaakkola & Jordan 1997, the M step of their EM algorithm).
    """
    model = logistic(data)
    pilot = run_line(_line("pilot", FireflyHMC, 300, n_draws), model, replace(settings, length=1.0))
    eta = data.X @ pilot.draws.reshape(-1, data.X.shape[1])[:n_draws].T
    few = {f"over {k} draws": np.sqrt(np.mean(eta[:, :k] ** 2, axis=1)) for k in (1, 10, n_draws)}
    rows = []
    for slack in (0.0, 2.0):
        for name, xi in ({"at the mode": None} | few).items():
            # Under bounds that touch, rows with a small q of their own would settle slowly.
            brightness = None if slack else ImplicitResampling(q=0.01)
            step = _walk(JaakkolaJordan(xi, slack=slack), brightness)
            run = run_line(_line(name, step, 3000, 20_000), model, settings)
            rows.append([name, digits(slack), digits(float(run.bright.mean())), *_costs(run)])
    header = ("tuned", "slack", "bright rows", *COSTS)
    return f"Bounds tuned over draws of the posterior: {data.source}", header, rows


def gradients(data: Data, settings: Settings) -> Answer:
    """Kernels with and without gradients, given the brightness, with this package's defaults."""
    choices: dict[str, tuple[Callable[[], Any], int]] = {
        "random walk": (_walk(JaakkolaJordan(), None), 20_000),
        "random walk and pCN": (lambda: FireflyMH(kernel="metropolis", transitions=1), 20_000),
        "slices, random directions": (
            lambda: FireflySlice(direction="random", transitions=1),
            10_000,
        ),
        "Langevin": (lambda: FireflyMALA(transitions=1), 10_000),
        "Hamiltonian": (lambda: FireflyHMC(transitions=1), 5_000),
    }
    model, rows = logistic(data), []
    for name, (step, draws) in choices.items():
        rows.append([name, *_costs(run_line(_line(name, step, 2000, draws), model, settings))])
    return f"Kernels given the brightness: {data.source}", ("kernel", *COSTS), rows


def larger_data(
    settings: Settings, sizes: tuple[int, ...] = (10_000, 100_000, 1_000_000)
) -> Answer:
    """Rows read per effective draw as N grows."""
    choices = {
        "paper, tuned, q = 0.01": (
            _isotropic(JaakkolaJordan(slack=0), ImplicitResampling(q=0.01)),
            3000,
            12_000,
        ),
        "the same, slack and q by row": (_isotropic(JaakkolaJordan(), None), 3000, 12_000),
        "FireflyMH()": (FireflyMH, 500, 1500),
    }
    models = [_simulated(n, 10) for n in sizes]
    line = _line("regular", _isotropic(None, None), 1000, 5000)
    regular = run_line(line, models[0], settings).queries_for_an_effective_draw
    rows = [["regular MCMC", *(digits(regular * n / sizes[0]) for n in sizes)]]
    rows[0][2:] = [f"{cell} (in proportion)" for cell in rows[0][2:]]
    for name, (step, tune, draws) in choices.items():
        runs = [run_line(_line(name, step, tune, draws), model, settings) for model in models]
        rows.append([name, *(digits(run.queries_for_an_effective_draw) for run in runs)])
    header = ("sampler", *(f"rows per effective draw, N = {n:,}" for n in sizes))
    return "Larger data: simulated logistic regression, 10 coefficients", header, rows


COSTS = (
    "queries per iteration",
    "ESS per 1,000 iterations",
    "effective draws per million queries",
)


def _costs(run: Run) -> list[str]:
    """Cells under `COSTS`, the median parameter's."""
    ess = float(np.median(run.ess_per_thousand))
    numbers = (run.mean_queries, ess, 1e6 / run.queries_for_an_effective_draw)
    return [digits(number) for number in numbers]


def _simulated(n_rows: int, n_columns: int, likelihood: str = "logistic") -> Model:
    problem = synthetic(n_rows, n_columns, 0, likelihood)
    make = logistic if likelihood == "logistic" else softmax
    return make(Data(problem.X, problem.y, "simulated", True), 1.0)


def _line(name: str, step: Callable[[], Any], tune: int, draws: int) -> Line:
    return Line(name, name, step, tune, 0, draws)


def _conditional(bound: Any) -> Callable[[], Any]:
    return lambda: FireflyMH(bound=bound, kernel="metropolis")


def _walk(bound: Any, brightness: Any) -> Callable[[], Any]:
    settings = dict(bound=bound, brightness=brightness, kernel="metropolis")
    return lambda: FireflyMH(proposal="random_walk", transitions=1, **settings)


def _isotropic(bound: Any, brightness: Any) -> Callable[[], Any]:
    settings = dict(bound=bound, brightness=brightness, kernel="metropolis")
    return lambda: FireflyMH(proposal="isotropic", transitions=1, **settings)
