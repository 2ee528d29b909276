"""How slack and brightness updates set the pace: `python -m examples.benchmarks.mixing`.

Draws, for `FireflyHMC` on simulated regressions, effective draws per second of processor time and
per thousand rows read, against the slack of the bound, the proposal probabilities of dark rows, the
sweeps after each update of the parameters and the length of trajectories; each by itself. Bars are
the range of four chains, each tuned by itself. What is drawn is written as CSV, too.
"""

from __future__ import annotations

import argparse
import logging
import time
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import LogLocator

from examples.benchmarks.problem import synthetic
from examples.palette import look

PROBLEMS = {"logistic, 51 parameters": ("logistic", 51), "Student t, 13 parameters": ("robust", 11)}
SETTINGS = {
    "slack": (0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
    "ratio": (0.125, 0.25, 0.5, 1.0, 2.0, 4.0),
    "sweeps": (1, 2, 4, 8, 16),
    "path_length": (1.5, 2.0, 2.5, 3.0, 4.0, 6.0),
}
#: Those of the step; the slack is the bound's own.
DEFAULTS = {"ratio": 1.0, "sweeps": 2, "path_length": 2.5}
N_ROWS, N_CHAINS, N_TUNE, N_DRAWS = 50_000, 4, 400, 3000


def measure(
    model: Any, bound: Any, slack: float, ratio: float, sweeps: int, path_length: float
) -> list[dict[str, float]]:
    """Effective draws a second, and a thousand rows, of each chain of single transitions."""
    import arviz as az

    from pymc_flymc import FireflyHMC, ImplicitResampling

    with model:
        resampling = ImplicitResampling(ratio=ratio, sweeps=int(sweeps))
        step = FireflyHMC(
            bound=bound(slack=slack),
            brightness=resampling,
            path_length=path_length,
            transitions=1,
        )
    rates = []
    for seed in range(N_CHAINS):
        # PyMC's own work for each draw is left out: a draw has several transitions.
        step.setup_chain(np.random.default_rng(seed), N_TUNE, N_DRAWS)
        point = model.initial_point()
        for _ in range(N_TUNE):
            point, _ = step.step(point)
        step.stop_tuning()
        chain, rng, draws = step.chain, np.random.default_rng(100 + seed), []
        assert chain is not None
        chain.take_queries()
        began = time.process_time()
        for _ in range(N_DRAWS):
            chain.advance(rng, 1, 0.0)
            draws.append(chain.state.theta.copy())
        seconds, queries = time.process_time() - began, chain.take_queries()
        ess = float(np.min(az.ess(np.reshape(draws, (1, N_DRAWS, -1)), method="bulk")))
        rates.append({"a second": ess / seconds, "for 1,000 rows": 1000.0 * ess / queries})
    return rates


def draw(found: pd.DataFrame, path: Path) -> None:
    """Draw the mean over chains, and their range; a row for each setting, for narrow pages."""
    rates = ("a second", "for 1,000 rows")
    figure, axes = plt.subplots(
        len(SETTINGS), 2, figsize=(6.0, 8.4), layout="constrained", sharex="row", sharey="col"
    )
    own = look("FireflyHMC")
    styles = {"logistic": (own.colour, "-"), "Student t": ("white", "--")}
    for across, (setting, values) in zip(axes, SETTINGS.items(), strict=True):
        for ax, rate in zip(across, rates, strict=True):
            for problem, (face, line) in styles.items():
                of = (found["setting"] == setting) & found["problem"].str.startswith(problem)
                by_value = found[of].groupby("value")
                mean, chains = by_value[rate].mean(), by_value[rate]
                label = found.loc[of, "problem"].iloc[0]
                like = {"color": own.colour, "ls": line, "marker": own.marker, "mfc": face}
                ax.plot(mean.index, mean, label=label, **like)
                ax.vlines(mean.index, chains.min(), chains.max(), color=own.colour, lw=1)
                at = by_value["default"].any()
                ax.plot(mean.index[at], mean[at], "o", ms=13, mfc="none", c="0.4")
            ax.set(xscale="log", yscale="log", xlabel=setting)
            ax.set_xticks(values, [f"{v:g}" for v in values])
            ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            ax.yaxis.set_major_formatter("{x:,g}")
            ax.minorticks_off()
            ax.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_title("effective draws\nper processor second", fontsize=10)
    axes[0, 1].set_title("effective draws\nper 1,000 rows read", fontsize=10)
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), frameon=False, ncols=2, loc="outside lower center"
    )
    figure.savefig(path, dpi=150)


def main() -> None:
    from pymc_flymc import JaakkolaJordan, Tangent

    parser = argparse.ArgumentParser(
        prog="python -m examples.benchmarks.mixing", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--figure", type=Path, default=Path("docs/figures/mixing.png"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--redraw", action="store_true", help="draw what the CSV file has")
    arguments = parser.parse_args()
    points = arguments.figure.with_suffix(".csv")
    if arguments.redraw:
        draw(pd.read_csv(points), arguments.figure)
        return
    logging.getLogger("pymc").setLevel(logging.ERROR)
    rows = []
    for problem, (likelihood, n_columns) in PROBLEMS.items():
        model = synthetic(N_ROWS, n_columns, arguments.seed, likelihood).model()
        bound = JaakkolaJordan if likelihood == "logistic" else Tangent
        defaults = {"slack": bound().slack} | DEFAULTS
        for setting, values in SETTINGS.items():
            for value in values:
                of = {"problem": problem, "setting": setting, "value": value}
                of["default"] = value == defaults[setting]
                rates = measure(model, bound, **defaults | {setting: value})
                rows += [of | {"chain": chain} | rate for chain, rate in enumerate(rates)]
                print(of, np.mean([list(r.values()) for r in rates], axis=0).round(2), flush=True)
    found = pd.DataFrame(rows)
    found.to_csv(points, index=False, float_format="%.4g")
    draw(found, arguments.figure)


if __name__ == "__main__":
    main()
