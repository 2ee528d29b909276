"""How figures look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

__all__ = ["BRIGHT", "DARK", "new_figure", "save"]

#: The part of the likelihood that is above the bound, and the bound.
BRIGHT, DARK = "#E69F00", "#56B4E9"


def new_figure(rows: int, columns: int, size: tuple[float, float], **settings: Any) -> Any:
    """Figure and axes without frames at the top and on the right."""
    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", **settings)
    for each in figure.axes:
        each.spines[["top", "right"]].set_visible(False)
    return figure, axes


def save(figure: Figure, path: Path) -> None:
    """Write a small PNG file, and say so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    print(f"wrote {path}", flush=True)
