"""NUTS on all rows, and on shards of them whose draws are averaged, by nutpie."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from examples.comparison.clock import clock
from examples.comparison.measurement import FIRST, POINTS, Curve, Task, TooSlow, chosen, curve_of

#: Draws in which step size and metric are tuned.
TUNE = 300


def sample(compiled: Any, task: Task, seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Draws of one chain, shape (T, D), gradients up to each from the first on, and their cost.

    Raises
    ------
    TooSlow
        If there are no twenty draws in twelve times the task's seconds.
    """
    import nutpie

    began = clock()
    sampler = nutpie.sample(
        compiled,
        draws=task.draws,
        tune=TUNE,
        chains=1,
        cores=1,
        seed=seed,
        progress_bar=False,
        blocking=False,
    )
    taken = 0.0
    while not _finished(sampler) and taken < 12 * task.seconds:
        time.sleep(min(0.3, task.seconds / 20))
        taken = clock() - began
        if taken > task.seconds:
            length = _length(sampler.inspect())
            if length >= FIRST and task.over(taken, length):
                break
    taken = clock() - began
    trace = sampler.abort()
    if _length(trace) < min(FIRST, task.draws):
        raise TooSlow
    tuning = trace.warmup_sample_stats["n_steps"].to_numpy().sum()
    steps = tuning + np.cumsum(trace.sample_stats["n_steps"].to_numpy()[0])
    return trace.posterior["beta"].to_numpy()[0], steps, taken / steps[-1]


def _finished(sampler: Any) -> bool:
    try:
        return bool(sampler.is_finished)
    except TimeoutError:
        return False


def _length(trace: Any) -> int:
    return trace.posterior.sizes["draw"] if "posterior" in trace.children else 0


def run_nuts(task: Task) -> Curve:
    """Run NUTS as nutpie has it."""
    import nutpie

    compiled = nutpie.compile_pymc_model(task.problem.model())
    draws, steps, cost = sample(compiled, task, task.seed)
    n = len(task.problem.y)
    return curve_of(draws, steps * float(n), steps * cost, steps[0] * n)


def run_consensus(task: Task, n_shards: int) -> Curve:
    """Average draws of shards' posteriors, weighted with their inverse covariances.

    Consensus Monte Carlo (Scott et al. 2016): the prior is shared out among the shards, and the
    rows are at random. Draws and rows are those of all shards, as if done one after the other.
    """
    import nutpie
    import pymc as pm

    X, y = task.problem.X, task.problem.y
    order = np.random.default_rng(task.seed).permutation(len(y))
    shards = np.split(order[: len(y) - len(y) % n_shards], n_shards)
    with pm.Model() as model:
        design = pm.Data("design", X[shards[0]])
        labels = pm.Data("labels", y[shards[0]])
        beta = pm.Flat("beta", shape=X.shape[1])
        prior = pm.logp(pm.Logistic.dist(0, 1, shape=X.shape[1]), beta).sum()
        pm.Potential("prior", prior / n_shards)
        pm.Bernoulli("y", logit_p=design @ beta, observed=labels)
    compiled = nutpie.compile_pymc_model(model)
    share = replace(task, seconds=task.seconds / n_shards)
    parts = [
        sample(compiled.with_data(design=X[shard], labels=y[shard]), share, task.seed + i)
        for i, shard in enumerate(shards)
    ]
    length = min(len(draws) for draws, _, _ in parts)
    rows, seconds = np.zeros(length), np.zeros(length)
    for (_, steps, cost), shard in zip(parts, shards, strict=True):
        rows += steps[:length] * float(len(shard))
        seconds += steps[:length] * cost
    theta = np.stack([draws[:length] for draws, _, _ in parts])
    ends = np.unique(np.geomspace(min(2 * X.shape[1], length), length, POINTS).astype(int))
    averages = [average(theta[:, :end]) for end in ends]
    return Curve(
        rows[ends - 1],
        seconds[ends - 1],
        np.array([part.mean(axis=0) for part in averages]),
        np.array([part.std(axis=0) for part in averages]),
        length,
        curve_of(averages[-1], rows, seconds).own_error,
    )


def average(draws: np.ndarray) -> np.ndarray:
    """Consensus of shards' draws, shape (shards, T, D): their weighted averages, shape (T, D)."""
    weights = np.array([np.linalg.inv(np.cov(shard, rowvar=False)) for shard in draws])
    total = np.einsum("jtd,jde->te", draws, weights)
    return np.linalg.solve(weights.sum(axis=0), total.T).T


def run_chosen_consensus(task: Task) -> Curve:
    return chosen(task, (2, 8), run_consensus, "shards")
