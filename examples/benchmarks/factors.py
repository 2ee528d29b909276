"""Measure factors of effects: `python -m examples.benchmarks.factors`.

Prints a Markdown table of models with an intercept and effects of one or two factors, written in
several ways. Each model is sampled with default settings, in two chains of 1,000 draws, and in a
process of its own. `--weak` leaves the second factor without any effect, so that its scale is
nearly zero.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
from scipy.special import ndtr
from scipy.stats import poisson

from examples.benchmarks.measurement import draws_of
from examples.benchmarks.simulation import above_zero, levels, yes_or_no
from examples.benchmarks.subprocesses import result_of
from pymc_flymc import FireflyMH

#: Standard deviation of the effects of each factor.
SD = 0.4


def outcomes(family: str, eta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw an outcome of each row."""
    n, mu = len(eta), np.exp(eta)
    draw: dict[str, Callable[[], Any]] = {
        "Poisson": lambda: rng.poisson(mu),
        "Bernoulli": lambda: yes_or_no(eta, rng),
        "probit": lambda: rng.random(n) < ndtr(eta),
        "negative binomial": lambda: rng.poisson(mu * rng.gamma(3.0, 1.0 / 3.0, n)),
        "Weibull": lambda: np.minimum(mu * rng.weibull(2.0, n), 2.0),
        "hurdle Poisson": lambda: above_zero(poisson(mu), rng) * (rng.random(n) < 0.7),
        "gamma": lambda: rng.gamma(3.0, mu / 3.0),
    }
    return np.asarray(draw[family]())


def observe(family: str, eta: Any, y: np.ndarray) -> None:
    """Add the observed variable to the model."""
    mu = pm.math.exp(eta)
    if family == "Poisson":
        pm.Poisson("y", mu, observed=y)
    elif family == "Bernoulli":
        pm.Bernoulli("y", logit_p=eta, observed=y)
    elif family == "probit":
        pm.Bernoulli("y", p=pm.math.invprobit(eta), observed=y)
    elif family == "negative binomial":
        pm.NegativeBinomial("y", mu=mu, alpha=pm.Exponential("alpha", 0.3), observed=y)
    elif family == "Weibull":
        shape = pm.Gamma("shape", 2.0, 1.0)
        pm.Censored("y", pm.Weibull.dist(shape, mu), lower=None, upper=2.0, observed=y)
    elif family == "hurdle Poisson":
        pm.HurdlePoisson("y", psi=pm.Beta("psi", 1.0, 1.0), mu=mu, observed=y)
    else:
        pm.Gamma("y", alpha=(a := pm.Exponential("alpha", 0.3)), beta=a / mu, observed=y)


#: Priors of scales.
PRIORS: dict[str, Callable[[str], Any]] = {
    "half-normal": lambda name: pm.HalfNormal(name, 1.0),
    "exponential": lambda name: pm.Exponential(name, 1.0),
    "half-Cauchy": lambda name: pm.HalfCauchy(name, 1.0),
    "uniform": lambda name: pm.Uniform(name, 0.0, 5.0),
}


def effects(written: str, name: str, scale: Any, n: int) -> Any:
    """Add the effects of a factor to the model, as they are written."""
    if written == "Normal":
        return pm.Normal(name, 0.0, scale, shape=n)
    if written == "tau * z":
        return scale * pm.Normal(name, 0.0, 1.0, shape=n)
    return pm.ZeroSumNormal(name, scale, shape=n)


STRUCTURES = "one", "crossed", "nested", "slopes"


def build(
    family: str,
    structure: str,
    written: str,
    prior: str = "half-normal",
    weak: bool = False,
    rows: int = 20_000,
    sizes: tuple[int, int] = (300, 40),
    vector: bool = False,
) -> Any:
    """Build a model; `vector` has both scales in one variable."""
    rng, (n_a, n_b) = np.random.default_rng(5), sizes
    a, x = rng.integers(n_a, size=rows), rng.normal(size=rows)
    # Of nested factors the second one has the levels of the first, so many each.
    b = {"crossed": rng.integers(n_b, size=rows), "nested": a * n_b + rng.integers(n_b, size=rows)}
    by_level = b.get(structure, a)
    n = levels(by_level)
    column = x if structure == "slopes" else np.ones(rows)
    eta = 0.3 + SD * rng.normal(size=n_a)[a]
    if structure != "one":
        eta += (0.0 if weak else SD) * rng.normal(size=n)[by_level] * column
    y = outcomes(family, eta, rng)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 2.0)
        taus = pm.HalfNormal("tau", 1.0, shape=2) if vector else None
        scale = PRIORS[prior]("tau_a") if taus is None else taus[0]
        predictor = mu + effects(written, "a", scale, n_a)[a]
        if structure != "one":
            scale = PRIORS[prior]("tau_b") if taus is None else taus[1]
            if structure == "slopes":
                predictor += pm.Normal("slope", 0.0, 1.0) * x
            predictor += effects(written, "b", scale, n)[by_level] * column
        observe(family, predictor, y)
    return model


def measure(draws: int = 1000, tune: int = 1000, seed: int = 1, **settings: Any) -> dict[str, Any]:
    """Sample a model in this process."""
    with build(**settings):
        began = time.process_time()
        step = FireflyMH()
        ready = time.process_time()
        idata = pm.sample(
            draws=draws,
            tune=tune,
            step=step,
            chains=2,
            cores=1,
            progressbar=False,
            random_seed=seed,
            compute_convergence_checks=False,
        )
    ended = time.process_time()
    posterior = {"posterior": draws_of(idata)}
    ess, tail = (az.ess(az.from_dict(posterior), method=method) for method in ("bulk", "tail"))
    rhat = az.rhat(az.from_dict(posterior))
    of = {name: float(values.min()) for name, values in ess.data_vars.items()}
    slowest = min(of, key=lambda name: of[name])
    statistics = idata.sample_stats
    low = {
        name: np.quantile(values, [0.01, 0.05, 0.5]).tolist()
        for name, values in posterior["posterior"].items()
        if name.startswith("tau")
    }
    return {
        "kernel": step.target.spec.name,
        "ess": of[slowest],
        "slowest": slowest,
        "tail": min(float(v.min()) for k, v in tail.data_vars.items() if k.startswith("tau")),
        "rhat": max(float(values.max()) for values in rhat.data_vars.values()),
        "transitions": float(statistics["transitions"].mean()),
        "rows": float(statistics["likelihood_queries"].mean()),
        "setup": ready - began,
        "seconds": ended - ready,
        "low": low,
        "of": of,
    }


def line(settings: dict[str, Any], found: dict[str, Any]) -> str:
    """One line of the table."""
    numbers = [f"{found[each]:,.0f}" for each in ("ess", "tail")]
    numbers += [f"{found['rhat']:.3f}", f"{found['transitions']:.1f}", f"{found['rows']:,.0f}"]
    numbers += [f"{found['setup']:.0f}", f"{found['seconds']:.0f}"]
    label = [str(each) for each in settings.values()]
    return f"| {' | '.join([*label, found['kernel'], *numbers, found['slowest']])} |"


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        warnings.simplefilter("ignore")
        print(json.dumps(measure(**json.loads(sys.argv[2]))))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = "Poisson", "Bernoulli", "probit", "negative binomial", "Weibull", "hurdle Poisson"
    parser.add_argument("--families", nargs="+", default=[*names, "gamma"])
    parser.add_argument("--structures", nargs="+", default=list(STRUCTURES))
    parser.add_argument("--written", nargs="+", default=["Normal", "ZeroSumNormal"])
    parser.add_argument("--priors", nargs="+", choices=list(PRIORS), default=["half-normal"])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--sizes", type=int, nargs=2, default=(300, 40))
    parser.add_argument("--weak", action="store_true")
    parser.add_argument("--vector", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", help="file to which JSON of each run is appended")
    options = parser.parse_args()
    common = {each: getattr(options, each) for each in ("rows", "sizes", "weak", "vector", "seed")}
    print(
        "| family | structure | effects | prior | kernel | ESS of 2,000 | tail ESS of scales "
        "| R-hat | updates a draw | rows a draw | set-up s | s | slowest |"
    )
    print("|---|---|---|---|---|" + "---:|" * 7 + "---|")
    cases = options.families, options.structures, options.written, options.priors
    for case in itertools.product(*cases):
        settings = dict(zip(("family", "structure", "written", "prior"), case, strict=True))
        worker = "examples.benchmarks.factors", "--worker"
        found = result_of(*worker, json.dumps({**settings, **common}))
        print(line(settings, found), flush=True)
        if options.out:
            with open(options.out, "a") as file:
                file.write(json.dumps({**settings, **common, **found}) + "\n")


if __name__ == "__main__":
    main()
