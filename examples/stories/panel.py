"""Does training pay? Wages of 1,000 workers in ten years, with Bambi's formulas.

Workers differ in ways that nobody has measured, and those who earn more are trained more often:
their mean training is a predictor of its own (Mundlak), beside a random intercept.
"""

import arviz as az
import bambi as bmb
import numpy as np
import pandas as pd

from pymc_flymc import FireflyMH

COST = 0.01


def read(n_workers: int = 1_000, n_years: int = 10) -> pd.DataFrame:
    """Make up the panel as it would be read from a file."""
    rng = np.random.default_rng(7)
    worker = np.repeat(np.arange(n_workers), n_years)
    year = np.tile(np.arange(n_years), n_workers)
    talent = rng.normal(0, 0.3, n_workers)[worker]
    trained = rng.random(len(worker)) < 1 / (1 + np.exp(1 - 4 * talent))
    wage = 2.5 + 0.03 * trained + 0.015 * year + talent + 0.2 * rng.standard_t(4, len(worker))
    return pd.DataFrame({"worker": worker, "year": year, "trained": trained * 1.0, "wage": wage})


def main() -> None:
    panel = read()
    panel["usual"] = panel.groupby("worker")["trained"].transform("mean")
    model = bmb.Model("wage ~ trained + usual + year + (1|worker)", panel, family="t")
    model.build()
    with model.backend.model:
        step = FireflyMH()
    idata = model.fit(step=step, draws=1000, random_seed=1, progressbar=False)
    names = ["trained", "usual", "year", "sigma", "nu", "1|worker_sigma"]
    print(az.summary(idata, var_names=names, round_to=3))
    chance = float((idata.posterior["trained"] > COST).mean())
    print(f"training pays with a chance of {chance:.2f}:", "pay" if chance > 0.9 else "do not")


if __name__ == "__main__":
    main()
