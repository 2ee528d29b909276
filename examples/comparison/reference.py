"""The long exact run that errors are measured against: all rows, no library."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from examples.comparison.clock import clock
from examples.comparison.independence import BATCH, Chain
from examples.comparison.laplace import Laplace, log_densities
from examples.comparison.measurement import Moments
from examples.comparison.problem import Problem

#: Degrees of freedom of independent proposals: their tails are heavier than the posterior's.
NU = 8.0
#: Chains of Hamiltonian Monte Carlo that go side by side, and draws in which they tune.
CHAINS, TUNE = 16, 200


def reference(
    problem: Problem, laplace: Laplace, seed: int, seconds: float, draws: int
) -> tuple[Moments, str]:
    """Moments, and what they come from.

    Independence Metropolis-Hastings where it accepts more than half of its proposals, else
    Hamiltonian Monte Carlo.
    """
    rng = np.random.default_rng(seed)
    chain = Chain(problem, laplace, rng, NU)
    part = chain.advance()
    if len(np.unique(part[:, 0])) > BATCH / 2:
        name, found = "independence MH", _collect(chain.advance, seconds, draws)[None]
    else:
        hmc = Hamiltonian(problem, laplace, rng)
        hmc.tune()
        name, found = "HMC", _collect(hmc.advance, seconds, draws // CHAINS).swapaxes(0, 1)
    return Moments.of(found), f"{found.shape[0] * found.shape[1]:,} draws of {name} on all rows"


def _collect(advance: Callable[[], np.ndarray], seconds: float, draws: int) -> np.ndarray:
    parts: list[np.ndarray] = []
    began = clock()
    while not parts or (clock() - began < seconds and sum(map(len, parts)) < draws):
        parts.append(advance())
    return np.concatenate(parts)


class Hamiltonian:
    """Chains side by side, which share the passes over the rows; coordinates are standardised."""

    def __init__(self, problem: Problem, laplace: Laplace, rng: np.random.Generator) -> None:
        self.problem, self.rng = problem, rng
        self.X, self.y = problem.with_prior_as_rows()
        self.factor = laplace.factor
        start = rng.standard_normal((len(laplace.mode), CHAINS))
        self.theta = laplace.mode[:, None] + self.factor @ start
        self.value = log_densities(problem, self.theta)
        self.step = 0.5

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """In standardised coordinates, for each chain, shape (D, CHAINS)."""
        out = np.zeros_like(theta)
        for start in range(0, len(self.y), 4096):
            rows = slice(start, start + 4096)
            p = self.X[rows] @ theta
            np.exp(-p, out=p)
            p += 1
            np.divide(1, p, out=p)
            out += self.X[rows].T @ (self.y[rows, None] - p)
        return self.factor.T @ out

    def advance(self) -> np.ndarray:
        """Return a draw of each chain, shape (1, CHAINS, D)."""
        momentum = self.rng.standard_normal(self.theta.shape)
        steps = int(np.ceil(self.rng.random() * np.pi / self.step))
        theta, energy = self.theta, self.value - 0.5 * (momentum**2).sum(axis=0)
        momentum = momentum + 0.5 * self.step * self.gradient(theta)
        for i in range(steps):
            theta = theta + self.step * (self.factor @ momentum)
            half = 0.5 if i == steps - 1 else 1.0
            momentum = momentum + half * self.step * self.gradient(theta)
        value = log_densities(self.problem, theta)
        log_ratio = np.minimum(0, value - 0.5 * (momentum**2).sum(axis=0) - energy)
        self.accepted = float(np.exp(log_ratio).mean())
        taken = np.log(self.rng.random(CHAINS)) < log_ratio
        self.theta = np.where(taken, theta, self.theta)
        self.value = np.where(taken, value, self.value)
        return self.theta.T[None].copy()

    def tune(self) -> None:
        """Learn the metric from the second half of the first draws, and the step size."""
        seen = []
        for i in range(TUNE):
            seen.append(self.advance()[0])
            self.step *= np.exp(0.1 * (self.accepted - 0.8))
            if i == TUNE // 2:
                draws = np.concatenate(seen[TUNE // 10 :])
                self.factor = np.linalg.cholesky(np.cov(draws, rowvar=False))
