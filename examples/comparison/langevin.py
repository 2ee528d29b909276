"""Stochastic gradient Langevin dynamics, and its control variate form, by blackjax."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from examples.comparison.clock import clock
from examples.comparison.measurement import Curve, Task, chosen, curve_of, repeat

#: Rows of a minibatch; steps of which one is kept; kept ones between two looks at the clock.
BATCH, THIN, BLOCK = 500, 10, 50


def run(task: Task, step_size: float, control_variates: bool) -> Curve:
    """Run a chain of constant step size from the mode, in coordinates standardised there."""
    import blackjax
    import jax
    import jax.numpy as jnp
    from blackjax.sgmcmc import gradients

    jax.config.update("jax_enable_x64", True)
    mode, factor = task.laplace.mode, task.laplace.factor
    n, d = task.problem.X.shape
    data = (
        jnp.asarray(task.problem.X @ factor),
        jnp.asarray(task.problem.X @ mode),
        jnp.asarray(task.problem.y),
    )

    def log_prior(v: Any) -> Any:
        return jax.scipy.stats.logistic.logpdf(mode + factor @ v).sum()

    def log_likelihood(v: Any, row: Any) -> Any:
        z, offset, y = row
        eta = offset + z @ v
        return y * eta - jax.nn.softplus(eta)

    began = clock() - task.laplace.seconds
    estimator = gradients.grad_estimator(log_prior, log_likelihood, n)
    if control_variates:
        estimator = gradients.control_variates(estimator, jnp.zeros(d), data)
    kernel = blackjax.sgld(estimator)

    def step(data: Any, v: Any, key: Any) -> tuple[Any, None]:
        key_rows, key_noise = jax.random.split(key)
        rows = jax.random.randint(key_rows, (BATCH,), 0, n)
        batch = tuple(column[rows] for column in data)
        return kernel.step(key_noise, v, batch, step_size), None

    def keep(data: Any, v: Any, key: Any) -> tuple[Any, Any]:
        v, _ = jax.lax.scan(partial(step, data), v, jax.random.split(key, THIN))
        return v, v

    @jax.jit
    def advance(data: Any, v: Any, key: Any) -> tuple[Any, Any]:
        return jax.lax.scan(partial(keep, data), v, jax.random.split(key, BLOCK))

    key = jax.random.key(task.seed)
    v = jnp.zeros(d)
    set_up = clock() - began
    advance(data, v, key)[0].block_until_ready()  # compiles

    def block() -> np.ndarray:
        nonlocal key, v
        key, now = jax.random.split(key)
        v, part = advance(data, v, now)
        return np.asarray(part)

    parts, seconds = repeat(task, block, BLOCK, set_up)
    draws = mode + np.concatenate(parts) @ factor.T
    first = task.laplace.rows + n * control_variates
    rows = first + np.arange(1, len(draws) + 1) * float(THIN * BATCH)
    return curve_of(draws, rows, seconds, first)


def run_sgld(task: Task) -> Curve:
    """Read minibatches of 500 rows."""
    sizes = (3e-4, 1e-3, 3e-3, 1e-2)
    return chosen(task, sizes, partial(run, control_variates=False), "step size")


def run_control_variates(task: Task) -> Curve:
    """Do the same with gradients at the mode as control variates."""
    sizes = (1e-2, 3e-2, 1e-1, 3e-1)
    return chosen(task, sizes, partial(run, control_variates=True), "step size")
