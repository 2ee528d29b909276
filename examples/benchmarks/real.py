"""Compare the default with NUTS on real data: `python -m examples.benchmarks.real --data FOLDER`.

Prints a Markdown table of processor seconds from a built model to 400 effective draws of the
slowest parameter, in two chains; each run in a new process with warm kernel caches. Draws a figure,
and writes its points as CSV beside it, from which `--redraw` draws again. Without `--data` the
models of simulated data are run alone.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from examples.benchmarks.__main__ import three_digits
from examples.benchmarks.real_models import MODELS, SIMULATED
from examples.benchmarks.real_worker import METHODS
from examples.benchmarks.subprocesses import result_of
from examples.palette import look

#: By model and method: what was measured, or `over`, the seconds after which it had not ended.
Table = dict[str, dict[str, dict[str, Any]]]
DEFAULT = ("auto", "nuts", "nuts, low rank")
#: In the figure.
LABELS = {
    "auto": "FireflyMH()",
    "nuts": "NUTS",
    "nuts, low rank": "NUTS, low-rank adaptation",
}


def cell(found: dict[str, Any]) -> str:
    """One method's seconds, marked if extrapolated, and what was chosen."""
    if "over" in found:
        return f"> {found['over']:.0f}"
    if "refused" in found:
        return ""
    text = three_digits(found["seconds"]) + "*" * found.get("extrapolated", False)
    return f"{text} ({found['kernel']})" if "kernel" in found else text


def save_points(table: Table, methods: list[str], path: Path) -> None:
    """Write what the figure has: a line for each model and method."""
    names = "seconds", "over", "extrapolated"
    points = [
        {"model": model, "method": method} | {name: line[method].get(name) for name in names}
        for model, line in table.items()
        for method in methods
        if method in line
    ]
    pd.DataFrame(points).to_csv(path, index=False, float_format="%.3g")


def read_points(path: Path) -> Table:
    """Return what `save_points` has written."""
    table: Table = {}
    for point in pd.read_csv(path).to_dict("records"):
        known = {str(name): value for name, value in point.items() if pd.notna(value)}
        table.setdefault(known.pop("model"), {})[known.pop("method")] = known
    return table


def draw(table: Table, methods: list[str], path: Path) -> None:
    """Draw a marker for each method in a line for each model; arrows have not ended by there."""
    figure, axes = plt.subplots(figsize=(6.0, 0.36 * len(table) + 1.2), layout="constrained")
    for method in methods:
        label = LABELS.get(method, method)
        own = look(label)
        found = [(line[method], i) for i, line in enumerate(table.values()) if method in line]
        ended = [(each["seconds"], i) for each, i in found if "seconds" in each]
        over = [(each["over"], i) for each, i in found if "over" in each]
        style: dict[str, Any] = {"color": own.colour, "ls": "", "ms": 8}
        axes.plot(*np.reshape(ended, (-1, 2)).T, own.marker or "o", label=label, **style)
        for seconds, i in over:
            axes.annotate(
                "",
                (3.0 * seconds, i),
                (seconds, i),
                arrowprops={"arrowstyle": "->", "color": own.colour, "lw": 2},
            )
    axes.set_yticks(range(len(table)), list(table), fontsize=11)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.tick_params(axis="x", labelsize=11)
    figure.supxlabel("processor seconds from a built model to 400 effective draws", fontsize=11)
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=11)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of the .npz files")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), metavar="MODEL")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(DEFAULT))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for a run")
    parser.add_argument("--results", type=Path, help="JSON: what is there is not measured again")
    parser.add_argument("--figure", type=Path, help="where to draw it")
    parser.add_argument("--redraw", action="store_true", help="from the CSV beside the figure")
    options = parser.parse_args()
    if options.redraw:
        table = read_points(options.figure.with_suffix(".csv"))
        draw(table, list(dict.fromkeys(m for line in table.values() for m in line)), options.figure)
        return
    models = options.models or list(MODELS if options.data else SIMULATED)
    kept = options.results
    table: Table = json.loads(kept.read_text()) if kept and kept.exists() else {}
    print("| model |", " | ".join(options.methods), "|\n|---|" + "---:|" * len(options.methods))
    for model in models:
        line = table.setdefault(model, {})
        for method in [each for each in options.methods if each not in line]:
            arguments = model, method, str(options.data or Path()), str(options.seed)
            worker = "examples.benchmarks.real_worker"
            line[method] = result_of(worker, *arguments, limit=options.limit)
            if kept:
                kept.write_text(json.dumps(table, indent=1))
        cells = [cell(line[method]) for method in options.methods]
        print(f"| {model} |", " | ".join(cells), "|", flush=True)
    table = {model: table[model] for model in models}
    for model, line in table.items():
        if "said" in (found := line.get("auto", {})):
            print(f"{model}: {found['said']}")
    if options.figure:
        save_points(table, options.methods, options.figure.with_suffix(".csv"))
        draw(table, options.methods, options.figure)


if __name__ == "__main__":
    main()
