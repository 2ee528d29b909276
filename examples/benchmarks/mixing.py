"""How slack and brightness updates set the pace: `python -m examples.benchmarks.mixing`.

Draws, for `FireflyHMC` on simulated regressions, effective draws a second of processor time and for
each thousand rows read, against the slack of the bound, the proposal probabilities of dark rows,
the sweeps after each update of the parameters and the length of trajectories; each by itself.
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

from examples.benchmarks.problem import synthetic

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
) -> tuple[float, float]:
    """Effective draws a second, and a thousand rows, over chains of single transitions."""
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
    seconds, queries, draws = 0.0, 0, []
    for seed in range(N_CHAINS):
        # PyMC's own work for each draw is left out: a draw has several transitions.
        step.setup_chain(np.random.default_rng(seed), N_TUNE, N_DRAWS)
        point = model.initial_point()
        for _ in range(N_TUNE):
            point, _ = step.step(point)
        step.stop_tuning()
        chain, rng = step.chain, np.random.default_rng(100 + seed)
        assert chain is not None
        chain.take_queries()
        began = time.process_time()
        for _ in range(N_DRAWS):
            chain.advance(rng, 1, 0.0)
            draws.append(chain.state.theta.copy())
        seconds += time.process_time() - began
        queries += chain.take_queries()
    ess = float(np.min(az.ess(np.reshape(draws, (N_CHAINS, N_DRAWS, -1)), method="bulk")))
    return ess / seconds, 1000.0 * ess / queries


def main() -> None:
    from pymc_flymc import JaakkolaJordan, Tangent

    parser = argparse.ArgumentParser(
        prog="python -m examples.benchmarks.mixing", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--figure", type=Path, default=Path("docs/figures/mixing.png"))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    figure, axes = plt.subplots(
        2, 4, figsize=(11, 5), layout="constrained", sharex="col", sharey="row"
    )
    for label, (likelihood, n_columns) in PROBLEMS.items():
        model = synthetic(N_ROWS, n_columns, arguments.seed, likelihood).model()
        bound = JaakkolaJordan if likelihood == "logistic" else Tangent
        defaults = {"slack": bound().slack} | DEFAULTS
        for column, (setting, values) in enumerate(SETTINGS.items()):
            rates = [measure(model, bound, **defaults | {setting: value}) for value in values]
            print(
                label,
                setting,
                [tuple(float(f"{r:.3g}") for r in rate) for rate in rates],
                flush=True,
            )
            for row, ax in enumerate(axes[:, column]):
                (line,) = ax.plot(values, [rate[row] for rate in rates], marker="o", label=label)
                ax.set(xscale="log", yscale="log")
                default = values.index(defaults[setting])
                ax.plot(
                    values[default], rates[default][row], "o", ms=12, mfc="none", c=line.get_c()
                )
            axes[1, column].set_xticks(values, [f"{v:g}" for v in values])
            axes[1, column].minorticks_off()
            axes[1, column].set_xlabel(setting)
    axes[0, 0].set_ylabel("effective draws a second")
    axes[1, 0].set_ylabel("effective draws a 1,000 rows")
    axes[0, 3].legend(frameon=False, loc="lower right")
    figure.savefig(arguments.figure, dpi=150)


if __name__ == "__main__":
    main()
