"""Run a line of an experiment, and keep what tables and figures need."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from examples.paper.ess import effective_size
from examples.paper.experiments import Line
from examples.paper.models import Model

__all__ = ["Run", "Settings", "run_line"]


@dataclass(frozen=True)
class Settings:
    """How long, and on how many cores.

    Attributes
    ----------
    length : float
        Factor of the draws, and of the tuning draws, of each line.
    """

    chains: int = 2
    cores: int = 2
    seed: int = 1
    length: float = 1.0


@dataclass(frozen=True)
class Run:
    """Draws of all chains, the tuning ones apart.

    Attributes
    ----------
    line : Line
    draws, tuning : ndarray, shape (chains, n, D)
    queries, tuning_queries : ndarray, shape (chains, n)
        Rows whose likelihood was read in each draw.
    bright : ndarray, shape (chains, n)
    tuning_bright : ndarray, shape (chains, n)
    """

    line: Line
    draws: np.ndarray
    tuning: np.ndarray
    queries: np.ndarray
    tuning_queries: np.ndarray
    bright: np.ndarray
    tuning_bright: np.ndarray

    @cached_property
    def ess(self) -> np.ndarray:
        """Effective size of all chains together, for each parameter, shape (D,)."""
        sizes = [[effective_size(x) for x in chain.T] for chain in self.draws]
        return np.sum(sizes, axis=0)

    @property
    def n_draws(self) -> int:
        """Draws of all chains."""
        return self.draws.shape[0] * self.draws.shape[1]

    @property
    def ess_per_thousand(self) -> np.ndarray:
        """Effective draws of 1,000 iterations, for each parameter, shape (D,)."""
        return 1000.0 * self.ess / self.n_draws

    @property
    def mean_queries(self) -> float:
        """Rows read in an iteration."""
        return float(self.queries.mean())


def run_line(line: Line, model: Model, settings: Settings) -> Run:
    """Sample a line's chains; those of the paper's algorithms start from draws of the prior."""
    import pymc as pm

    rng = np.random.default_rng(settings.seed)
    starts = [{"beta": model.draw_prior(rng)} for _ in range(settings.chains)]
    with model.pymc:
        step = line.step()
        idata = pm.sample(
            step=step,
            tune=max(10, round(line.tune * settings.length)),
            draws=max(20, round(line.draws * settings.length)),
            chains=settings.chains,
            cores=settings.cores,
            initvals=starts if line.of_paper else None,
            random_seed=settings.seed,
            discard_tuned_samples=False,
            compute_convergence_checks=False,
            progressbar=False,
        )

    def flat(group: Any) -> np.ndarray:
        values = group["beta"].to_numpy()
        return values.reshape(*values.shape[:2], -1)

    bright = np.concatenate(
        [idata.warmup_sample_stats["n_bright"], idata.sample_stats["n_bright"]], axis=1
    )
    queries = np.concatenate(
        [
            idata.warmup_sample_stats["likelihood_queries"],
            idata.sample_stats["likelihood_queries"],
        ],
        axis=1,
    )
    if line.gradient_kept:
        queries = _once(queries, bright)
    tuned = idata.warmup_posterior.sizes["draw"]
    return Run(
        line,
        flat(idata.posterior),
        flat(idata.warmup_posterior),
        queries[:, tuned:],
        queries[:, :tuned],
        bright[:, tuned:],
        bright[:, :tuned],
    )


def _once(queries: np.ndarray, bright: np.ndarray) -> np.ndarray:
    """Leave out the rows that are bright when an iteration begins, whose gradient is known."""
    before = np.concatenate([bright[:, :1], bright[:, :-1]], axis=1)
    return np.maximum(queries - before, 0)
