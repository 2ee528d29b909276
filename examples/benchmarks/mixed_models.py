"""Hierarchies by lme4, glmmTMB and `FireflyMH()`: `python -m examples.benchmarks.mixed_models`.

Prints a Markdown table of processor seconds, of scales of effects, and of the probability that
these are below those of the data's simulation. R with the packages lme4 and glmmTMB is needed
(Debian's r-cran-lme4, r-cran-glmmtmb).
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

from examples.benchmarks.simulation import levels, yes_or_no
from examples.benchmarks.subprocesses import ONE_THREAD, result_of

TUNE, DRAWS, CHAINS = 500, 1000, 2
#: Calls of R that fit a formula to `data`, a family given by name.
IN_R = {
    "lme4::glmer, nAGQ = 0": "lme4::glmer({formula}, data, {family}, nAGQ = 0)",
    "lme4::glmer, nAGQ = 1": "lme4::glmer({formula}, data, {family}, nAGQ = 1)",
    "glmmTMB": "glmmTMB::glmmTMB({formula}, data, {family})",
}
SCRIPT = """
data <- read.csv("{file}")
began <- proc.time()
fit <- suppressWarnings({call})
took <- sum((proc.time() - began)[1:2])
of <- {package}::VarCorr(fit)
scales <- sapply({of}, function(covariance) sqrt(covariance[1, 1]))
cat(took, scales[c({effects})])
"""


class Hierarchy(NamedTuple):
    """Simulated rows: predictors and codes by name, outcomes, and the true scales of effects."""

    formula: str
    family: str
    columns: dict[str, np.ndarray]
    scales: dict[str, float]  #: By the columns with the codes of groups.


def intercepts(groups: int, rows: int, scale: float, seed: int = 1) -> Hierarchy:
    """Simulate yes or no in groups of so many rows, with a predictor."""
    rng = np.random.default_rng(seed)
    g, x = np.repeat(np.arange(groups), rows), rng.normal(size=groups * rows)
    eta = -0.5 + 0.5 * x + scale * rng.normal(size=groups)[g]
    columns = {"x": x, "g": g, "y": yes_or_no(eta, rng)}
    return Hierarchy("y ~ x + (1 | g)", "binomial", columns, {"g": scale})


def crossed(n_rows: int, groups: tuple[int, int], scales: tuple[float, float]) -> Hierarchy:
    """Simulate counts with two crossed factors; a scale of zero is a factor without any effect."""
    rng = np.random.default_rng(2)
    g, h = (rng.integers(size, size=n_rows) for size in groups)
    x = rng.normal(size=n_rows)
    effects = [s * rng.normal(size=n)[at] for s, n, at in zip(scales, groups, (g, h), strict=True)]
    y = rng.poisson(np.exp(0.2 + 0.3 * x + sum(effects)))
    columns = {"x": x, "g": g, "h": h, "y": y}
    formula = "y ~ x + (1 | g) + (1 | h)"
    return Hierarchy(formula, "poisson", columns, dict(zip("gh", scales, strict=True)))


MODELS: dict[str, Callable[[], Hierarchy]] = {
    "logistic, 10,000 groups of 10 rows": lambda: intercepts(10_000, 10, 1.0),
    "logistic, 1,000 groups of 100 rows": lambda: intercepts(1_000, 100, 1.0),
    "Poisson, 100 x 12 groups, 100,000 rows": lambda: crossed(100_000, (100, 12), (0.5, 0.3)),
    "Poisson, 300 x 40 groups, the second without effect, 100,000 rows": lambda: crossed(
        100_000, (300, 40), (0.5, 0.0)
    ),
}


def fit_in_r(data: Hierarchy, call: str, file: Path) -> tuple[float, list[float]]:
    """Return R's processor seconds, and its scales of effects."""
    package = call.split("::")[0]
    script = SCRIPT.format(
        file=file,
        call=call.format(formula=data.formula, family=data.family),
        package=package,
        of="of" if package == "lme4" else "of$cond",
        effects=", ".join(f"'{name}'" for name in data.scales),
    )
    environment = os.environ | ONE_THREAD
    run = subprocess.run(
        ["Rscript", "-e", script], env=environment, check=True, capture_output=True, text=True
    )
    took, *scales = map(float, run.stdout.split())
    return took, scales


def sample(data: Hierarchy) -> dict[str, Any]:
    """Sample the model by default; return seconds, and what the posterior says of scales."""
    began = time.process_time()
    import arviz as az
    import pymc as pm

    from pymc_flymc import FireflyMH

    warnings.simplefilter("ignore")
    logging.disable(logging.INFO)
    columns = data.columns
    with pm.Model():
        eta = pm.Normal("intercept", 0, 5) + pm.Normal("slope", 0, 5) * columns["x"]
        for name in data.scales:
            scale = pm.HalfNormal(f"scale_{name}", 5)
            effects = pm.Normal(f"effect_{name}", 0, scale, shape=levels(columns[name]))
            eta = eta + effects[columns[name]]
        if data.family == "binomial":
            pm.Bernoulli("y", logit_p=eta, observed=columns["y"])
        else:
            pm.Poisson("y", mu=pm.math.exp(eta), observed=columns["y"])
        trace = pm.sample(
            DRAWS, tune=TUNE, chains=CHAINS, cores=1, step=FireflyMH(), random_seed=1,
            progressbar=False,
        )  # fmt: skip
    took = time.process_time() - began
    draws = [trace.posterior[f"scale_{name}"].values for name in data.scales]
    names = ["intercept", *(f"scale_{name}" for name in data.scales)]
    least = min(float(each) for each in az.ess(trace, var_names=names).values())
    means, sds = [float(d.mean()) for d in draws], [float(d.std()) for d in draws]
    below = [float(np.mean(d < true)) for d, true in zip(draws, data.scales.values(), strict=True)]
    return {"seconds": took, "means": means, "sds": sds, "below": below, "ess": least}


def main() -> None:
    """Print the table, line by line."""
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}", description=__doc__)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--worker", choices=MODELS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(sample(MODELS[options.worker]())))
        return
    heads = "scales", "from the posterior mean, in its sds", "P(scale below the simulation's)"
    print(f"| model | method | processor s | {' | '.join(heads)} |")
    print("|---|---|" + "---:|" * 4)
    for model in options.models:
        data, exact = MODELS[model](), result_of(__spec__.name, "--worker", model)
        means, sds = np.array([exact["means"], exact["sds"]])
        method = f"`FireflyMH()`, ESS {exact['ess']:.0f}"
        show(model, method, exact["seconds"], exact["means"], [], exact["below"])
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "data.csv"
            names = list(data.columns)
            rows = np.column_stack(list(data.columns.values()))
            np.savetxt(file, rows, delimiter=",", header=",".join(names), comments="", fmt="%.9g")
            for method, call in IN_R.items():
                took, scales = fit_in_r(data, call, file)
                # As if R's estimates had the posterior's sds, which they do not print.
                below = norm.cdf((np.array(list(data.scales.values())) - scales) / sds)
                show(model, method, took, scales, (scales - means) / sds, below)


def show(
    model: str,
    method: str,
    seconds: float,
    scales: Iterable[float],
    errors: Iterable[float],
    below: Iterable[float],
) -> None:
    """Print a line of the table."""
    numbers = ", ".join(f"{each:.4f}" for each in scales)
    away = ", ".join(f"{each:+.1f}" for each in errors)
    probabilities = ", ".join(f"{each:.2f}" for each in below)
    print(
        f"| {model} | {method} | {seconds:.1f} | {numbers} | {away} | {probabilities} |", flush=True
    )


if __name__ == "__main__":
    main()
