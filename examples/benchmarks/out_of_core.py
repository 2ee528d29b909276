"""Table of rows out of core: `python -m examples.benchmarks.out_of_core --help`.

Simulated logistic regression on columns of float32, in files that are removed; two chains one after
the other. Each line is measured in a process of its own. Times are seconds of wall clock, and in
parentheses of the processor; to read once is to read all bytes, and decode them where they are
compressed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from examples.benchmarks.subprocesses import run

WHERE = "array", "map", "zarr", "parquet"
#: Rows of a Parquet file, and of those that are read at a time to see how long that takes.
FILE = 1_000_000


class Watch:
    """Seconds of wall clock and of this process's processor time since it was made."""

    def __init__(self) -> None:
        self.began = time.perf_counter(), time.process_time()

    def __str__(self) -> str:
        wall, processor = time.perf_counter() - self.began[0], time.process_time() - self.began[1]
        return f"{wall:.1f} ({processor:.1f})"


def rows_in(where: str, folder: Path) -> dict[str, Any]:
    """Open the rows."""
    import numpy as np

    if where == "zarr":
        import zarr

        return {name: zarr.open(folder / f"{name}.zarr", mode="r") for name in "Xy"}
    if where == "parquet":
        from dask.dataframe import read_parquet

        table = read_parquet(folder / "table")
        return {"X": table[[name for name in table.columns if name != "y"]], "y": table["y"]}
    mode: Any = "r" if where == "map" else None
    return {name: np.load(folder / f"{name}.npy", mmap_mode=mode) for name in "Xy"}


def read_once(where: str, folder: Path) -> None:
    """Read all rows, and forget them."""
    import numpy as np
    from pyarrow.parquet import read_table

    if where == "parquet":
        for path in (folder / "table").iterdir():
            read_table(path)
        return
    for values in rows_in(where, folder).values():
        for start in range(0, len(values), FILE):
            np.array(values[start : start + FILE])


def measure(where: str, folder: Path) -> dict[str, Any]:
    """Return seconds of each part, effective draws, and rows read."""
    watch = Watch()
    import arviz as az
    import numpy as np
    import pymc as pm

    from pymc_flymc import FireflyMH

    imported, watch = str(watch), Watch()
    read_once(where, folder)
    read, watch = str(watch), Watch()
    first = [np.load(folder / f"{name}.npy", mmap_mode="r")[:1000] for name in "Xy"]
    with pm.Model():
        X_head, y_head = pm.Data("X", first[0]), pm.Data("y", first[1])
        beta = pm.Normal("beta", 0.0, 1.0, shape=first[0].shape[1])
        pm.Bernoulli("y_obs", logit_p=X_head @ beta, observed=y_head)
        step = FireflyMH(data=rows_in(where, folder))
        ready, watch = str(watch), Watch()
        idata = pm.sample(step=step, tune=100, chains=2, cores=1, random_seed=1, progressbar=False)
    return {
        "seconds": [imported, read, ready, str(watch)],
        "ess": float(az.ess(idata)["beta"].min()),
        "read": float(idata.sample_stats["likelihood_queries"].mean()),
    }


def write_parquet(folder: Path) -> None:
    """Write the rows to files of a million."""
    import numpy as np
    import pandas as pd

    X, y = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in "Xy")
    (folder / "table").mkdir()
    for i, start in enumerate(range(0, len(y), FILE)):
        rows = slice(start, start + FILE)
        table = pd.DataFrame(X[rows], columns=[f"x{k}" for k in range(X.shape[1])])
        table.assign(y=y[rows]).to_parquet(folder / "table" / f"{i:05d}.parquet")


def write_zarr(folder: Path) -> None:
    """Write the rows to compressed chunks of 65,536."""
    import numpy as np
    import zarr

    for name in "Xy":
        rows = np.load(folder / f"{name}.npy", mmap_mode="r")
        chunks = (65_536, *rows.shape[1:])
        zarr.create_array(folder / f"{name}.zarr", data=rows, chunks=chunks)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.benchmarks.out_of_core")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=11)
    parser.add_argument("--where", nargs="+", choices=WHERE, default=["array", "map"])
    parser.add_argument("--folder", type=Path, help="where to put the files")
    options = parser.parse_args()

    from examples.large_data import make

    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        make(folder, options.rows, options.columns)
        if "zarr" in options.where:
            write_zarr(folder)
        if "parquet" in options.where:
            write_parquet(folder)
        print("| rows | where | imports s | to read once s | set-up s | sampling s ", end="")
        print("| peak memory GB | min-ESS | rows read per draw |\n|---:|---|" + "---:|" * 7)
        for where in options.where:
            out = folder / "out.json"
            peak = run("examples.benchmarks.out_of_core", "measure", where, str(folder), str(out))
            found = json.loads(out.read_text())
            seconds = " | ".join(found["seconds"])
            figures = f"{peak / 1e9:.2f} | {found['ess']:,.0f} | {found['read']:.2f}"
            print(f"| {options.rows:,} | {where} | {seconds} | {figures} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        Path(sys.argv[4]).write_text(json.dumps(measure(sys.argv[2], Path(sys.argv[3]))))
    else:
        main()
