"""The density of a model with the collapsed bounds of its likelihoods."""

from collections.abc import Sequence
from typing import Any, cast

import pytensor
import pytensor.tensor as pt
from pytensor.graph.replace import graph_replace

from pymc_flymc.bounds import Bound
from pymc_flymc.graphs.compilation import DensityGraphs
from pymc_flymc.graphs.written_out import write_out_dots
from pymc_flymc.likelihoods.likelihood import Likelihood
from pymc_flymc.reading.flat import DensityGraph
from pymc_flymc.target.validation import check_collapsed


def collapsed_density(
    graph: DensityGraph,
    bounds: Sequence[tuple[Bound, Likelihood, int]],
    n_others: int,
    is_affine: bool = False,
) -> DensityGraphs:
    """Return the graphs of a model's prior and the collapsed bounds, or expansions.

    `bounds` has, for each likelihood, the bound and the length of its statistics, in the order in
    which `statistics` holds them; the graph's `others` come last. With several likelihoods, the
    coefficients of each one are followed by the numbers that its rows share. If the model
    `is_affine`, the gradient comes in two parts, the bounds' part in the coefficients.
    """
    statistics = pt.vector("statistics", dtype="float64")
    # This graph is compiled to machine code; in graphs that Python runs, products stay.
    prior, *coefficients = cast(list[Any], write_out_dots([graph.prior, *graph.coefficients]))
    if n_others:
        tail = pt.specify_shape(statistics[statistics.shape[0] - n_others :], (n_others,))
        known: dict[Any, Any] = {graph.others: tail}
        prior = graph_replace([prior], known, strict=False)[0]
    log_bounds: Any = 0.0
    together: Any
    parts: list[Any] = []
    start = 0
    for (bound, likelihood, size), w, n in zip(bounds, coefficients, graph.sizes, strict=True):
        own: Any = statistics[start:] if start else statistics
        log_bound, shared = bound.collapsed(likelihood, w, own, n)
        check_collapsed(bound, likelihood, log_bound, shared)
        log_bounds = log_bounds + log_bound
        parts += [w, shared]
        start += size
    slope: Any = None
    if is_affine:
        slopes: Any = pytensor.grad(log_bounds, coefficients, disconnected_inputs="ignore")
        slope = pt.join(0, *slopes)
    if len(graph.sizes) == 1:
        together, shared = parts
    else:
        together, shared = pt.join(0, *parts), pt.zeros((0,))
    return DensityGraphs(graph.theta, statistics, prior, log_bounds, together, shared, slope)
