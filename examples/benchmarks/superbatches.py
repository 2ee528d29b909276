"""Superbatches on a local cluster: `python -m examples.benchmarks.superbatches --help`.

Simulated logistic regression with 11 columns of float32 in files that are removed, a cluster of two
workers. What goes over the wire is what the loopback interface counts: the machine ought to do
nothing else with it. What a figure has is written as CSV beside it, from which `--redraw` draws.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import psutil
import pymc as pm
from distributed import Client, LocalCluster

from examples.benchmarks.figures import style_log_log
from examples.large_data import make
from pymc_flymc import FireflyMH

SUPERBATCHES, BATCHES = 6, 16
COLUMNS = (
    "| rows | partitions | set-up s | proposals/s | processor us a proposal | bytes a proposal "
    "| rows read a proposal |"
)


def on_dask(folder: Path, n_rows: int, n_partitions: int) -> dict[str, Any]:
    """Return the first rows of files as Dask arrays, which workers read themselves."""
    import dask.array as da
    from dask import delayed

    def load(path: str, start: int, stop: int) -> np.ndarray:
        return np.array(np.load(path, mmap_mode="r")[start:stop])

    bounds = np.linspace(0, n_rows, n_partitions + 1).astype(int).tolist()
    arrays = {}
    for name in "Xy":
        whole = np.load(folder / f"{name}.npy", mmap_mode="r")
        parts = [
            da.from_delayed(
                delayed(load)(str(folder / f"{name}.npy"), start, stop),
                (stop - start, *whole.shape[1:]),
                whole.dtype,
            )
            for start, stop in itertools.pairwise(bounds)
        ]
        arrays[name] = da.concatenate(parts)
    return arrays


def sent() -> int:
    """Bytes that went through the loopback interface so far."""
    return int(psutil.net_io_counters(pernic=True)["lo"].bytes_sent)


def measure(folder: Path, n_rows: int, n_partitions: int) -> dict[str, Any]:
    """Weigh some superbatches, several under way at a time."""
    X, y = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in "Xy")
    settings: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(n_workers=2, **settings) as cluster, Client(cluster) as client:
        with pm.Model():
            X_head, y_head = pm.Data("X", X[:1000]), pm.Data("y", y[:1000])
            beta = pm.Normal("beta", 0.0, 1.0, shape=X.shape[1])
            pm.Bernoulli("y_obs", logit_p=X_head @ beta, observed=y_head)
            began = time.perf_counter()
            step = FireflyMH(data=on_dask(folder, n_rows, n_partitions))
            setup = time.perf_counter() - began
        target = step.target
        target.begin((1,), range(1, 1 + BATCHES))()  # what is compiled is compiled now

        def processor() -> float:
            return time.process_time() + sum(client.run(time.process_time).values())

        began, used, bytes_before = time.perf_counter(), processor(), sent()
        numbers = [
            range(1 + BATCHES * i, 1 + BATCHES * (i + 1)) for i in range(1, 1 + SUPERBATCHES)
        ]
        bright = [wait()[1] for wait in [target.begin((1,), batches) for batches in numbers]]
        seconds = time.perf_counter() - began
        n_proposals = sum(map(len, bright))
        return {
            "rows": n_rows,
            "partitions": n_partitions,
            "setup": setup,
            "proposals": n_proposals,
            "seconds": seconds,
            "bytes": (sent() - bytes_before) / n_proposals,
            "processor": (processor() - used) / n_proposals,
            "read": float(np.concatenate(bright).mean()),
        }


def row(found: dict[str, Any]) -> str:
    """Return a line of the table."""
    rate = found["proposals"] / found["seconds"]
    return (
        f"| {found['rows']:,} | {found['partitions']} | {found['setup']:.0f} | {rate:,.0f} "
        f"| {1e6 * found['processor']:.0f} | {found['bytes']:.1f} | {found['read']:.3f} |"
    )


def draw(found: list[dict[str, Any]], path: Path) -> None:
    """Draw what a proposal costs, against the rows and against the partitions."""
    usual = found[0]["partitions"]
    by_rows = [each for each in found if each["partitions"] == usual]
    most = max(each["rows"] for each in found if each["partitions"] != usual)
    by_partitions = sorted(
        (each for each in found if each["rows"] == most), key=lambda each: each["partitions"]
    )
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(6.0, 3.8), sharey=True, layout="constrained"
    )
    for axes, chosen, key in ((left, by_rows, "rows"), (right, by_partitions, "partitions")):
        x = [each[key] for each in chosen]
        for name, scale, label, style in (
            ("processor", 1e6, "microseconds of processor time", "ko-"),
            ("bytes", 1.0, "bytes sent", "ks--"),
            ("read", 1.0, "rows read", "k^:"),
        ):
            axes.plot(x, [scale * each[name] for each in chosen], style, ms=6, label=label)
        style_log_log(axes)
    left.set(title=f"{usual} partitions", ylabel="per proposal")
    right.set(title=f"{most:,} rows", xlabel="partitions")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, ncols=3, loc="outside lower center")
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.benchmarks.superbatches")
    default = [100_000, 1_000_000, 10_000_000]
    parser.add_argument("--rows", type=int, nargs="+", default=default)
    parser.add_argument("--partitions", type=int, nargs="+", default=[16, 1, 4, 64])
    parser.add_argument(
        "--partitioned", type=int, default=10_000_000, help="rows that all numbers of parts get"
    )
    parser.add_argument("--folder", type=Path, help="where to put the files: 45 bytes a row")
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--redraw", action="store_true", help="from the CSV beside the figure")
    options = parser.parse_args()
    if options.redraw:
        points = pd.read_csv(options.figure.with_suffix(".csv"))
        draw(points.to_dict("records"), options.figure)
        return
    usual, *others = options.partitions
    cases = [(n, usual) for n in options.rows] + [(options.partitioned, p) for p in others]
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        make(Path(name), max(n for n, _ in cases))
        print(COLUMNS + "\n|" + "---:|" * 7)
        for n_rows, n_partitions in cases:
            found.append(measure(Path(name), n_rows, n_partitions))
            print(row(found[-1]), flush=True)
    if options.figure:
        columns = ["rows", "partitions", "processor", "bytes", "read"]
        points = pd.DataFrame(found)[columns]
        points.to_csv(options.figure.with_suffix(".csv"), index=False, float_format="%.4g")
        draw(found, options.figure)


if __name__ == "__main__":
    main()
