"""Parquet on a cluster of two workers: `python -m examples.benchmarks.parquet --help`.

Simulated logistic and Poisson regressions with effects of groups on one table in many files, that
are removed afterwards. What goes over the wire is what the loopback interface counts: the machine
ought to do nothing else with it. Draws of the same rows in maps, Zarr and memory, cut in the same
way, are compared with those of the files.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import sys
import tempfile
import time
from hashlib import blake2b
from pathlib import Path
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pymc as pm
import zarr
from dask import delayed
from distributed import Client, LocalCluster

from examples.benchmarks.measurement import draws_of, smallest_ess
from examples.benchmarks.simulation import yes_or_no
from examples.benchmarks.subprocesses import run
from examples.benchmarks.superbatches import sent
from pymc_flymc import FireflyMH
from pymc_flymc.out_of_core.columns import as_column

COLUMNS, N_GROUPS = ["age", "income", "visits", "price"], 10
WHERE = "Parquet", "map", "Zarr", "array"
OUTCOMES = "bought", "calls"
TITLE = (
    "| model | rows | where | set-up s | sampling s | MB sent | peak memory: client, workers GB "
    "| min-ESS | rows read per draw | draws |\n|---|---:|---|" + "---:|" * 7
)


def make(folder: Path, n_files: int, n_rows: int) -> list[int]:
    """Write a table to files of unequal lengths, with their columns in no fixed order."""
    rng = np.random.default_rng(1)
    effects, groups = np.array([0.4, -0.3, 0.2, 0.0]), 0.5 * rng.normal(size=N_GROUPS)
    lengths = [n_rows + (i % 7 - 3) * (n_rows // 50) for i in range(n_files)]
    for i, n in enumerate(lengths):
        X = rng.normal(size=(n, len(COLUMNS))).astype(np.float32)
        group = rng.integers(0, N_GROUPS, n).astype(np.int16)
        eta = -1.0 + X @ effects + groups[group]
        bought = yes_or_no(eta, rng)
        table = pd.DataFrame(X, columns=COLUMNS).assign(
            group=group, bought=bought.astype(np.int8), calls=rng.poisson(np.exp(eta)).astype("i2")
        )
        table[list(table.columns[:: -1 if i % 2 else 1])].to_parquet(folder / f"{i:03d}.parquet")
    return lengths


def model_of(outcome: str, folder: Path) -> pm.Model:
    """Return the model, on the first rows of the table."""
    head = pd.read_parquet(files(folder)[0])[:100]
    with pm.Model(coords={"column": COLUMNS}) as model:
        X = pm.Data("X", head[COLUMNS].to_numpy(np.float32), dims=("row", "column"))
        group = pm.Data("group", head["group"].to_numpy(np.int16))
        y = pm.Data(outcome, head[outcome].to_numpy(np.int16))
        beta = pm.Normal("beta", 0, 1, dims="column")
        effect = pm.Normal("effect", -1, 1, shape=N_GROUPS)
        eta = X @ beta + effect[group]
        if outcome == "bought":
            pm.Bernoulli("outcome", logit_p=eta, observed=y)
        else:
            pm.Poisson("outcome", mu=pm.math.exp(eta), observed=y)
    return model


def write_arrays(folder: Path, lengths: list[int]) -> None:
    """Write the columns of the table as arrays, file by file: maps, and compressed Zarr."""
    arrays: dict[str, Any] = {}
    ends = np.cumsum([0, *lengths]).tolist()
    for path, (start, stop) in zip(files(folder), itertools.pairwise(ends), strict=True):
        table = pd.read_parquet(path)
        found = {"X": table[COLUMNS], **{name: table[name] for name in ("group", *OUTCOMES)}}
        for name, frame in found.items():
            values = frame.to_numpy()
            if name not in arrays:
                shape, dtype = (ends[-1], *values.shape[1:]), values.dtype
                arrays[name] = np.lib.format.open_memmap(
                    folder.with_name(f"{name}.npy"), mode="w+", dtype=dtype, shape=shape
                )
            arrays[name][start:stop] = values
    for name, array in arrays.items():
        array.flush()
        path = folder.with_name(f"{name}.zarr")
        zarr.create_array(path, data=array, chunks=(65_536, *array.shape[1:]))


def files(folder: Path) -> list[Path]:
    """Return the files of the table, in their order."""
    return sorted(folder.glob("*.parquet"))


def rows_in(where: str, folder: Path, outcome: str, lengths: list[int]) -> Any:
    """Return the same rows, cut where the files end, stored in another way."""
    if where == "Parquet":
        return str(folder)
    found = {}
    for name in ("X", "group", outcome):
        path = str(folder.with_name(f"{name}.npy"))
        array: Any = np.load(path, mmap_mode="r" if where == "map" else None)
        if where == "map":
            parts = [
                da.from_delayed(
                    delayed(load)(path, start, stop),
                    (stop - start, *array.shape[1:]),
                    array.dtype,
                )
                for start, stop in itertools.pairwise(np.cumsum([0, *lengths]).tolist())
            ]
            found[name] = da.concatenate(parts)
            continue
        chunks = (tuple(lengths), *((n,) for n in array.shape[1:]))
        if where == "Zarr":
            array = zarr.open(folder.with_name(f"{name}.zarr"), mode="r")
        found[name] = da.from_array(array, chunks=chunks)
    return found


def load(path: str, start: int, stop: int) -> np.ndarray:
    """Read rows of a file, in a worker."""
    return np.array(np.load(path, mmap_mode="r")[start:stop])


def peak() -> float:
    """Return the most memory that this process has had, in GB (Linux only).

    `resource.getrusage` would say that of the process that started it, if that is more.
    """
    status = Path("/proc/self/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) / 1e6


def measure(where: str, outcome: str, folder: Path, lengths: list[int]) -> str:
    """Return a line of the table; this process is for it alone."""
    settings: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": None}
    data = rows_in(where, folder, outcome, lengths)
    with LocalCluster(n_workers=2, **settings) as cluster, Client(cluster) as client:
        began, before = time.perf_counter(), sent()
        with model_of(outcome, folder):
            step = FireflyMH(data=data, client=client)
            ready = time.perf_counter()
            idata = pm.sample(
                step=step, tune=100, chains=2, cores=1, random_seed=1, progressbar=False
            )
        seconds = time.perf_counter() - ready
        megabytes = (sent() - before) / 1e6
        workers = ", ".join(f"{each:.2f}" for each in client.run(peak).values())
    found = draws_of(idata)
    draws, least = np.concatenate([v.ravel() for v in found.values()]), smallest_ess(found)
    read = float(idata["sample_stats"]["likelihood_queries"].mean())
    return (
        f"| {outcome} | {sum(lengths):,} | {where} | {ready - began:.1f} | {seconds:.1f} "
        f"| {megabytes:.1f} | {peak():.2f}, {workers} | {least:,.0f} | {read:.2f} "
        f"| {blake2b(draws.tobytes(), digest_size=4).hexdigest()} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.benchmarks.parquet")
    parser.add_argument("--files", type=int, default=30)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of a file, about")
    parser.add_argument("--where", nargs="+", choices=WHERE, default=["Parquet"])
    parser.add_argument("--outcomes", nargs="+", choices=OUTCOMES, default=OUTCOMES)
    parser.add_argument("--folder", type=Path, help="where to put the files: 70 bytes a row")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder, out = Path(name) / "table", Path(name) / "out.json"
        folder.mkdir()
        lengths = make(folder, options.files, options.rows)
        if set(options.where) - {"Parquet"}:
            write_arrays(folder, lengths)
        # Dask reads several small files as one partition.
        table = dd.read_parquet(folder)[COLUMNS]
        lengths = list(as_column("X", table).array.chunks[0])
        print(f"{options.files} files, {len(lengths)} partitions")
        print(TITLE)
        for where in options.where:
            for outcome in options.outcomes:
                asked = json.dumps([where, outcome, str(folder), lengths])
                run("examples.benchmarks.parquet", "measure", asked, str(out))
                print(out.read_text(), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        where, outcome, name, lengths = json.loads(sys.argv[2])
        Path(sys.argv[3]).write_text(measure(where, outcome, Path(name), lengths))
    else:
        main()
