"""Independence Metropolis-Hastings on all rows: the simplest exact method."""

from __future__ import annotations

import numpy as np

from examples.comparison.laplace import Laplace, log_densities
from examples.comparison.measurement import Curve, Task, curve_of, repeat
from examples.comparison.problem import Problem

BATCH = 256


class Chain:
    """Independence Metropolis-Hastings; proposals are normal, or Student t if `nu` is finite."""

    def __init__(
        self, problem: Problem, laplace: Laplace, rng: np.random.Generator, nu: float = np.inf
    ) -> None:
        self.problem, self.laplace, self.rng, self.nu = problem, laplace, rng, nu
        self.current, self.weight = laplace.mode, -np.inf

    def advance(self) -> np.ndarray:
        """Return the next `BATCH` draws, shape (BATCH, D)."""
        n = len(self.laplace.mode)
        v = self.rng.standard_normal((n, BATCH))
        log_q = -0.5 * (v**2).sum(axis=0)
        if np.isfinite(self.nu):
            v /= np.sqrt(self.rng.chisquare(self.nu, BATCH) / self.nu)
            log_q = -0.5 * (self.nu + n) * np.log1p((v**2).sum(axis=0) / self.nu)
        proposals = self.laplace.mode[:, None] + self.laplace.factor @ v
        weights = log_densities(self.problem, proposals) - log_q
        out = np.empty((BATCH, n))
        for i, log_u in enumerate(np.log(self.rng.random(BATCH))):
            if log_u < weights[i] - self.weight:
                self.current, self.weight = proposals[:, i], weights[i]
            out[i] = self.current
        return out


def run(task: Task) -> Curve:
    """Run a chain with proposals from the Laplace approximation."""
    chain = Chain(task.problem, task.laplace, np.random.default_rng(task.seed))
    parts, seconds = repeat(task, chain.advance, BATCH, task.laplace.seconds)
    draws = np.concatenate(parts)
    rows = task.laplace.rows + np.arange(1, len(draws) + 1) * float(len(task.problem.y))
    return curve_of(draws, rows, seconds, task.laplace.rows)
