"""Measure NUTS of NumPyro, for a GPU: `python -m examples.benchmarks.numpyro_nuts --help`.

Prints a line of a Markdown table for each model: those of `examples.benchmarks.hierarchies`, and
logistic regressions on the data of `examples.benchmarks`. Chains run side by side on the device
that JAX finds. Needs NumPyro, JAX and ArviZ; the package itself is not imported.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from examples.benchmarks.hierarchies import MODELS as HIERARCHIES
from examples.benchmarks.hierarchies import Hierarchy
from examples.benchmarks.measurement import ess_of_slowest, smallest_ess
from examples.benchmarks.problem import synthetic
from examples.benchmarks.simulation import levels

#: The second run after tuning is so many times as long as the first.
LONGER = 3
#: Rows and columns of logistic regressions.
REGRESSIONS = {
    "logistic 1e5 x 11": (100_000, 11),
    "logistic 1e6 x 11": (1_000_000, 11),
    "logistic 1e6 x 51": (1_000_000, 51),
}


def logistic(X: Any, y: Any) -> None:
    """State the regression of `examples.benchmarks.problem`."""
    import numpyro
    import numpyro.distributions as dist

    beta = numpyro.sample("beta", dist.Normal(0.0, 1.0).expand([X.shape[1]]).to_event(1))
    numpyro.sample("y", dist.Bernoulli(logits=X @ beta), obs=y)


def _effects(name: str, scale: str, n: int, mean: Any = 0.0) -> Any:
    """State centred effects and their scale."""
    import numpyro
    import numpyro.distributions as dist

    sd = numpyro.sample(scale, dist.HalfNormal(1.0))
    return numpyro.sample(name, dist.Normal(mean, sd).expand([n]).to_event(1))


def bradley_terry(n: tuple[int, int], first: Any, second: Any, y: Any) -> None:
    """State the model of players' strengths."""
    import numpyro
    import numpyro.distributions as dist

    strength = _effects("strength", "sigma", max(n))
    numpyro.sample("y", dist.Bernoulli(logits=strength[first] - strength[second]), obs=y)


def rasch(n: tuple[int, int], person: Any, item: Any, y: Any) -> None:
    """State the model of persons' abilities and items' difficulties."""
    import numpyro
    import numpyro.distributions as dist

    ability = _effects("ability", "sigma", n[0])
    difficulty = numpyro.sample("difficulty", dist.Normal(0.0, 2.0).expand([n[1]]).to_event(1))
    numpyro.sample("y", dist.Bernoulli(logits=ability[person] - difficulty[item]), obs=y)


def crossed(n: tuple[int, int], user: Any, film: Any, y: Any) -> None:
    """State the model of two crossed factors."""
    import numpyro
    import numpyro.distributions as dist

    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    a, b = _effects("a", "sigma_user", n[0]), _effects("b", "sigma_film", n[1])
    numpyro.sample("y", dist.Bernoulli(logits=mu + a[user] + b[film]), obs=y)


def intercepts(n: tuple[int], X: Any, group: Any, y: Any) -> None:
    """State the model of random intercepts, and slopes that all groups share."""
    import numpyro
    import numpyro.distributions as dist

    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    beta = numpyro.sample("beta", dist.Normal(0.0, 1.0).expand([X.shape[1]]).to_event(1))
    a = _effects("a", "tau", n[0], mu)
    numpyro.sample("y", dist.Bernoulli(logits=X @ beta + a[group]), obs=y)


STATED = {each.__name__: each for each in (bradley_terry, rasch, crossed, intercepts)}


def model_of(name: str) -> tuple[Callable[..., None], dict[str, np.ndarray]]:
    """Return a model, stated for NumPyro, and its data."""
    if name in REGRESSIONS:
        problem = synthetic(*REGRESSIONS[name], seed=1)
        return logistic, {"X": problem.X, "y": problem.y}
    return state(HIERARCHIES[name])


def state(hierarchy: Hierarchy) -> tuple[Callable[..., None], dict[str, np.ndarray]]:
    """Return a hierarchy, stated for NumPyro, and its data."""
    data = hierarchy.simulate()
    sizes = tuple(levels(codes) for key, codes in data.items() if key not in ("X", "y"))
    return partial(STATED[hierarchy.build.__name__], sizes), data


def measure(
    model: Callable[..., None],
    data: dict[str, np.ndarray],
    ess_of: Callable[[dict[str, np.ndarray]], float],
    chains: int,
    tune: int,
    draws: int,
    double: bool = False,
    seed: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Any]:
    """Tune, then draw, and go on three times as long.

    NumPyro compiles in each run. So a draw's time is that by which the longer run takes longer.
    """
    import jax
    import numpyro
    from numpyro.infer import MCMC, NUTS

    numpyro.enable_x64(double)
    on_device = {key: jax.device_put(values) for key, values in data.items()}
    options = {"num_chains": chains, "chain_method": "vectorized", "progress_bar": False}
    mcmc = MCMC(NUTS(model), num_warmup=tune, num_samples=draws, **options)

    def seconds(key: Any) -> float:
        began = clock()
        mcmc.run(key, **on_device, extra_fields=("num_steps",))
        jax.block_until_ready(mcmc.get_samples())
        mcmc.post_warmup_state = mcmc.last_state  # the next run goes on from here
        return clock() - began

    first = seconds(jax.random.key(seed))
    short = seconds(mcmc.last_state.rng_key)
    mcmc.num_samples = LONGER * draws
    long = seconds(mcmc.last_state.rng_key)
    each = (long - short) / ((LONGER - 1) * draws)
    found = mcmc.get_samples(group_by_chain=True)
    ess = ess_of({variable: np.asarray(values) for variable, values in found.items()})
    return {
        "device": str(jax.devices()[0].device_kind),
        "tuning": first - each * draws,
        "ms": 1e3 * each,
        "gradients": float(mcmc.get_extra_fields()["num_steps"].mean()),
        "ess": ess,
        "ms per effective draw": 1e3 * each * LONGER * draws / ess,
    }


def ess_of_chains(draws: dict[str, np.ndarray]) -> float:
    """Add up the effective draws of the slowest parameters of each chain."""
    (chains, *_), *_ = (values.shape for values in draws.values())
    return sum(ess_of_slowest({k: v[[i]] for k, v in draws.items()}) for i in range(chains))


def line(name: str, chains: int, found: dict[str, Any]) -> str:
    """One line of the table."""
    numbers = "tuning", "ms", "gradients", "ess", "ms per effective draw"
    return f"| {name} | {chains} | {' | '.join(f'{found[each]:,.3g}' for each in numbers)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = [*REGRESSIONS, *HIERARCHIES]
    parser.add_argument("--models", nargs="+", choices=known, default=known)
    parser.add_argument("--chains", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--tune", type=int, default=500)
    parser.add_argument("--draws", type=int, default=500, help="of the first of two runs")
    parser.add_argument("--double", action="store_true", help="in double precision")
    parser.add_argument("--out", type=Path, help="JSON of all that was measured")
    options = parser.parse_args()
    print(
        "| model | chains | compilation and tuning, s | ms for a draw of all chains "
        "| gradients per draw | ESS | ms per effective draw |"
    )
    print("|---|" + "---:|" * 6)
    table: list[dict[str, Any]] = []
    for name in options.models:
        for chains in options.chains:
            ess_of = smallest_ess if name in REGRESSIONS else ess_of_chains
            lengths = chains, options.tune, options.draws
            found = measure(*model_of(name), ess_of, *lengths, options.double)
            table.append({"model": name, "chains": chains} | found)
            print(line(name, chains, found), flush=True)
            if options.out:
                options.out.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
