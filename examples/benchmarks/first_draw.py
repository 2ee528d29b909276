"""Draw once, in a process of its own: `... first_draw FOLDER STEP DRAWS CHAINS`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pymc as pm

import pymc_flymc
from examples.benchmarks.problem import Problem


def main() -> None:
    folder, step = Path(sys.argv[1]), getattr(pymc_flymc, sys.argv[2])
    draws, chains = int(sys.argv[3]), int(sys.argv[4])
    first: list[float] = []

    def note_first(trace: object, draw: object) -> None:
        if not first:
            first.append(time.time())

    with Problem.load(folder).model():
        pm.sample(
            step=step(),
            tune=draws // 2,
            draws=draws,
            chains=chains,
            cores=chains,
            callback=note_first,
            progressbar=False,
            random_seed=1,
        )
    (folder / "first_draw.txt").write_text(str(first[0]))


if __name__ == "__main__":
    main()
