"""Measure hierarchies: `python -m examples.benchmarks.hierarchies --out hierarchies.json`.

Prints a Markdown table of processor seconds, from a built model to 100 effective draws of the
slowest parameters of one chain (see `ess_of_slowest`), each run in a process of its own with warm
kernel caches.
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from examples.benchmarks.firefly import Clock
from examples.benchmarks.measurement import draws_of, ess_of_slowest
from examples.benchmarks.simulation import levels, yes_or_no
from examples.benchmarks.subprocesses import result_of

#: Effective draws that a run is timed to.
ENOUGH = 100
TUNE, DRAWS = 200, 1000
#: Step methods.
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "default": ("FireflyMH", {}),
    "hmc": ("FireflyHMC", {}),
    "local": ("FireflyMH", {"kernel": "local"}),
}


def _zipf(size: int, n: int, exponent: float, rng: np.random.Generator) -> np.ndarray:
    weights = (10.0 + np.arange(size)) ** -exponent
    return rng.choice(size, n, p=weights / weights.sum())


def games(players: int = 500, n_games: int = 100_000) -> dict[str, np.ndarray]:
    """Simulate who wins a game of two players."""
    rng = np.random.default_rng(1)
    first = rng.integers(players, size=n_games)
    second = (first + rng.integers(1, players, size=n_games)) % players
    strength = rng.normal(size=players)
    y = yes_or_no(strength[first] - strength[second], rng)
    return {"first": first, "second": second, "y": y}


def answers(persons: int = 3_000, items: int = 60) -> dict[str, np.ndarray]:
    """Simulate which persons solve which items: each tries all."""
    rng = np.random.default_rng(2)
    person, item = np.divmod(np.arange(persons * items), items)
    y = yes_or_no(rng.normal(size=persons)[person] - rng.normal(0, 1.5, size=items)[item], rng)
    return {"person": person, "item": item, "y": y}


def ratings(rows: int = 1_000_000, users: int = 6_000, films: int = 4_000) -> dict[str, np.ndarray]:
    """Simulate who likes which film; some users and films have many more ratings."""
    rng = np.random.default_rng(3)
    user, film = _zipf(users, rows, 0.8, rng), _zipf(films, rows, 1.0, rng)
    eta = 0.5 + rng.normal(0, 0.9, users)[user] + rng.normal(0, 0.7, films)[film]
    return {"user": user, "film": film, "y": yes_or_no(eta, rng)}


def grouped(rows: int, groups: int, slopes: int = 10) -> dict[str, np.ndarray]:
    """Simulate outcomes of groups, and of predictors whose slopes all groups share."""
    rng = np.random.default_rng(4)
    X, group = rng.normal(size=(rows, slopes)), rng.integers(groups, size=rows)
    eta = X @ np.linspace(-0.5, 0.5, slopes) + rng.normal(0.3, 0.8, groups)[group]
    return {"X": X, "group": group, "y": yes_or_no(eta, rng)}


def uneven(rows: int, groups: int) -> dict[str, np.ndarray]:
    """Simulate as `grouped`, but for five slopes, and groups from many rows to one."""
    rng = np.random.default_rng(5)
    X, group = rng.normal(size=(rows, 5)), _zipf(groups, rows, 1.0, rng)
    group = np.unique(group, return_inverse=True)[1]  # without those that have no row
    eta = X @ np.linspace(-0.5, 0.5, 5) + rng.normal(0.3, 0.8, levels(group))[group]
    return {"X": X, "group": group, "y": yes_or_no(eta, rng)}


def bradley_terry(first: np.ndarray, second: np.ndarray, y: np.ndarray) -> Any:
    """Build a model of players' strengths."""
    import pymc as pm

    with pm.Model() as model:
        players = max(levels(first), levels(second))
        strength = pm.Normal("strength", 0, pm.HalfNormal("sigma", 1), shape=players)
        pm.Bernoulli("y", logit_p=strength[first] - strength[second], observed=y)
    return model


def rasch(person: np.ndarray, item: np.ndarray, y: np.ndarray) -> Any:
    """Build a model of persons' abilities and items' difficulties."""
    import pymc as pm

    with pm.Model() as model:
        ability = pm.Normal("ability", 0, pm.HalfNormal("sigma", 1), shape=levels(person))
        difficulty = pm.Normal("difficulty", 0, 2, shape=levels(item))
        pm.Bernoulli("y", logit_p=ability[person] - difficulty[item], observed=y)
    return model


def crossed(user: np.ndarray, film: np.ndarray, y: np.ndarray) -> Any:
    """Build a model of two crossed factors."""
    import pymc as pm

    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2)
        a = pm.Normal("a", 0, pm.HalfNormal("sigma_user", 1), shape=levels(user))
        b = pm.Normal("b", 0, pm.HalfNormal("sigma_film", 1), shape=levels(film))
        pm.Bernoulli("y", logit_p=mu + a[user] + b[film], observed=y)
    return model


def intercepts(X: np.ndarray, group: np.ndarray, y: np.ndarray) -> Any:
    """Build a model of random intercepts, and slopes that all groups share."""
    import pymc as pm

    with pm.Model() as model:
        mu, beta = pm.Normal("mu", 0, 2), pm.Normal("beta", 0, 1, shape=X.shape[1])
        a = pm.Normal("a", mu, pm.HalfNormal("tau", 1), shape=levels(group))
        pm.Bernoulli("y", logit_p=X @ beta + a[group], observed=y)
    return model


class Hierarchy(NamedTuple):
    """A model, and the data that are simulated for it."""

    build: Callable[..., Any]
    simulate: Callable[[], dict[str, np.ndarray]]


MODELS = {
    "Bradley-Terry": Hierarchy(bradley_terry, games),
    "Rasch": Hierarchy(rasch, answers),
    "crossed": Hierarchy(crossed, ratings),
    "intercepts 1e5 x 1e2": Hierarchy(intercepts, partial(grouped, 100_000, 100)),
    "intercepts 1e5 x 1e3": Hierarchy(intercepts, partial(grouped, 100_000, 1_000)),
    "uneven 1e5 x 5e3": Hierarchy(intercepts, partial(uneven, 100_000, 5_000)),
    "uneven 2e5 x 2e4": Hierarchy(intercepts, partial(uneven, 200_000, 20_000)),
    "intercepts 1e6 x 1e4": Hierarchy(intercepts, partial(grouped, 1_000_000, 10_000)),
    "intercepts 1e6 x 1e5": Hierarchy(intercepts, partial(grouped, 1_000_000, 100_000)),
}


def measure(hierarchy: Hierarchy, method: str, seed: int, tune: int, draws: int) -> dict[str, Any]:
    """Sample a model in this process."""
    import pymc as pm

    import pymc_flymc

    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("pymc.flymc").addHandler(handler)
    kind, settings = METHODS[method]
    with hierarchy.build(**hierarchy.simulate()):
        data = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.process_time()
        try:
            step = getattr(pymc_flymc, kind)(**settings)
        except pymc_flymc.UnsupportedModelError as error:
            return {"refused": str(error)}
        ready = time.process_time()
        clock = Clock(time.process_time)
        idata = pm.sample(
            step=step,
            callback=clock,
            tune=tune,
            draws=draws,
            chains=1,
            cores=1,
            progressbar=False,
            random_seed=seed,
            compute_convergence_checks=False,
        )
    total = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (steady,) = clock.each()
    ess = ess_of_slowest(draws_of(idata))
    statistics = idata.sample_stats
    return {
        "seconds": total - steady + steady * ENOUGH / ess,
        "setup": ready - began,
        "tuning": total - steady - (ready - began),
        "ms": 1e3 * steady / draws,
        "ess": ess,
        "ms per effective draw": 1e3 * steady / ess,
        "rows": float(statistics["likelihood_queries"].sum()) / ess,
        "bright": float(statistics["n_bright"].mean()),
        "peak MB": peak / 1e3,
        "before MB": data / 1e3,
        "kernel": step.target.spec.name,
        "said": said,
    }


def line(name: str, method: str, found: dict[str, Any]) -> str:
    """One line of the table."""
    if "over" in found:
        return f"| {name} | {method} | > {found['over']:.0f} |" + " |" * 7
    if "refused" in found:
        return f"| {name} | {method} | refused |" + " |" * 7
    numbers = "seconds", "setup", "ms", "ess", "ms per effective draw", "rows", "bright"
    cells = [
        f"{found[each]:,.3g}" if found[each] < 1e3 else f"{found[each]:,.0f}" for each in numbers
    ]
    label = f"{method} ({found['kernel']})"
    return f"| {name} | {label} | {' | '.join(cells)} | {found['peak MB']:,.0f} |"


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        name, method, *numbers = sys.argv[2:]
        warnings.simplefilter("ignore")
        print(json.dumps(measure(MODELS[name], method, *map(int, numbers))))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tune", type=int, default=TUNE)
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--limit", type=float, default=420.0, help="seconds for a run")
    parser.add_argument("--out", type=Path, help="JSON of all that was measured")
    options = parser.parse_args()
    print(
        f"| model | method | s to ESS {ENOUGH} | set-up s | ms per draw | ESS of "
        f"{options.draws} | ms per effective draw | rows per effective draw | bright "
        "| peak memory MB |"
    )
    print("|---|---|" + "---:|" * 8)
    table: dict[str, dict[str, Any]] = {}
    for name in options.models:
        for method in options.methods:
            numbers = map(str, (options.seed, options.tune, options.draws))
            worker = "examples.benchmarks.hierarchies", "--worker", name, method
            found = result_of(*worker, *numbers, limit=options.limit)
            table.setdefault(name, {})[method] = found
            print(line(name, method, found), flush=True)
            if options.out:
                options.out.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
