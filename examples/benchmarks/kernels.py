"""Rows read by the kernels: `python -m examples.benchmarks.kernels [--data FOLDER]`.

Draws, for simulated logistic regressions, the rows that each kernel reads for an effective draw
against the number of parameters. With `--data`, prints a Markdown table for real data sets that are
in the folder: mnist_7v9_pca50 (logistic), cifar3 (softmax, 256 binary features) and cep_opv_30k
(Student t, Laplace prior). Counts of rows do not depend on the machine.
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

from examples.benchmarks.__main__ import three_digits
from examples.benchmarks.measurement import count_rows
from examples.benchmarks.problem import synthetic

COLUMNS = (3, 6, 11, 21, 51)
N_ROWS = 20_000
SETS = ["mnist_7v9_pca50", "cep_opv_30k", "cifar3"]


def kernels() -> dict[str, Any]:
    from pymc_flymc import FireflyHMC, FireflyMALA, FireflyMH, FireflySlice, ImplicitResampling

    given_z = ImplicitResampling()  # which calls for moves of the parameters given z
    return {
        "FireflyMH, given z": lambda: FireflyMH(brightness=given_z),
        "FireflyMALA": FireflyMALA,
        "FireflySlice": FireflySlice,
        "FireflySlice, random": lambda: FireflySlice(direction="random"),
        "FireflyHMC": FireflyHMC,
    }


def plot(path: Path, seed: int) -> None:
    figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
    print("| parameters | " + " | ".join(kernels()) + " |")
    print("|---:" * (1 + len(kernels())) + "|", flush=True)
    rows: dict[str, list[float]] = {name: [] for name in kernels()}
    for n_columns in COLUMNS:
        model = synthetic(N_ROWS, n_columns, seed).model()
        for name, make_step in kernels().items():
            ess, queries, _ = count_rows(model, make_step, seed, tune=500, draws=500)
            rows[name].append(queries if ess > 100 else np.nan)
        cells = [three_digits(rows[name][-1]) for name in rows]
        print(f"| {n_columns} | " + " | ".join(cells) + " |", flush=True)
    for name, values in rows.items():
        axes.plot(COLUMNS, values, marker="o", label=name)
    axes.set(
        xscale="log", yscale="log", xlabel="parameters", ylabel="rows read for an effective draw"
    )
    axes.set_xticks(COLUMNS, [str(c) for c in COLUMNS])
    axes.minorticks_off()
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


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
        "| data | kernel | bright rows | rows for an effective draw | effective draws a "
        "1,000 rows |"
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
    parser.add_argument("--data", type=Path, help="folder with the npz files")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--kernels", nargs="+", choices=kernels(), default=list(kernels()))
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    if arguments.data:
        tabulate(arguments.data, arguments.sets, arguments.kernels, arguments.draws, arguments.seed)
    else:
        plot(arguments.figure, arguments.seed)


if __name__ == "__main__":
    main()
