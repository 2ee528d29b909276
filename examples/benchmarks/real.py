"""Compare the default with NUTS on real data: `python -m examples.benchmarks.real --data FOLDER`.

Prints a Markdown table of processor seconds from a built model to 400 effective draws of the
slowest parameter, in two chains; each run in a new process with warm kernel caches. Draws a figure.
Without `--data` the models of simulated data are run alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from examples.benchmarks.__main__ import three_digits
from examples.benchmarks.real_models import MODELS, SIMULATED
from examples.benchmarks.real_worker import METHODS
from examples.benchmarks.subprocesses import ONE_THREAD, ROOT

#: By model and method: what was measured, or None.
Table = dict[str, dict[str, dict[str, Any] | None]]
DEFAULT = ("auto", "nuts", "nuts, low rank")


def run(model: str, method: str, folder: Path, seed: int, limit: float) -> dict[str, Any] | None:
    """Measure in a process of its own; None if it takes longer than the limit.

    Raises
    ------
    RuntimeError
        If it fails.
    """
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "out.json"
        arguments = [model, method, str(folder), str(seed), str(out)]
        command = [sys.executable, "-m", "examples.benchmarks.real_worker", *arguments]
        try:
            subprocess.run(
                command,
                cwd=ROOT,
                env=os.environ | ONE_THREAD,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                timeout=limit,
                check=True,
            )
        except subprocess.TimeoutExpired:
            return None
        except subprocess.CalledProcessError as error:
            raise RuntimeError(f"{model} by {method}:\n{error.stderr}") from None
        found: dict[str, Any] = json.loads(out.read_text())
        return found


def cell(found: dict[str, Any] | None, limit: float) -> str:
    """One method's seconds, marked if extrapolated, and what was chosen."""
    if found is None:
        return f"> {limit:.0f}"
    if "refused" in found:
        return ""
    text = three_digits(found["seconds"]) + "*" * found.get("extrapolated", False)
    return f"{text} ({found['kernel']})" if "kernel" in found else text


def draw(
    table: dict[str, dict[str, dict[str, Any] | None]], methods: list[str], path: Path
) -> None:
    """Draw a dot for each method in a line for each model."""
    figure, axes = plt.subplots(figsize=(8.0, 0.42 * len(table) + 1.2), layout="constrained")
    for method in methods:
        points = [
            (found["seconds"], i)
            for i, line in enumerate(table.values())
            if (found := line[method]) is not None and "seconds" in found
        ]
        axes.plot(*zip(*points, strict=True), "o", label=method, alpha=0.8)
    axes.set_yticks(range(len(table)), list(table))
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("processor seconds from a built model to 400 effective draws")
    axes.grid(axis="x", alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of the .npz files")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), metavar="MODEL")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(DEFAULT))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for a run")
    parser.add_argument("--results", type=Path, help="JSON: what is there is not measured again")
    parser.add_argument("--figure", type=Path, help="where to draw it")
    options = parser.parse_args()
    models = options.models or list(MODELS if options.data else SIMULATED)
    kept = options.results
    table: Table = json.loads(kept.read_text()) if kept and kept.exists() else {}
    print("| model |", " | ".join(options.methods), "|\n|---|" + "---:|" * len(options.methods))
    for model in models:
        line = table.setdefault(model, {})
        for method in [each for each in options.methods if each not in line]:
            settings = options.data or Path(), options.seed, options.limit
            line[method] = run(model, method, *settings)
            if kept:
                kept.write_text(json.dumps(table, indent=1))
        cells = [cell(line[method], options.limit) for method in options.methods]
        print(f"| {model} |", " | ".join(cells), "|", flush=True)
    table = {model: table[model] for model in models}
    for model, line in table.items():
        if (found := line.get("auto")) is not None:
            print(f"{model}: {found['said']}")
    if options.figure:
        draw(table, options.methods, options.figure)


if __name__ == "__main__":
    main()
