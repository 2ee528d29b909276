"""Table of what comes before sampling: `python -m examples.benchmarks.startup --help`.

Processor seconds in which a new process, in which PyMC is imported and the model is built, builds
`FireflyMH()` or has nutpie compile the model, each with compilation caches that are empty, and with
those that this first process has left.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Callable

import numpy as np
import pymc as pm

from examples.benchmarks.problem import synthetic
from examples.benchmarks.subprocesses import result_of

COLUMNS, GROUPS, OTHER_GROUPS = 10, 300, 40


def crossed(n_rows: int) -> pm.Model:
    """Build a model of counts with effects of two kinds of groups, non-centred."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, COLUMNS))
    groups = [rng.integers(size, size=n_rows) for size in (GROUPS, OTHER_GROUPS)]
    y = rng.poisson(np.exp(0.1 * X.sum(axis=1)))
    with pm.Model() as model:
        eta = X @ pm.Normal("beta", 0.0, 1.0, shape=COLUMNS)
        for i, group in enumerate(groups):
            effect = pm.Normal(f"effect_{i}", 0.0, 1.0, shape=(GROUPS, OTHER_GROUPS)[i])
            eta = eta + (pm.HalfNormal(f"sigma_{i}", 1.0) * effect)[group]
        pm.Poisson("y", mu=pm.math.exp(eta), observed=y)
    return model


def simulated(likelihood: str) -> Callable[[int], pm.Model]:
    """Return a builder of a regression that `Problem` knows."""
    return lambda n: synthetic(n, COLUMNS, 0, likelihood, groups=GROUPS).model()


#: By name: builders that take the number of rows.
MODELS = {
    "logistic": simulated("logistic"),
    "Student t, nu and sigma free": simulated("robust"),
    "negative binomial": simulated("negative-binomial"),
    "Poisson, 300 groups": simulated("groups-poisson"),
    "Poisson, 300 x 40 crossed groups": crossed,
    "logistic, correlated slopes of 300 groups": simulated("slopes"),
    "softmax, 3 classes": simulated("softmax"),
    "ordered, 5 levels": simulated("ordered"),
    "zero-inflated Poisson": simulated("zero-inflated"),
    "Weibull, censored": simulated("weibull"),
}


def build_step(model: pm.Model) -> None:
    """Build the step, from its import on."""
    from pymc_flymc import FireflyMH

    FireflyMH(model=model)


def compile_nutpie(model: pm.Model) -> None:
    """Compile for nutpie, from its import on."""
    import nutpie

    nutpie.compile_pymc_model(model)


WORK: dict[str, Callable[[pm.Model], None]] = {"FireflyMH()": build_step, "nutpie": compile_nutpie}


def seconds(name: str, method: str, n_rows: int, cache: str | None = None) -> float:
    """Return processor seconds of a method in a new process; `cache` is a folder for its caches."""
    environment = {
        "PYTENSOR_FLAGS": f"base_compiledir={cache}/pytensor",
        "NUMBA_CACHE_DIR": f"{cache}/numba",
    }
    arguments = "--measure", method, "--models", name, "--rows", str(n_rows)
    module = "examples.benchmarks.startup"
    return float(result_of(module, *arguments, **(environment if cache else {})))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.benchmarks.startup")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS), metavar="M")
    parser.add_argument("--methods", nargs="+", choices=WORK, default=list(WORK), metavar="M")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--warm-only", action="store_true", help="with the user's own caches")
    parser.add_argument("--measure", choices=WORK, help="one model, in this process")
    options = parser.parse_args()
    if options.measure:
        warnings.simplefilter("ignore")
        model = MODELS[options.models[0]](options.rows)
        began = time.process_time()
        WORK[options.measure](model)
        print(json.dumps(time.process_time() - began))
        return
    print("| model |", " | ".join(f"{m}, empty / warm" for m in options.methods), "|")
    print("|---" * (1 + len(options.methods)) + "|", flush=True)
    for name in options.models:
        cells = []
        for method in options.methods:
            with tempfile.TemporaryDirectory() as cache:
                once = (seconds(name, method, options.rows, where) for where in (cache, cache))
                cells.append(" / ".join(f"{each:.1f}" for each in once))
        print(f"| {name} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
