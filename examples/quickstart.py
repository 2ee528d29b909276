"""Logistic regression on a million simulated rows: who renews a subscription.

Prints the times taken, a summary of the posterior and the rows read per draw; draws quickstart.png.
"""

from __future__ import annotations

import time
from typing import Any

import arviz as az
import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
from scipy.stats import gaussian_kde

from pymc_flymc import FireflyMH

N_ROWS = 1_000_000
PREDICTORS = {  # and the effect of one standard deviation on the log odds of renewal
    "age": 0.15,
    "tenure": 0.60,
    "price": -0.45,
    "discount": 0.30,
    "visits": 0.80,
    "downloads": 0.25,
    "complaints": -0.70,
    "late payments": -0.35,
    "referrals": 0.10,
    "newsletter": 0.00,
}
INTERCEPT = -0.5


def simulate(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Standardised predictors, correlated through a common "engagement", and who renewed."""
    engagement = rng.normal(size=(N_ROWS, 1))
    X = 0.5 * engagement + np.sqrt(0.75) * rng.normal(size=(N_ROWS, len(PREDICTORS)))
    eta = INTERCEPT + X @ np.array(list(PREDICTORS.values()))
    return X, rng.random(N_ROWS) < 1 / (1 + np.exp(-eta))


def draw_figure(idata: Any, path: str) -> None:
    """Posterior marginals with the values that simulated the data, and the rows that draws read."""
    posterior = idata.posterior
    marginals = {"intercept": (posterior["alpha"], INTERCEPT)} | {
        name: (posterior["beta"].sel(predictor=name), truth) for name, truth in PREDICTORS.items()
    }
    figure = plt.figure(figsize=(10, 9), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    grid = figure.add_gridspec(4, 4, height_ratios=[1, 1, 1, 1.4])
    for place, (name, (draws, truth)) in enumerate(marginals.items()):
        axes = figure.add_subplot(grid[place // 4, place % 4])
        values = draws.to_numpy().ravel()
        half_width = 4.5 * values.std()
        x = np.linspace(values.mean() - half_width, values.mean() + half_width, 200)
        density = gaussian_kde(values)(x)
        axes.fill_between(x, density, color="C0", alpha=0.35, lw=0, label="posterior density")
        axes.plot(x, density, color="C0", lw=1)
        axes.axvline(truth, color="C3", ls="--", lw=1.3, label="value that made the data")
        axes.set(title=name, yticks=[], ylim=(0, None), xlim=(x[0], x[-1]))
        axes.locator_params(axis="x", nbins=3)
        axes.spines[["left", "top", "right"]].set_visible(False)
        axes.set_xlabel("log odds" if name == "intercept" else "log odds per sd", fontsize=8)
    corner = figure.add_subplot(grid[2, 3])
    corner.axis("off")
    corner.legend(*axes.get_legend_handles_labels(), loc="center", frameon=False)

    axes = figure.add_subplot(grid[3, :])
    queries = idata.sample_stats["likelihood_queries"].to_numpy().ravel()
    counts = np.bincount(queries)
    axes.bar(np.arange(len(counts)), counts / counts.sum(), width=0.7, color="C0")
    axes.set(
        title=f"Rows read per draw: mean {queries.mean():.2f} of {N_ROWS:,}",
        xlabel="rows read per draw",
        ylabel="share of the draws",
    )
    axes.locator_params(axis="x", integer=True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)


def main() -> None:
    X, renewed = simulate(np.random.default_rng(2014))
    with pm.Model(coords={"predictor": list(PREDICTORS)}):
        alpha = pm.Normal("alpha", 0, 2)
        beta = pm.Normal("beta", 0, 1, dims="predictor")
        pm.Bernoulli("renewed", logit_p=alpha + X @ beta, observed=renewed)

        began = time.perf_counter()
        step = FireflyMH()
        ready = time.perf_counter()
        idata = pm.sample(step=step, chains=2, cores=2, random_seed=1)
        done = time.perf_counter()

    print(az.summary(idata))
    queries = idata.sample_stats["likelihood_queries"].to_numpy()
    ess = min(float(values.min()) for values in az.ess(idata).data_vars.values())
    print(f"Set-up (anchor, bound, compilation): {ready - began:.1f} s")
    print(f"Sampling, tuning included:           {done - ready:.1f} s")
    print(f"Rows read for {queries.size:,} draws:           {queries.sum():,} of {N_ROWS:,}")
    print(f"Rows read per effective draw:        {queries.sum() / ess:.2f}")
    draw_figure(idata, "quickstart.png")
    print("Figure saved to quickstart.png")


if __name__ == "__main__":
    main()
