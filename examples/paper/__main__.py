"""Run the paper's experiments: `python -m examples.paper --help`."""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from examples.paper.agreement import compare_all
from examples.paper.data import FILES, Data, load
from examples.paper.differences import near_the_mode, regular_mcmc
from examples.paper.experiments import EXPERIMENTS
from examples.paper.figure_1 import draw_figure_1
from examples.paper.figure_2 import draw_figure_2
from examples.paper.figure_4 import draw_figure_4, points_of_figure_4
from examples.paper.questions import (
    Answer,
    automatic_bounds,
    gradients,
    joint_updates,
    larger_data,
    per_datum_q,
    several_draws,
)
from examples.paper.repeated import repeated
from examples.paper.running import Run, Settings, run_line
from examples.paper.table import HEADER, agreement_lines, digits, print_table, table_1, write_csv

COMMANDS = (*EXPERIMENTS, "differences", "questions", "repeated", "toy", "all")
#: Factors of all numbers of draws if nothing else is said: a command is to take some minutes.
LENGTHS = {"differences": 0.7, "questions": 0.4, "repeated": 0.3}


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parse_arguments(argv)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    length = arguments.length or LENGTHS.get(arguments.command, 1.0)
    settings = Settings(
        chains=arguments.chains,
        cores=arguments.cores,
        seed=arguments.seed,
        length=(5.0 if arguments.full else 1.0) * length,
    )
    wanted = (*EXPERIMENTS, "toy") if arguments.command == "all" else (arguments.command,)
    for command in wanted:
        if command in ("differences", "questions", "repeated"):
            name = "molecules" if command == "repeated" else "mnist"
            data = load(name, arguments.data, arguments.molecules).some(arguments.rows)
            answer(command, data, settings, arguments.output)
        elif command == "toy":
            draw_figure_1(arguments.output / "paper_figure_1.png")
            draw_figure_2(arguments.output / "paper_figure_2.png")
        elif arguments.redraw:
            redraw(arguments.output / f"paper_figure_4_{command}.csv")
        else:
            data = load(command, arguments.data, arguments.molecules).some(arguments.rows)
            reproduce(command, data, settings, arguments.output, arguments.lines)


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.paper",
        description="Repeat the experiments of Maclaurin & Adams (2014), section 4. Without --data "
        "the public originals are fetched; what cannot be had is simulated, and marked as such.",
    )
    parser.add_argument("command", nargs="?", choices=COMMANDS, default="all")
    parser.add_argument("--data", type=Path, help="folder with " + ", ".join(FILES.values()))
    parser.add_argument("--molecules", type=Path, help="CSV table of molecules with a column PCE")
    parser.add_argument("--rows", type=int, help="take about so many rows only")
    parser.add_argument("--lines", nargs="+", metavar="LINE", help="samplers, all by default")
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--length", type=float, help="factor of all numbers of draws")
    parser.add_argument("--full", action="store_true", help="five times as many draws")
    parser.add_argument("--redraw", action="store_true", help="figure 4, from its CSV file")
    parser.add_argument("--output", type=Path, default=Path("docs/figures"))
    return parser.parse_args(argv)


def reproduce(
    name: str, data: Data, settings: Settings, output: Path, keys: Sequence[str] | None = None
) -> list[Run]:
    """Print an experiment's part of table 1, check that samplers agree, draw figure 4."""
    experiment = EXPERIMENTS[name]
    model, runs = experiment.model(data), []
    log = logging.getLogger("pymc.flymc")
    for line in [line for line in experiment.lines if not keys or line.key in keys]:
        began = time.perf_counter()
        print(f"{name}: {line.label} ...", end=" ", flush=True)
        # What `FireflyMH()` has chosen is part of the result.
        log.setLevel(logging.INFO if line.key == "mh" else logging.ERROR)
        runs.append(run_line(line, model, settings))
        ess = np.median(runs[-1].ess_per_thousand)
        print(
            f"{time.perf_counter() - began:.0f} s, {digits(runs[-1].mean_queries)} queries per "
            f"iteration, ESS of 1,000 iterations {digits(float(ess))}",
            flush=True,
        )
    n_rows, n_columns = data.X.shape
    title = f"{experiment.title}: {data.source}, N = {n_rows:,}, {n_columns} columns"
    print_table(title, HEADER, table_1(name, runs))
    write_csv(output / f"paper_{name}.csv", HEADER, table_1(name, runs))
    comparisons = compare_all(runs)
    print("\n" + "\n".join(f"* {line}" for line in agreement_lines(comparisons)) + "\n")
    points = output / f"paper_figure_4_{name}.csv"
    points.write_text(
        f"# {title}\n" + points_of_figure_4(model, runs).to_csv(index=False, float_format="%.6g")
    )
    redraw(points)
    if any(not comparison.agree for comparison in comparisons if comparison.compared):
        raise SystemExit(f"{name}: samplers disagree on the posterior")
    return runs


def redraw(points: Path) -> None:
    """Draw figure 4 from a CSV file, whose first line is the title."""
    title = points.read_text().splitlines()[0].removeprefix("# ")
    draw_figure_4(title, pd.read_csv(points, skiprows=1), points.with_suffix(".png"))


def answer(command: str, data: Data, settings: Settings, output: Path) -> None:
    """Print the table of each question, and write it."""
    questions: dict[str, dict[str, Callable[[], Answer]]] = {
        "differences": {
            "regular": lambda: regular_mcmc(data, settings),
            "near_the_mode": lambda: near_the_mode(data, settings),
        },
        "questions": {
            "automatic_bounds": lambda: automatic_bounds(settings),
            "per_datum_q": lambda: per_datum_q(data, settings),
            "joint_updates": lambda: joint_updates(settings),
            "several_draws": lambda: several_draws(data, settings),
            "gradients": lambda: gradients(data, settings),
            "larger_data": lambda: larger_data(settings),
        },
        "repeated": {"repeated": lambda: repeated(data, settings)},
    }
    for name, ask in questions[command].items():
        began = time.perf_counter()
        print(f"{name} ...", end=" ", flush=True)
        title, header, rows = ask()
        print(f"{time.perf_counter() - began:.0f} s", flush=True)
        print_table(title, header, rows)
        write_csv(output / f"paper_{name}.csv", header, rows)


if __name__ == "__main__":
    main()
