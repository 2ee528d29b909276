"""What anchors that move in tuning save: `python -m examples.benchmarks.moving_anchors`.

Bright rows and rows read for each draw, and effective draws of the slowest quantity, where the
anchor is far from the posterior: that of the search for many weak coefficients of a free scale, and
one that a user gave.
"""

from __future__ import annotations

import argparse
import logging
import warnings
from typing import Any
from unittest.mock import patch

import numpy as np

N_DRAWS = 1000


def weak_coefficients(seed: int, n_rows: int = 20_000, n_columns: int = 120) -> Any:
    """Build a logistic regression on 120 columns whose effects are all but zero."""
    import pymc as pm

    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns))
    eta = X @ rng.normal(0.0, 0.008, n_columns) - 1.5
    with pm.Model() as model:
        level = pm.Normal("level", 0, 2)
        tau = pm.HalfNormal("tau", 1)
        z = pm.Normal("z", 0, 1, shape=n_columns)
        y = (rng.logistic(size=n_rows) < eta).astype(int)
        pm.Bernoulli("y", logit_p=level + X @ (tau * z), observed=y)
    return model


def ten_coefficients(seed: int, n_rows: int = 50_000) -> Any:
    """Build a logistic regression on a column of ones and nine others."""
    import pymc as pm

    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n_rows), rng.normal(size=(n_rows, 9))])
    y = rng.logistic(size=n_rows) < X @ np.linspace(-1.5, 0.5, 10)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=10)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y.astype(int))
    return model


def main() -> None:
    import pymc  # noqa: F401

    from pymc_flymc.sampling.reanchoring import Anchors

    parser = argparse.ArgumentParser(
        prog="python -m examples.benchmarks.moving_anchors", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    logging.getLogger("pymc").setLevel(logging.ERROR)  # after PyMC's import has set it to INFO
    warnings.simplefilter("ignore")
    given = {"beta": np.full(10, 0.4)}
    cases = {
        "weak coefficients, anchor of the search": (weak_coefficients(seed), None),
        "ten coefficients, anchor of the search": (ten_coefficients(seed), None),
        "ten coefficients, 0.4 given for each": (ten_coefficients(seed), given),
    }
    print("| | anchor | bright rows | rows read per draw | min-ESS of a thousand draws |")
    print("|---|---|---:|---:|---:|")
    for name, (model, anchor) in cases.items():
        with patch.object(Anchors, "better", lambda *_: None):
            print(f"| {name} | stays | {' | '.join(measure(model, anchor, seed))} |", flush=True)
        print(f"| | may move | {' | '.join(measure(model, anchor, seed))} |", flush=True)


def measure(model: Any, anchor: dict[str, np.ndarray] | None, seed: int) -> list[str]:
    import arviz as az
    import pymc as pm

    from pymc_flymc import FireflyHMC

    with model:
        idata = pm.sample(
            step=FireflyHMC(anchor=anchor, transitions=6),
            tune=500,
            draws=N_DRAWS,
            chains=1,
            random_seed=seed,
            progressbar=False,
            compute_convergence_checks=False,
        )
    stats, ess = idata.sample_stats, az.ess(idata)
    least = min(float(ess[name].min()) for name in ess.data_vars)
    means = (float(stats[name].mean()) for name in ("n_bright", "likelihood_queries"))
    return [f"{value:,.3g}" if value < 100 else f"{value:,.0f}" for value in (*means, least)]


if __name__ == "__main__":
    main()
