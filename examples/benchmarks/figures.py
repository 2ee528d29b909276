"""How figures of the benchmarks look."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes

__all__ = ["name_curves", "style_log_log"]


def style_log_log(axes: Axes, xlabel: str = "rows of data, N", **settings: Any) -> None:
    """Style a plot whose axes are both logarithmic; settings are those of `set`."""
    axes.set(xscale="log", yscale="log", xlabel=xlabel, **settings)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(which="major", color="0.9", lw=0.7)
    axes.set_axisbelow(True)


def name_curves(axes: Axes, labels: Iterable[tuple[float, str, str]], end: float) -> None:
    """Write names beside the right ends of curves, on logarithmic axes.

    Parameters
    ----------
    axes : Axes
    labels : iterable of (float, str, str)
        Of each curve its last value, its name and its colour.
    end : float
        Where curves end.
    """
    low, high = np.log10(axes.get_ylim())
    place, gap = -np.inf, 0.08 * (high - low)
    for value, text, colour in sorted(labels):
        place = max(np.log10(value), place + gap)  # labels of close curves make room
        axes.annotate(
            fill(text, 18),
            (end, 10**place),
            xytext=(12, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            annotation_clip=False,
        )
