"""Figure 4: log posterior and rows read over the iterations; and autocorrelations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from examples.palette import look
from examples.paper.ess import autocorrelation
from examples.paper.models import Model
from examples.paper.plotting import new_figure, save
from examples.paper.running import Run

__all__ = ["draw_figure_4", "points_of_figure_4"]

#: Points of each chain at which the log posterior is evaluated, the largest lag, lags per point.
POINTS, LAGS, EVERY = 120, 400, 5
#: The panels, by the labels of their axes.
DENSITY = ("iteration", "log posterior density")
QUERIES = ("iteration", "rows read in an iteration")
CORRELATION = ("lag", "autocorrelation")


def points_of_figure_4(model: Model, runs: Sequence[Run]) -> pd.DataFrame:
    """Return what is drawn of the paper's algorithms: mean and sd over the chains.

    Iterations count from a draw from the prior on. Autocorrelations are of the median parameter.
    """
    runs = [run for run in runs if run.line.of_paper]
    most = min(run.burning.shape[1] + run.draws.shape[1] for run in runs)
    parts = []
    for run in runs:
        chains = np.concatenate([run.burning, run.draws], axis=1)[:, :most]
        at = np.unique(np.geomspace(1, most, POINTS).astype(int)) - 1
        values = np.array(
            [[model.log_posterior(x.reshape(model.shape)) for x in chain[at]] for chain in chains]
        )
        queries = np.concatenate([run.burning_queries, run.queries], axis=1)[:, :most]
        edges = np.unique(np.geomspace(1, most, 60).astype(int))
        means = np.stack([queries[:, a:b].mean(axis=1) for a, b in pairwise(edges)], axis=1)
        lags = min(LAGS, run.draws.shape[1] - 1)
        by_parameter = [autocorrelation(x, lags) for chain in run.draws for x in chain.T]
        median = np.median(by_parameter, axis=0)[::EVERY]
        for (_, panel), x, y in (
            (DENSITY, at + 1, values),
            (QUERIES, edges[:-1], means),
            (CORRELATION, EVERY * np.arange(len(median)), median[None, :]),
        ):
            of = {"algorithm": run.line.label, "panel": panel, "at": x}
            parts.append(pd.DataFrame(of | {"mean": y.mean(axis=0), "sd": y.std(axis=0)}))
    return pd.concat(parts)


def draw_figure_4(title: str, points: pd.DataFrame, path: Path) -> None:
    """Draw a panel above another, the third beside them: a page on a phone is narrow."""
    figure, axes = new_figure(2, 2, (5.2, 5.6))
    panels = dict(zip((DENSITY, QUERIES, CORRELATION), axes.flat, strict=False))
    for (xlabel, ylabel), ax in panels.items():
        for label, of in points[points["panel"] == ylabel].groupby("algorithm", sort=False):
            colour, mean, sd = look(str(label)).colour, of["mean"], of["sd"]
            ax.plot(of["at"], mean, color=colour, label=label)
            ax.fill_between(of["at"], mean - sd, mean + sd, color=colour, alpha=0.25, lw=0)
        ax.set(xlabel=xlabel, ylabel=ylabel)
    density = points[points["panel"] == DENSITY[1]]
    settled = density[density["at"] > density["at"].max() ** 0.75]
    top, usual = (settled["mean"] + settled["sd"]).max(), settled["mean"].median()
    panels[DENSITY].set(xscale="log", ylim=(usual - 20 * (top - usual), top + 2 * (top - usual)))
    panels[QUERIES].set(xscale="log", yscale="log")
    panels[CORRELATION].set_ylim(-0.1, 1)
    axes[1, 1].axis("off")
    axes[1, 1].legend(*axes[0, 0].get_legend_handles_labels(), frameon=False, loc="center")
    lines = title.replace(": ", "\n", 1).replace(", N = ", "\nN = ")
    figure.suptitle(lines, fontsize=10)
    save(figure, path)
