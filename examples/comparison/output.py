"""Tables and figures of a comparison."""

from __future__ import annotations

import csv
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from examples.benchmarks.__main__ import three_digits
from examples.comparison.measurement import Curve, Moments
from examples.comparison.methods import METHODS
from examples.palette import OTHER, look

#: Stands in the place of a method.
REFERENCE = "reference, its own Monte Carlo error"

#: In brackets, after an error, the Monte Carlo error that the chain says it has.
HEADER = (
    "method",
    "exact",
    "draws",
    "rows read",
    "processor s",
    "error of mean",
    "error of log sd",
    "rows per effective draw",
    "tuned",
)


def print_header() -> None:
    print("\n| " + " | ".join(HEADER) + " |")
    print("|---|---" + "|---:" * (len(HEADER) - 3) + "|---|", flush=True)


def print_row(name: str, curve: Curve, reference: Moments) -> None:
    method = METHODS[name]
    errors = reference.errors(curve.mean[-1], curve.sd[-1])
    cells = [
        method.label,
        "yes" if method.exact else "no",
        f"{curve.draws:,}" if curve.draws else "",
        _short(curve.rows[-1]),
        _short(curve.seconds[-1]),
        *(_with_own(*pair) for pair in zip(errors, curve.own_error, strict=True)),
        _short(curve.rows_per_ess),
        curve.note,
    ]
    print("| " + " | ".join(cells) + " |", flush=True)


def _with_own(error: float, own: float) -> str:
    return _short(error) if np.isnan(own) else f"{_short(error)} ({_short(own)})"


def _short(value: float) -> str:
    return "" if np.isnan(value) else three_digits(value)


def points_of(curves: dict[str, Curve], reference: Moments) -> dict[str, np.ndarray]:
    """Rows, seconds, and errors of mean and log sd, shape (K, 4), for each method."""
    return {
        name: np.array(
            [
                (rows, seconds, *reference.errors(mean, sd))
                for rows, seconds, mean, sd in zip(
                    curve.rows, curve.seconds, curve.mean, curve.sd, strict=True
                )
            ]
        )
        for name, curve in curves.items()
    }


def write_csv(points: dict[str, np.ndarray], own: tuple[float, float], path: Path) -> None:
    """Write all points of all curves, and the reference's Monte Carlo errors `own`."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["method", "exact", "rows", "seconds", "error_mean", "error_log_sd"])
        writer.writerow([REFERENCE, True, "", "", *(f"{value:.4g}" for value in own)])
        for name, found in points.items():
            for rows, *values in found:
                cells = ("" if np.isnan(value) else f"{value:.4g}" for value in values)
                writer.writerow([METHODS[name].label, METHODS[name].exact, int(rows), *cells])


def read_csv(path: Path) -> tuple[dict[str, np.ndarray], tuple[float, float]]:
    """Return the points and the reference's Monte Carlo errors that `write_csv` has written."""
    keys = {method.label: name for name, method in METHODS.items()}
    own: tuple[float, float] = (np.nan, np.nan)
    lines: dict[str, list[list[float]]] = {}
    with path.open(newline="") as file:
        for label, _, *cells in list(csv.reader(file))[1:]:
            values = [float(cell) if cell else np.nan for cell in cells]
            if label == REFERENCE:
                own = values[2], values[3]
            else:
                lines.setdefault(keys[label], []).append(values)
    return {name: np.array(found) for name, found in lines.items()}, own


def draw(points: dict[str, np.ndarray], own: tuple[float, float], path: Path) -> None:
    """Draw errors of mean and sd against rows and seconds; approximate methods are dashed.

    `own` are the reference's Monte Carlo errors. Methods without a colour of their own are grey.
    """
    figure, axes = plt.subplots(2, 2, figsize=(6.0, 7.0), layout="constrained", sharey="row")
    # The first method is drawn last, on top of the others.
    for name in sorted(reversed(points), key=lambda name: look(METHODS[name].label) != OTHER):
        method, found = METHODS[name], points[name]
        own_look = look(method.label)
        for row, column in np.ndindex(2, 2):
            if np.isnan(found[:, column]).all():
                continue
            axes[row, column].plot(
                found[:, column],
                found[:, 2 + row],
                color=own_look.colour,
                marker=own_look.marker,
                markevery=[len(found) - 1],
                ms=8,
                ls="-" if method.exact else (0, (4, 1.5)),
                lw=1 if own_look == OTHER else 2,
                label="the others" if own_look == OTHER else method.label,
            )
    for row, name in enumerate(("posterior means, in sd", "log posterior sd")):
        axes[row, 0].set_ylabel(f"error of {name}", fontsize=12)
        axes[row, 0].set_ylim(own[row] / 3, 10)
        for ax in axes[row]:
            ax.axhline(own[row], color="0.4", lw=1, ls=":")
            ax.set(xscale="log" if ax.has_data() else "linear", yscale="log")
            ax.spines[["top", "right"]].set_visible(False)
            ax.grid(which="major", color="0.92", lw=0.7)
            ax.tick_params(labelsize=11)
    axes[1, 0].set_xlabel("rows read", fontsize=12)
    axes[1, 1].set_xlabel("seconds of processor time", fontsize=12)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    once = dict(zip(reversed(labels), reversed(handles), strict=True))
    figure.legend(
        once.values(), once, loc="outside lower center", frameon=False, fontsize=10, ncols=2
    )
    figure.savefig(path, dpi=150)
    plt.close(figure)
