"""Steps on composed models, compared with NUTS."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import arviz as az
import numpy as np
import pymc as pm

from pymc_flymc import (
    FireflyHMC,
    FireflyMALA,
    FireflyMH,
    FireflySlice,
)
from tests.composed.models import Composed, composed, grouped
from tests.support.comparison import reference_from_draws
from tests.support.nuts import draws_of
from tests.support.steps import step_of

__all__ = ["Verdict", "compare", "compare_local"]

#: Each model has the next of these.
STEPS = [(FireflyMH, {}), (FireflyHMC, {}), (FireflySlice, {"transitions": 10})]
#: With rare terms all moves that may be asked for take turns.
ALL_STEPS: list[tuple[type, dict[str, Any]]] = [
    *STEPS,
    (FireflyMALA, {"transitions": 10}),
    (FireflyMH, {"kernel": "joint", "transitions": 10}),
    (FireflyMH, {"kernel": "surrogate"}),
    (FireflyMH, {"kernel": "metropolis"}),
    (FireflyMH, {"kernel": "hamiltonian"}),
    (FireflyMH, {"kernel": "local"}),
]
#: Chains that have not converged say nothing of a posterior; users see the same statistic.
CONVERGED = 1.02
DRAWS = 4000
#: Effective draws from which on an error of a quantile is one.
LEAST = 100


@dataclass(frozen=True)
class Verdict:
    """What was seen of a model.

    Attributes
    ----------
    pieces : tuple of str
    said : str
        Whether it was compared, and if not, why.
    score : float
        Largest difference from NUTS of a mean, sd or quantile, in errors; NaN if there is none.
    n_numbers : int
        How many were compared.
    """

    pieces: tuple[str, ...]
    said: str
    score: float = np.nan
    n_numbers: int = 0

    def __str__(self) -> str:
        score = "" if np.isnan(self.score) else f"{self.score:.2f} of {self.n_numbers}"
        return f"| {', '.join(self.pieces)} | {self.said} | {score} |"


def compare(seed: int, rare: str | None = None) -> Verdict:
    """Sample a model by a step and by NUTS, and compare them."""
    found = composed(seed, rare)
    steps = ALL_STEPS if rare else STEPS
    kind, settings = steps[seed % len(steps)]
    return _compare(found, found.model, kind, settings, seed)


def compare_local(seed: int) -> Verdict:
    """Sample a model of one grouping factor by local sweeps and by NUTS, and compare them."""
    found, plain = grouped(seed)
    return _compare(found, plain, FireflyMH, {"kernel": "local"}, seed)


def _compare(
    found: Composed, plain: pm.Model, kind: type, settings: dict[str, Any], seed: int
) -> Verdict:
    pieces = (*found.pieces, kind.__name__, *map(str, settings.values()))
    try:
        step = step_of(found.model, kind, **settings)
    except ValueError as error:  # of the model, or of moves that are not for it
        reason = str(error).splitlines()[0]
        return Verdict(pieces, f"refused: {reason}")
    options = dict(chains=2, cores=1, progressbar=False, random_seed=seed)
    names = [rv.name for rv in found.model.free_RVs]
    own = pm.sample(step=step, model=found.model, tune=1000, draws=DRAWS, **options)
    ours = draws_of(own, names)
    with _quiet_pytensor():
        # Some have narrow ends, where longer steps diverge.
        nuts = pm.NUTS(target_accept=0.95, model=plain)
        other = pm.sample(step=nuts, model=plain, tune=1000, draws=DRAWS // 2, **options)
    theirs = draws_of(other, names)
    for sampler, each in (("step", ours), ("NUTS", theirs)):
        r_hat = float(np.max(az.rhat(each)))
        if not r_hat < CONVERGED:
            return Verdict(pieces, f"R-hat of the {sampler} is {r_hat:.2f}")
    a, b = reference_from_draws(ours, LEAST), reference_from_draws(theirs, LEAST)
    scores = [
        np.abs(a.values[key] - b.values[key]) / np.hypot(a.errors[key], b.errors[key])
        for key in a.values
    ]
    every = np.concatenate(scores)
    return Verdict(pieces, "compared", float(np.max(every)), every.size)


@contextmanager
def _quiet_pytensor() -> Iterator[None]:
    """Of sparse matrices in NUTS: a rewrite of PyTensor's fails on them, and says so at length."""
    log = logging.getLogger("pytensor")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)
