"""Measure one method in this process: `python -m examples.benchmarks.worker METHOD FOLDER ...`."""

from __future__ import annotations

import json
import logging
import sys
import warnings
from pathlib import Path

import pymc  # noqa: F401

from examples.benchmarks.methods import METHODS
from examples.benchmarks.problem import Problem


def main() -> None:
    method, folder, seed, budget = sys.argv[1:]
    logging.getLogger("pymc").setLevel(logging.ERROR)  # after PyMC's import has set it to INFO
    warnings.simplefilter("ignore")
    measure = METHODS[method][1]
    measurement = measure(Problem.load(Path(folder)), int(seed), float(budget))
    Path(folder, f"{method}.json").write_text(json.dumps(measurement.to_dict()))


if __name__ == "__main__":
    main()
