"""Variational inference: a full-rank Gaussian by NumPyro, a mean-field one by PyMC."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from examples.comparison.measurement import POINTS, Curve, Task, chosen, repeat

#: Rows of a minibatch, and steps between two estimates.
BATCH, BLOCK = 500, 200
#: Steps after which the learning rate is half of what it was: it falls as 1 / (1 + step / HALF), so
#: that the search ends at its optimum, as one with a constant rate does not.
HALF = 1000


def curve(task: Task, block: Callable[[], tuple[np.ndarray, np.ndarray]]) -> Curve:
    found, seconds = repeat(task, block, BLOCK)
    ends = np.unique(np.geomspace(1, len(found), POINTS).astype(int))
    means, sds = zip(*(found[end - 1] for end in ends), strict=True)
    rows = ends * float(BATCH * BLOCK)
    return Curve(rows, seconds[ends * BLOCK - 1], np.array(means), np.array(sds))


def regression(n: int, X: Any, y: Any) -> None:
    """State the model of a minibatch of n rows, as a NumPyro user writes it."""
    import numpyro
    import numpyro.distributions as dist

    beta = numpyro.sample("beta", dist.Logistic(0.0, 1.0).expand([X.shape[1]]).to_event(1))
    with numpyro.handlers.scale(scale=n / len(X)):
        numpyro.sample("y", dist.Bernoulli(logits=X @ beta), obs=y)


def run_svi(task: Task, rate: float) -> Curve:
    """Fit a Gaussian of full rank, by Adam from where NumPyro starts."""
    import jax
    import jax.numpy as jnp
    import numpyro
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.infer.autoguide import AutoMultivariateNormal

    numpyro.enable_x64()
    data = jnp.asarray(task.problem.X), jnp.asarray(task.problem.y)
    X, y = data
    model = partial(regression, len(y))
    adam = numpyro.optim.Adam(lambda step: rate / (1 + step / HALF))
    svi = SVI(model, AutoMultivariateNormal(model), adam, Trace_ELBO())

    @jax.jit
    def advance(state: Any, data: Any, key: Any) -> tuple[Any, Any, Any]:
        def one(state: Any, key: Any) -> tuple[Any, Any]:
            rows = jax.random.randint(key, (BATCH,), 0, len(y))
            return svi.update(state, data[0][rows], data[1][rows])

        state, _ = jax.lax.scan(one, state, jax.random.split(key, BLOCK))
        now = svi.get_params(state)
        tril = now["auto_scale_tril"]
        return state, now["auto_loc"], jnp.sqrt((tril**2).sum(axis=1))

    key = jax.random.key(task.seed)
    state = svi.init(key, X[:BATCH], y[:BATCH])
    advance(state, data, key)[1].block_until_ready()  # compiles

    def block() -> tuple[np.ndarray, np.ndarray]:
        nonlocal key, state
        key, now = jax.random.split(key)
        state, mean, sd = advance(state, data, now)
        return np.asarray(mean), np.asarray(sd)

    return curve(task, block)


class MeanField:
    """A Gaussian of independent parameters, by Adam from where PyMC starts.

    It is what `pm.fit` runs; compiled once, it starts afresh for each rate.
    """

    def __init__(self, task: Task) -> None:
        import pymc as pm
        import pytensor

        n, d = task.problem.X.shape
        self.rate = pytensor.shared(0.0)
        with pm.Model():
            X, y = pm.Minibatch(task.problem.X, task.problem.y.astype(np.int32), batch_size=BATCH)
            beta = pm.Logistic("beta", 0, 1, shape=d)
            pm.Bernoulli("y", logit_p=X @ beta, observed=y, total_size=n)
            inference = pm.ADVI(random_seed=task.seed)
            # Without a score PyMC's function would draw the same minibatch again and again.
            self.step = inference.objective.step_function(
                obj_optimizer=pm.adam(learning_rate=self.rate), score=True
            )
        self.parameters = inference.approx.params_dict
        self.start = [(v, v.get_value()) for v in self.step.get_shared() if v is not self.rate]

    def run(self, task: Task, rate: float) -> Curve:
        """Run with one learning rate."""
        for variable, value in self.start:
            variable.set_value(value)
        steps = itertools.count()
        return curve(task, lambda: self.block(rate, steps))

    def block(self, rate: float, steps: Iterator[int]) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and sd after some more steps."""
        for _ in range(BLOCK):
            self.rate.set_value(rate / (1 + next(steps) / HALF))
            self.step()
        mean, rho = (self.parameters[name].get_value() for name in ("mu", "rho"))
        return mean, np.logaddexp(0, rho)


def run_numpyro(task: Task) -> Curve:
    """Read minibatches of 500 rows."""
    return _chosen(task, run_svi)


def run_pymc(task: Task) -> Curve:
    """Read minibatches of 500 rows."""
    return _chosen(task, MeanField(task).run)


def _chosen(task: Task, run: Any) -> Curve:
    return chosen(task, (3e-3, 1e-2, 3e-2, 1e-1), run, "rate")
