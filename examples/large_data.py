"""Logistic regression on rows that are not in memory: from a file, and on a local Dask cluster.

Makes its data, 5,000,000 rows unless told otherwise, in a folder that it removes. Needs the extra
"dask". While it runs, the dashboard of the cluster is at the address that it prints.

    python examples/large_data.py 20000000
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
from distributed import Client, LocalCluster

from pymc_flymc import FireflyMH

N_COLUMNS = 11
BLOCK = 1_000_000


def make(folder: Path, n_rows: int, n_columns: int = N_COLUMNS) -> tuple[np.ndarray, np.ndarray]:
    """Write predictors and outcomes to files, and return maps of them."""
    X: Any = np.lib.format.open_memmap(
        folder / "X.npy", mode="w+", dtype=np.float32, shape=(n_rows, n_columns)
    )
    y: Any = np.lib.format.open_memmap(folder / "y.npy", mode="w+", dtype=np.int8, shape=(n_rows,))
    rng = np.random.default_rng(1)
    effects = rng.normal(size=n_columns) / np.sqrt(n_columns)
    for start in range(0, n_rows, BLOCK):
        block = rng.standard_normal((min(BLOCK, n_rows - start), n_columns), dtype=np.float32)
        block[:, 0] = 1.0
        rows = slice(start, start + len(block))
        X[rows] = block
        y[rows] = rng.random(len(block)) < 1.0 / (1.0 + np.exp(-block @ effects))
    return np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy", mmap_mode="r")


def sample(model: pm.Model, rows: dict[str, Any], what: str, client: Client | None = None) -> Any:
    """Sample, and say what it took."""
    began = time.perf_counter()
    with model:
        step = FireflyMH(data=rows, client=client)
        ready = time.perf_counter()
        idata = pm.sample(step=step, tune=100, cores=1, chains=2, random_seed=1, progressbar=False)
    seconds = time.perf_counter() - ready
    read = float(idata.sample_stats["likelihood_queries"].mean())
    ess = float(az.ess(idata)["beta"].min())
    print(
        f"{what}: {ready - began:.0f} s of set-up, {seconds:.1f} s for {ess:,.0f} effective "
        f"draws, {read:.2f} rows per draw"
    )
    return idata


def main(n_rows: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        X, y = make(Path(name), n_rows)
        with pm.Model() as model:
            X_head, y_head = pm.Data("X", X[:1000]), pm.Data("y", y[:1000])
            beta = pm.Normal("beta", 0.0, 1.0, shape=N_COLUMNS)
            pm.Bernoulli("y_obs", logit_p=X_head @ beta, observed=y_head)
        print(az.summary(sample(model, {"X": X, "y": y}, "from the files")))
        with LocalCluster(n_workers=2, threads_per_worker=1) as cluster, Client(cluster) as client:
            print(f"dashboard: {client.dashboard_link}")
            # Its workers open the files themselves.
            print(az.summary(sample(model, {"X": X, "y": y}, "on the cluster", client=client)))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000)
