"""What differs from the paper on MNIST, and what each difference does.

Regular MCMC: proposals, prior scale, start, estimator. MAP-tuned FlyMC: how near the mode bounds
are tuned, for the paper's weights come from stochastic gradient descent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from examples.paper.data import Data
from examples.paper.ess import effective_size
from examples.paper.experiments import Line
from examples.paper.models import logistic
from examples.paper.questions import Answer
from examples.paper.running import Run, Settings, run_line
from examples.paper.table import digits
from pymc_flymc import FireflyHMC, FireflyMH, ImplicitResampling, JaakkolaJordan

__all__ = ["near_the_mode", "regular_mcmc"]

#: Draws after which the report on the reproduction ended a run.
SHORT = 2000
HEADER = (
    "proposals",
    "prior sd",
    "start",
    "R-CODA: median",
    "mean",
    "min",
    f"median of {SHORT:,} draws",
    "ArviZ: median",
    "min",
)


def regular_mcmc(data: Data, settings: Settings, draws: int = 6000) -> Answer:
    """ESS of 1,000 iterations of random-walk Metropolis-Hastings on all rows, in several ways."""
    import arviz as az

    cases = [("isotropic", scale, "prior") for scale in (0.1, 0.3, 1.0)]
    cases += [
        ("isotropic", 0.3, "mode"),
        ("standardised", 0.3, "prior"),
        ("standardised", 1.0, "mode"),
    ]
    rows = []
    for proposals, scale, start in cases:
        key = f"{proposals} {scale} {start}"
        proposal: Any = "isotropic" if proposals == "isotropic" else "random_walk"
        line = Line(key, key, lambda p=proposal: _regular(p), 800, 2000, draws, start == "prior")
        run = run_line(line, logistic(data, scale), settings)
        coda = run.ess_per_thousand
        arviz = 1000.0 * np.asarray(az.ess(run.draws, method="mean")) / run.n_draws
        numbers = (np.median(coda), coda.mean(), coda.min(), short_ess(run))
        numbers = (*numbers, np.median(arviz), arviz.min())
        cells = [digits(float(number)) for number in numbers]
        rows.append([proposals, digits(scale), start, *cells])
    return f"Regular MCMC, ESS of 1,000 iterations: {data.source}", HEADER, rows


def short_ess(run: Run) -> float:
    """Mean ESS of 1,000 iterations in runs of `SHORT` draws, the median parameter's."""
    n = min(SHORT, run.draws.shape[1])
    starts = range(0, run.draws.shape[1] - n + 1, n)
    pieces = [
        [effective_size(x) for x in chain[start : start + n].T]
        for chain in run.draws
        for start in starts
    ]
    return float(1000.0 / n * np.median(pieces, axis=1).mean())


def near_the_mode(data: Data, settings: Settings) -> Answer:
    """MAP-tuned FlyMC with bounds that touch near the mode instead of there.

    They touch at the posterior mean plus so many times the distance of a draw from it.
    """
    model = logistic(data)
    pilot = run_line(Line("pilot", "pilot", FireflyHMC, 300, 0, 500), model, settings)
    mean, draw = pilot.draws.mean(axis=(0, 1)), pilot.draws[0, -1]
    regular = Line("regular", "regular", lambda: _regular("isotropic"), 800, 2000, 6000, True)
    every = run_line(regular, model, settings)
    most, most_short = every.queries_for_an_effective_draw, every.mean_queries / short_ess(every)
    rows = []
    for distance in (0.0, 0.5, 0.75, 1.0, 1.5):
        xi = np.abs(data.X @ (mean + distance * (draw - mean)))
        line = Line("tuned", "tuned", lambda xi=xi: _tuned(xi), 3000, 8000, 40_000, True)
        run = run_line(line, model, settings)
        numbers = (distance, run.bright.mean(), run.mean_queries, np.median(run.ess_per_thousand))
        numbers = (*numbers, most / run.queries_for_an_effective_draw, short_ess(run))
        numbers = (*numbers, most_short * short_ess(run) / run.mean_queries)
        rows.append([digits(float(number)) for number in numbers])
    of_short = f"of runs of {SHORT:,} draws: ESS"
    header = ("distance", "bright rows", "queries", "ESS", "speedup", of_short, "speedup")
    return f"MAP-tuned FlyMC, tuned near the mode: {data.source}", header, rows


def _tuned(xi: np.ndarray) -> Any:
    return FireflyMH(
        bound=JaakkolaJordan(xi, slack=0),
        brightness=ImplicitResampling(q=0.01),
        proposal="isotropic",
        transitions=1,
    )


def _regular(proposal: Any) -> Any:
    return FireflyMH(bound=None, kernel="metropolis", proposal=proposal, transitions=1)
