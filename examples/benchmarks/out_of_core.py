"""Table of rows out of core: `python -m examples.benchmarks.out_of_core --help`.

Simulated logistic regression with 11 columns of float32, in files that are removed; two chains one
after the other. Each line is measured in a process of its own.
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

WHERE = "array", "map", "zarr"


def measure(where: str, folder: Path) -> dict[str, Any]:
    """Seconds of wall clock of each part, effective draws, and rows read."""
    began = time.perf_counter()
    import arviz as az
    import numpy as np
    import pymc as pm

    from pymc_flymc import FireflyMH

    if where == "zarr":
        import zarr

        X, y = (zarr.open(folder / f"{name}.zarr", mode="r") for name in "Xy")
    else:
        mode: Any = "r" if where == "map" else None
        X, y = (np.load(folder / f"{name}.npy", mmap_mode=mode) for name in "Xy")
    imported = time.perf_counter()
    with pm.Model():
        X_head, y_head = pm.Data("X", X[:1000]), pm.Data("y", y[:1000])
        beta = pm.Normal("beta", 0.0, 1.0, shape=X.shape[1])
        pm.Bernoulli("y_obs", logit_p=X_head @ beta, observed=y_head)
        step = FireflyMH(data={"X": X, "y": y})
        ready = time.perf_counter()
        idata = pm.sample(step=step, tune=100, chains=2, cores=1, random_seed=1, progressbar=False)
    return {
        "imports": imported - began,
        "setup": ready - imported,
        "sampling": time.perf_counter() - ready,
        "ess": float(az.ess(idata)["beta"].min()),
        "read": float(idata.sample_stats["likelihood_queries"].mean()),
    }


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
    parser.add_argument("--where", nargs="+", choices=WHERE, default=["array", "map"])
    parser.add_argument("--folder", type=Path, help="where to put the files: 45 bytes a row")
    options = parser.parse_args()

    from examples.large_data import make

    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        make(folder, options.rows)
        if "zarr" in options.where:
            write_zarr(folder)
        print(
            "| rows | where | imports, loading s | set-up s | sampling s | peak memory GB |", end=""
        )
        print(" min-ESS | rows read a draw |\n|---:|---|" + "---:|" * 6)
        for where in options.where:
            out = folder / "out.json"
            peak = run("examples.benchmarks.out_of_core", "measure", where, str(folder), str(out))
            found = json.loads(out.read_text())
            seconds = " | ".join(f"{found[key]:.1f}" for key in ("imports", "setup", "sampling"))
            figures = f"{peak / 1e9:.2f} | {found['ess']:,.0f} | {found['read']:.2f}"
            print(f"| {options.rows:,} | {where} | {seconds} | {figures} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        Path(sys.argv[4]).write_text(json.dumps(measure(sys.argv[2], Path(sys.argv[3]))))
    else:
        main()
