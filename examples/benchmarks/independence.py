"""The simple baseline: Laplace approximation, then independence Metropolis-Hastings on all rows."""

from __future__ import annotations

import multiprocessing
import time

import numpy as np

from examples.benchmarks.measurement import Measurement, smallest_ess
from examples.benchmarks.problem import Problem

ROWS, BATCH = 4096, 256
DRAWS = 4000


def log_densities(problem: Problem, thetas: np.ndarray) -> np.ndarray:
    """Log posterior densities, up to a constant, of the columns of `thetas` (D, B)."""
    out = -0.5 * (thetas**2).sum(axis=0)
    for start in range(0, len(problem.y), ROWS):
        eta = problem.X[start : start + ROWS] @ thetas
        out += problem.y[start : start + ROWS].astype(np.float64) @ eta
        if eta.max() > 500:  # where exp would overflow log(1 + exp(eta)) is eta
            out -= np.maximum(eta - 500, 0).sum(axis=0)
            np.minimum(eta, 500, out=eta)
        np.exp(eta, out=eta)
        np.log1p(eta, out=eta)
        out -= eta.sum(axis=0)
    return out


def laplace(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mode, and a Cholesky factor of the covariance, by damped Newton steps."""
    X, y = problem.X, problem.y
    theta = np.zeros(X.shape[1])
    value = log_densities(problem, theta[:, None])[0]
    while True:
        p = 1 / (1 + np.exp(-(X @ theta)))
        precision = np.eye(len(theta))
        for start in range(0, len(y), ROWS):
            rows = slice(start, start + ROWS)
            part = X[rows] * np.sqrt(p[rows] * (1 - p[rows]))[:, None]
            precision += part.T @ part
        step = np.linalg.solve(precision, X.T @ (y - p) - theta)
        if step @ precision @ step < 1e-8:
            return theta, np.linalg.cholesky(np.linalg.inv(precision))
        scale, new = 1.0, -np.inf
        while new < value and scale > 1e-6:
            new = log_densities(problem, (theta + scale * step)[:, None])[0]
            scale /= 2
        theta, value = theta + 2 * scale * step, new


def run_chain(
    problem: Problem, mode: np.ndarray, factor: np.ndarray, seed: np.random.SeedSequence, draws: int
) -> np.ndarray:
    """One chain, shape (draws, D): proposals in batches, then a scan of acceptances."""
    rng = np.random.default_rng(seed)
    out = np.empty((draws, len(mode)))
    current, weight = mode, -np.inf
    for start in range(0, draws, BATCH):
        noise = rng.standard_normal((len(mode), min(BATCH, draws - start)))
        proposals = mode[:, None] + factor @ noise
        weights = log_densities(problem, proposals) + 0.5 * (noise**2).sum(axis=0)
        for i, log_u in enumerate(np.log(rng.random(noise.shape[1]))):
            if log_u < weights[i] - weight:
                current, weight = proposals[:, i], weights[i]
            out[start + i] = current
    return out


def measure(problem: Problem, seed: int, budget: float) -> Measurement:
    """Two chains in two processes; fewer draws than usual if these would exceed the budget."""
    began = time.perf_counter()
    mode, factor = laplace(problem)
    setup = time.perf_counter() - began

    began = time.perf_counter()
    log_densities(problem, np.repeat(mode[:, None], 16, axis=1))
    per_draw = (time.perf_counter() - began) / 16
    draws = int(np.clip(budget / (2 * per_draw), 500, DRAWS))

    context = multiprocessing.get_context("fork")  # the chains share the data
    results = context.SimpleQueue()

    def work(chain_seed: np.random.SeedSequence) -> None:
        results.put(run_chain(problem, mode, factor, chain_seed, draws))

    began = time.perf_counter()
    chains = [
        context.Process(target=work, args=(s,)) for s in np.random.SeedSequence(seed).spawn(2)
    ]
    for chain in chains:
        chain.start()
    beta = np.stack([results.get() for _ in chains])
    steady = time.perf_counter() - began
    for chain in chains:
        chain.join()
    ess = smallest_ess({"beta": beta})
    rows = 2 * draws * len(problem.y) / ess
    return Measurement(setup=setup, warmup=0.0, rate=ess / steady, rows=rows, ess=ess)
