"""Figure 4: log posterior and rows read over the iterations; and autocorrelations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from examples.palette import look
from examples.paper.ess import autocorrelation
from examples.paper.models import Model
from examples.paper.plotting import new_figure, save
from examples.paper.running import Run

__all__ = ["draw_figure_4"]

#: Points of each chain at which the log posterior is evaluated, and lags of autocorrelations.
POINTS, LAGS = 120, 400


def draw_figure_4(title: str, model: Model, runs: Sequence[Run], path: Path) -> None:
    """Draw three panels for the paper's algorithms: mean and sd over the chains.

    Iterations count from a draw from the prior on.
    """
    runs = [run for run in runs if run.line.of_paper]
    figure, (above, middle, right) = new_figure(1, 3, (9.6, 3.4))
    most = min(run.burning.shape[1] + run.draws.shape[1] for run in runs)
    last = []
    for run in runs:
        colour = look(run.line.label).colour
        chains = np.concatenate([run.burning, run.draws], axis=1)[:, :most]
        at = np.unique(np.geomspace(1, most, POINTS).astype(int)) - 1
        values = np.array(
            [[model.log_posterior(x.reshape(model.shape)) for x in chain[at]] for chain in chains]
        )
        last.append(values[:, -POINTS // 4 :])
        _band(above, at + 1, values, colour, run.line.label)
        queries = np.concatenate([run.burning_queries, run.queries], axis=1)[:, :most]
        edges = np.unique(np.geomspace(1, most, 60).astype(int))
        means = np.stack([queries[:, a:b].mean(axis=1) for a, b in pairwise(edges)], axis=1)
        _band(middle, edges[:-1], means, colour, run.line.label)
        lags = min(LAGS, run.draws.shape[1] - 1)
        by_parameter = [autocorrelation(x, lags) for chain in run.draws for x in chain.T]
        right.plot(np.median(by_parameter, axis=0), color=colour, label=run.line.label)
    settled = np.concatenate(last)
    top, usual = settled.max(), np.median(settled)
    above.set(
        xscale="log",
        xlabel="iteration",
        ylabel="log posterior density",
        ylim=(usual - 20 * (top - usual), top + 2 * (top - usual)),
    )
    middle.set(xscale="log", yscale="log", xlabel="iteration", ylabel="rows read in an iteration")
    right.set(xlabel="lag", ylabel="autocorrelation, median parameter", ylim=(-0.1, 1))
    right.legend(frameon=False)
    figure.suptitle(title, fontsize=10)
    save(figure, path)


def _band(axes: Axes, x: np.ndarray, values: np.ndarray, colour: str, label: str) -> None:
    """Mean over chains, and one sd around it."""
    mean, sd = values.mean(axis=0), values.std(axis=0)
    axes.plot(x, mean, color=colour, label=label, lw=1.2)
    axes.fill_between(x, mean - sd, mean + sd, color=colour, alpha=0.25, lw=0)
