"""Rows read by the kernels: `python -m examples.benchmarks.kernels [--data FOLDER]`.

Draws, for simulated logistic regressions, the rows that each kernel reads per effective draw
against the number of parameters, and writes them as CSV, from which `--redraw` draws again. With
`--data`, prints a Markdown table for real data sets that are in the folder: mnist_7v9_pca50
(logistic), cifar3 (softmax, 256 binary features) and cep_opv_30k (Student t, Laplace prior). Counts
of rows do not depend on the machine.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from examples.benchmarks.__main__ import three_digits
from examples.benchmarks.measurement import count_rows
from examples.benchmarks.problem import synthetic
from examples.palette import look

COLUMNS = (3, 6, 11, 21, 51)
N_ROWS = 20_000
SETS = ["mnist_7v9_pca50", "cep_opv_30k", "cifar3"]


def kernels() -> dict[str, Any]:
    from pymc_flymc import FireflyHMC, FireflyMALA, FireflyMH, FireflySlice, ImplicitResampling

    brightness = ImplicitResampling()  # which calls for conditional moves
    return {
        "FireflyMH, conditional": lambda: FireflyMH(brightness=brightness),
        "FireflyMALA": FireflyMALA,
        "FireflySlice": FireflySlice,
        "FireflySlice, random": lambda: FireflySlice(direction="random"),
        "FireflyHMC": FireflyHMC,
    }


def measure(seed: int) -> pd.DataFrame:
    """Print and return the rows that each kernel reads, a line for each number of parameters."""
    print("| parameters | " + " | ".join(kernels()) + " |")
    print("|---:" * (1 + len(kernels())) + "|", flush=True)
    rows: dict[int, list[float]] = {}
    for n_columns in COLUMNS:
        model, rows[n_columns] = synthetic(N_ROWS, n_columns, seed).model(), []
        for make_step in kernels().values():
            ess, queries, _ = count_rows(model, make_step, seed, tune=500, draws=500)
            rows[n_columns].append(queries if ess > 100 else np.nan)
        cells = map(three_digits, rows[n_columns])
        print(f"| {n_columns} | " + " | ".join(cells) + " |", flush=True)
    return pd.DataFrame(rows, index=pd.Index(kernels())).T


def draw(points: pd.DataFrame, path: Path) -> None:
    """Draw a line for each kernel."""
    figure, axes = plt.subplots(figsize=(6.0, 4.4), layout="constrained")
    axes.set(xscale="log", yscale="log", xlabel="parameters", ylabel="rows per effective draw")
    for name, values in points.items():
        own = look(str(name))
        axes.plot(points.index, values, marker=own.marker, color=own.colour, lw=2, ms=7, label=name)
    axes.set_xticks(points.index, [str(c) for c in points.index])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=11)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def real_models(folder: Path) -> dict[str, Any]:
    """Models of the data sets: prior sd 1, for the 256 features 0.1."""
    import pymc as pm

    models = {}
    with np.load(folder / "mnist_7v9_pca50.npz") as file, pm.Model() as models["mnist_7v9_pca50"]:
        X = np.column_stack([np.ones(len(file["X"])), file["X"]]).astype(np.float64)
        beta = pm.Normal("beta", 0, 1, shape=X.shape[1])
        pm.Bernoulli("y", logit_p=X @ beta, observed=file["y"])
    with np.load(folder / "cep_opv_30k.npz") as file, pm.Model() as models["cep_opv_30k"]:
        X, y = file["X"].astype(np.float64), file["y"]
        X = np.column_stack([np.ones(len(X)), (X - X.mean(axis=0)) / X.std(axis=0)])
        beta = pm.Laplace("beta", 0, 1, shape=X.shape[1])
        y = (y - y.mean()) / y.std()
        pm.StudentT("y", nu=4, mu=X @ beta, sigma=0.5, observed=y)
    with np.load(folder / "cifar3.npz") as file, pm.Model() as models["cifar3"]:
        X = 2.0 * np.unpackbits(file["bits256_packed"], axis=1) - 1.0
        X = np.column_stack([np.ones(len(X)), X])
        beta = pm.Normal("beta", 0, 0.1, shape=(X.shape[1], 2))
        weights = pm.math.concatenate([beta, np.zeros((X.shape[1], 1))], axis=1)
        pm.Categorical("y", logit_p=X @ weights, observed=file["y"])
    return models


def tabulate(folder: Path, sets: list[str], names: list[str], draws: int, seed: int) -> None:
    print(
        "| data | kernel | bright rows | rows per effective draw | effective draws per 1,000 rows |"
    )
    print("|---|---|---:|---:|---:|", flush=True)
    models = real_models(folder)
    for name, model in ((name, models[name]) for name in sets):
        for kernel, make_step in kernels().items():
            if kernel not in names:
                continue
            ess, queries, bright = count_rows(model, make_step, seed, tune=500, draws=draws)
            cells = [three_digits(bright), three_digits(queries), three_digits(1000.0 / queries)]
            if ess < 50:
                cells[1:] = ["too few to tell"] * 2
            print(f"| {name} | {kernel} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m examples.benchmarks.kernels", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--figure", type=Path, default=Path("docs/figures/kernels.png"))
    parser.add_argument("--redraw", action="store_true", help="from the CSV beside the figure")
    parser.add_argument("--data", type=Path, help="folder with the npz files")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--kernels", nargs="+", choices=kernels(), default=list(kernels()))
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    if arguments.data:
        tabulate(arguments.data, arguments.sets, arguments.kernels, arguments.draws, arguments.seed)
        return
    table = arguments.figure.with_suffix(".csv")
    if not arguments.redraw:
        measure(arguments.seed).to_csv(table, index_label="parameters", float_format="%.4g")
    draw(pd.read_csv(table, index_col="parameters"), arguments.figure)


if __name__ == "__main__":
    main()
