"""Draw from the posterior once, in a process of its own: `... first_draw FOLDER DRAWS CHAINS`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pymc as pm

from examples.benchmarks.problem import Problem
from pymc_flymc import FireflyMH


def main() -> None:
    folder, draws, chains = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    first: list[float] = []

    def note_first(trace: object, draw: object) -> None:
        if not first:
            first.append(time.time())

    with Problem.load(folder).model():
        pm.sample(
            step=FireflyMH(),
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
