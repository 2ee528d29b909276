"""Why regular MCMC is better here than in the paper: proposals, prior scale, start, estimator."""

from __future__ import annotations

from typing import Any

import numpy as np

from examples.paper.data import Data
from examples.paper.ess import effective_size
from examples.paper.experiments import Line
from examples.paper.models import logistic
from examples.paper.questions import Answer
from examples.paper.running import Settings, run_line
from examples.paper.table import digits
from pymc_flymc import FireflyMH

__all__ = ["regular_mcmc"]

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


def regular_mcmc(data: Data, settings: Settings, draws: int = 10_000) -> Answer:
    """ESS of 1,000 iterations of random-walk Metropolis-Hastings on all rows, in several ways."""
    import arviz as az

    cases = [("isotropic", scale, "prior") for scale in (0.1, 0.3, 1.0)]
    cases += [("isotropic", 0.3, "mode"), ("whitened", 0.3, "prior"), ("whitened", 1.0, "mode")]
    rows = []
    for proposals, scale, start in cases:
        key = f"{proposals} {scale} {start}"
        proposal: Any = "isotropic" if proposals == "isotropic" else "random_walk"
        line = Line(key, key, lambda p=proposal: _regular(p), 1500, 2500, draws, start == "prior")
        run = run_line(line, logistic(data, scale), settings)
        coda = run.ess_per_thousand
        short = [effective_size(x[:SHORT]) for chain in run.draws for x in chain.T]
        arviz = 1000.0 * np.asarray(az.ess(run.draws, method="mean")) / run.n_draws
        n_short = min(SHORT, run.draws.shape[1])
        numbers = (np.median(coda), coda.mean(), coda.min(), 1000 * np.median(short) / n_short)
        numbers = (*numbers, np.median(arviz), arviz.min())
        cells = [digits(float(number)) for number in numbers]
        rows.append([proposals, digits(scale), start, *cells])
    return f"Regular MCMC, ESS of 1,000 iterations: {data.source}", HEADER, rows


def _regular(proposal: Any) -> Any:
    return FireflyMH(bound=None, kernel="metropolis", proposal=proposal, transitions=1)
