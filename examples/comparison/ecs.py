"""Hamiltonian Monte Carlo with energy conserving subsampling, by NumPyro."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from examples.comparison.clock import clock
from examples.comparison.measurement import Curve, Task, chosen, curve_of, repeat

#: Draws in which step size and metric are tuned, and those between two looks at the clock.
TUNE, BLOCK = 300, 50


def regression(batch: int, X: Any, y: Any) -> None:
    """State the model as a NumPyro user writes it."""
    import numpyro
    import numpyro.distributions as dist

    beta = numpyro.sample("beta", dist.Logistic(0.0, 1.0).expand([X.shape[1]]).to_event(1))
    with numpyro.plate("rows", len(X), subsample_size=batch):
        X_batch, y_batch = numpyro.subsample(X, event_dim=1), numpyro.subsample(y, event_dim=0)
        numpyro.sample("y", dist.Bernoulli(logits=X_batch @ beta), obs=y_batch)


def run(task: Task, batch: int) -> Curve:
    """NUTS with a dense metric; a second-order Taylor expansion at the mode as proxy."""
    import jax
    import jax.numpy as jnp
    import numpyro
    from numpyro.infer import HMCECS, NUTS

    numpyro.enable_x64()
    data = jnp.asarray(task.problem.X), jnp.asarray(task.problem.y)
    mode = {"beta": jnp.asarray(task.laplace.mode)}
    kernel = HMCECS(
        NUTS(partial(regression, batch), dense_mass=True),
        num_blocks=10,
        proxy=HMCECS.taylor_proxy(mode, degree=2),
    )
    state = kernel.init(jax.random.key(task.seed), TUNE, mode, data, {})

    @jax.jit
    def advance(state: Any, data: Any) -> tuple[Any, Any]:
        def one(state: Any, _: None) -> tuple[Any, Any]:
            state = kernel.sample(state, data, {})
            return state, (state.z["beta"], state.hmc_state.num_steps)

        return jax.lax.scan(one, state, None, length=BLOCK)

    advance(state, data)[1][0].block_until_ready()  # compiles

    def block() -> tuple[np.ndarray, np.ndarray]:
        nonlocal state
        state, found = advance(state, data)
        return np.asarray(found[0]), np.asarray(found[1])

    began = clock() - task.laplace.seconds
    tuning = [block() for _ in range(TUNE // BLOCK)]
    parts, seconds = repeat(task, block, BLOCK, clock() - began)
    # A leapfrog step reads the subsample; so does a proposal of another, twice if it is taken.
    rows = (np.concatenate([steps for _, steps in tuning + parts]) + 2.0) * batch
    # The sums of the proxy take a pass.
    total = task.laplace.rows + len(task.problem.y) + np.cumsum(rows)
    draws = np.concatenate([draws for draws, _ in parts])
    return curve_of(draws, total[TUNE:], seconds, total[TUNE - 1])


def run_ecs(task: Task) -> Curve:
    sizes = [size for size in (100, 1000) if size < len(task.problem.y)]
    return chosen(task, sizes, run, "subsample")
