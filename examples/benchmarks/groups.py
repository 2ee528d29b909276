"""Cost of an effective draw against the number of groups: `python -m examples.benchmarks.groups`.

Logistic regressions of 100,000 rows with ten slopes and random intercepts, of ten groups to ten
thousand. Prints a Markdown table of milliseconds for an effective draw of the slowest parameters
(see `ess_of_slowest`) by one core, after tuning, and draws a figure; from the CSV file beside it
with `--redraw`. Each run is in a process of its own. What is measured is added to that file.
NumPyro, which the package does not install, is measured if it is named (`--methods`).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from examples.benchmarks import nuts, polya_gamma
from examples.benchmarks.__main__ import three_digits
from examples.benchmarks.figures import name_curves, style_log_log
from examples.benchmarks.hierarchies import Hierarchy, grouped, intercepts, measure
from examples.benchmarks.measurement import draws_of, ess_of_slowest
from examples.benchmarks.subprocesses import result_of
from examples.palette import look

ROWS = 100_000
GROUPS = (10, 100, 1_000, 10_000)


def firefly(groups: int, seed: int, tune: int, draws: int) -> float:
    """Milliseconds for an effective draw of `FireflyMH()`."""
    hierarchy = Hierarchy(intercepts, partial(grouped, ROWS, groups))
    return float(measure(hierarchy, "default", seed, tune, draws)["ms per effective draw"])


def no_u_turn(groups: int, seed: int, tune: int, draws: int, **settings: str) -> float:
    """Milliseconds for an effective draw of NUTS: time by the clock, by gradients."""
    import pymc as pm

    options = nuts.nuts_options(seed, settings) | {"chains": 1, "cores": 1}
    with intercepts(**grouped(ROWS, groups)):
        idata = pm.sample(tune=tune, draws=draws, compute_convergence_checks=False, **options)
    before, after = nuts.gradients(idata)
    share = float(after[0] / (before + after)[0])
    sampling = float(idata.posterior.attrs["sampling_time"]) * share
    return 1e3 * sampling / ess_of_slowest(draws_of(idata))


def gibbs(groups: int, seed: int, tune: int, draws: int) -> float:
    """Milliseconds for an effective draw of Gibbs sampling with Pólya-Gamma variables."""
    data, rng = grouped(ROWS, groups), np.random.default_rng(seed)
    began = time.process_time()
    found = polya_gamma.sample(**data, rng=rng, tune=tune, draws=draws)
    each = (time.process_time() - began) / (tune + draws)
    return 1e3 * each * draws / ess_of_slowest(found)


def numpyro(groups: int, seed: int, tune: int, draws: int, platform: str) -> float:
    """Milliseconds for an effective draw of NumPyro's NUTS, in single precision.

    Of a processor's time, or by the clock.
    """
    # Before JAX is imported. A processor's threads would share the work.
    os.environ["JAX_PLATFORMS"] = platform
    if platform == "cpu" and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    from examples.benchmarks import numpyro_nuts

    stated = numpyro_nuts.state(Hierarchy(intercepts, partial(grouped, ROWS, groups)))
    ess_of = numpyro_nuts.ess_of_chains
    clock = time.process_time if platform == "cpu" else time.perf_counter
    found = numpyro_nuts.measure(*stated, ess_of, 1, tune, draws, seed=seed, clock=clock)
    return float(found["ms per effective draw"])


#: Label, what measures, and its numbers of draws for tuning and after it.
METHODS: dict[str, tuple[Callable[..., float], int, int]] = {
    "FireflyMH()": (firefly, 200, 1000),
    "NUTS": (no_u_turn, 400, 400),
    "NUTS, low rank": (partial(no_u_turn, adaptation="low_rank"), 400, 400),
    "Pólya-Gamma Gibbs": (gibbs, 200, 1000),
    "NumPyro, one core": (partial(numpyro, platform="cpu"), 400, 200),
    "NumPyro, GPU": (partial(numpyro, platform="cuda"), 400, 133),
}
DEFAULT = [label for label in METHODS if "NumPyro" not in label]


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        label, groups, seed = sys.argv[2:]
        warnings.simplefilter("ignore")
        function, tune, draws = METHODS[label]
        print(function(int(groups), int(seed), tune, draws))
        return
    parser = argparse.ArgumentParser(
        prog="python -m examples.benchmarks.groups", description=__doc__
    )
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=DEFAULT)
    parser.add_argument("--groups", nargs="+", type=int, default=list(GROUPS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("docs/figures/groups.png"))
    parser.add_argument("--redraw", action="store_true", help="from the CSV beside the figure")
    arguments = parser.parse_args()
    points = arguments.output.with_suffix(".csv")
    if not arguments.redraw:
        key = ["method", "groups"]
        for label in arguments.methods:
            for groups in arguments.groups:
                found = pd.DataFrame(
                    [(label, groups, run(label, groups, arguments.seed))],
                    columns=[*key, "ms per effective draw"],
                )
                if points.exists():
                    found = pd.concat([pd.read_csv(points), found]).drop_duplicates(
                        key, keep="last"
                    )
                found.to_csv(points, index=False, float_format="%.4g")
    table = pd.read_csv(points).pivot(index="method", columns="groups").droplevel(0, axis=1)
    table = table.reindex([label for label in METHODS if label in table.index])
    print_table(table)
    draw_figure(table, arguments.output)


def run(label: str, groups: int, seed: int) -> float:
    """Measure in a process of its own."""
    arguments = label, str(groups), str(seed)
    return float(result_of("examples.benchmarks.groups", "--worker", *arguments))


def print_table(table: pd.DataFrame) -> None:
    print("\n| ms per effective draw | " + " | ".join(f"{n:,} groups" for n in table) + " |")
    print("|---" + "|---:" * len(table.columns) + "|")
    for label, values in table.iterrows():
        cells = ["" if np.isnan(value) else three_digits(value) for value in values]
        print(f"| {label} | " + " | ".join(cells) + " |")


def draw_figure(table: pd.DataFrame, path: Path) -> None:
    """Curves with their names at the right end."""
    figure, axes = plt.subplots(figsize=(6.0, 4.2), layout="constrained")
    labels = []
    for label, values in table.iterrows():
        own = look(str(label))
        dashes = "--" if "low rank" in str(label) else "-"
        marker = own.marker or "s"
        axes.plot(table.columns, values, color=own.colour, marker=marker, lw=2, ls=dashes)
        labels.append((float(values.iloc[-1]), str(label), own.colour))
    style_log_log(
        axes,
        xlabel="groups",
        ylabel="ms per effective draw",
        title=f"Random intercepts, {ROWS:,} rows",
    )
    name_curves(axes, labels, table.columns[-1])
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
