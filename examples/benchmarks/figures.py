"""How figures of the benchmarks look."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

__all__ = ["style_against_rows"]


def style_against_rows(axes: Axes, **settings: Any) -> None:
    """Style a plot against the rows of data, both axes logarithmic; settings are those of `set`."""
    axes.set(xscale="log", yscale="log", xlabel="rows of data, N", **settings)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(which="major", color="0.9", lw=0.7)
    axes.set_axisbelow(True)
