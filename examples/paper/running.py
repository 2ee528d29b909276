"""Run a line of an experiment, and keep what tables and figures need."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
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
        Factor of all numbers of draws.
    """

    chains: int = 2
    cores: int = 2
    seed: int = 1
    length: float = 1.0


@dataclass(frozen=True)
class Run:
    """Draws of all chains, and those on their way to the posterior.

    Attributes
    ----------
    line : Line
    draws : ndarray, shape (chains, n, D)
    burning : ndarray, shape (chains, m, D)
        Draws on the way from the prior to the posterior; none but for the paper's algorithms.
    queries, burning_queries : ndarray, shape (chains, n) and (chains, m)
        Rows whose likelihood was read in each draw.
    bright : ndarray, shape (chains, n)
        Bright rows after each draw.
    """

    line: Line
    draws: np.ndarray
    burning: np.ndarray
    queries: np.ndarray
    burning_queries: np.ndarray
    bright: np.ndarray

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
    def queries_for_an_effective_draw(self) -> float:
        """Rows read per effective draw of the median parameter."""
        return float(self.queries.sum() / np.median(self.ess))

    @property
    def mean_queries(self) -> float:
        """Rows read in an iteration."""
        return float(self.queries.mean())


def run_line(line: Line, model: Model, settings: Settings) -> Run:
    """Sample a line's chains.

    They tune around the posterior mode. Those of the paper's algorithms then jump to a draw from
    the prior, brightness drawn afresh there, and make their way to the posterior with what they
    have learnt: step sizes are fixed, and bounds are where they were.
    """
    with model.pymc:
        step = line.step()
    point = model.pymc.initial_point()
    lengths = [max(20, round(n * settings.length)) for n in (line.tune, line.burn, line.draws)]
    rng = np.random.default_rng(settings.seed)
    starts = [model.draw_prior(rng) if line.of_paper else None for _ in range(settings.chains)]
    # Of each line its own: two that take the same kernel would make the same draws.
    seeds = np.random.SeedSequence([settings.seed, *line.key.encode()]).spawn(settings.chains)
    jobs = [(step, point, start, *lengths, seed) for start, seed in zip(starts, seeds, strict=True)]
    if settings.cores == 1:
        chains = [_drive(*job) for job in jobs]
    else:
        with ProcessPoolExecutor(settings.cores) as pool:
            chains = list(pool.map(_drive, *zip(*jobs, strict=True)))
    thetas, queries, bright = (np.stack(arrays) for arrays in zip(*chains, strict=True))
    if line.gradient_kept:
        queries = _once(queries, bright)
    burn = lengths[1] if line.of_paper else 0
    return Run(
        line,
        thetas[:, burn:],
        thetas[:, :burn],
        queries[:, burn:],
        queries[:, :burn],
        bright[:, burn:],
    )


def _drive(
    step: Any,
    point: dict[str, np.ndarray],
    start: np.ndarray | None,
    tune: int,
    burn: int,
    draws: int,
    seed: np.random.SeedSequence,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Drive a step as `pm.sample` does, and return all draws after tuning.

    Shapes are (n, D), (n,) and (n,): parameters, queries, bright rows. With a start the first
    `burn` draws lead from there to the posterior.
    """
    step.setup_chain(np.random.default_rng(seed), tune, draws)
    for _ in range(tune):
        point, _ = step.step(point)
    step.stop_tuning()
    n = draws
    if start is not None:
        point, n = {**point, "beta": start}, burn + draws
    thetas = np.empty((n, point["beta"].size))
    queries, bright = np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        point, [statistics] = step.step(point)
        thetas[i] = point["beta"].ravel()
        queries[i], bright[i] = statistics["likelihood_queries"], statistics["n_bright"]
    return thetas, queries, bright


def _once(queries: np.ndarray, bright: np.ndarray) -> np.ndarray:
    """Leave out the rows that are bright when an iteration begins, whose gradient is known."""
    before = np.concatenate([bright[:, :1], bright[:, :-1]], axis=1)
    return np.maximum(queries - before, 0)
