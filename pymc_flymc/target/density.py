"""The density of a model with the collapsed bounds of its likelihoods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytensor.tensor as pt
from pytensor.graph.replace import graph_replace

from pymc_flymc.bounds import Bound, Taylor
from pymc_flymc.graphs.compilation import DensityGraphs
from pymc_flymc.graphs.tools import write_out_dots
from pymc_flymc.likelihoods import Likelihood
from pymc_flymc.reading.flat import DensityGraph

__all__ = ["collapsed_density"]


def collapsed_density(
    graph: DensityGraph,
    bounds: Sequence[tuple[Bound, Likelihood, int]],
    n_others: int,
    remainder: bool = True,
) -> DensityGraphs:
    """Graphs of the rest of a model and the collapsed bounds.

    Parameters
    ----------
    graph : DensityGraph
    bounds : sequence of (Bound, Likelihood, int)
        Of each likelihood, with the length of the bound's statistics: its own part of
        `statistics`, in the same order.
    n_others : int
        Length of the graph's `others`, which come last in `statistics`.
    remainder : bool
        False for the density of a surrogate: Taylor expansions without their remainders.

    Returns
    -------
    DensityGraphs
        Of several likelihoods the coefficients are one after the other, what its rows share behind
        each.
    """
    statistics = pt.vector("statistics", dtype="float64")
    # Compiled to machine code here: elsewhere, where Python runs them, products stay as they are.
    rest, *coefficients = write_out_dots([graph.rest, *graph.coefficients])
    logp: Any = rest
    if n_others:
        tail = pt.specify_shape(statistics[statistics.shape[0] - n_others :], (n_others,))
        known: dict[Any, Any] = {graph.others: tail}
        logp = graph_replace([logp], known, strict=False)[0]
    parts: list[Any] = []
    start = 0
    for (bound, likelihood, size), w, n in zip(bounds, coefficients, graph.sizes, strict=True):
        own: Any = statistics[start:] if start else statistics
        collapsed = bound.collapsed if remainder else cast(Taylor, bound).expansion
        log_bound, shared = collapsed(likelihood, w, own, n)
        logp = logp + log_bound
        parts += [w, shared]
        start += size
    if len(graph.sizes) == 1:
        return DensityGraphs(graph.theta, statistics, logp, *parts)
    together: Any = pt.join(0, *parts)
    return DensityGraphs(graph.theta, statistics, logp, together, cast(Any, pt.zeros((0,))))
