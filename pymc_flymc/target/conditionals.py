"""Effects of groups that are updated one by one: where they are, and how they are distributed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor.subtensor import Subtensor, get_constant_idx

from pymc_flymc.anchor.expanded_density import nearby
from pymc_flymc.bounds import Problem
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.collapsed_ops import Quadratic
from pymc_flymc.graphs.compilation import DensityGraphs, compile_density, compile_vjp
from pymc_flymc.graphs.tools import plain_function
from pymc_flymc.kernels.layout import Moments
from pymc_flymc.kernels.native import NativeGraph
from pymc_flymc.kernels.rows import Rows
from pymc_flymc.reading.flat import DensityGraph
from pymc_flymc.regression.expansion import sparse_diagonal
from pymc_flymc.regression.matrices import LARGEST_DENSE

#: Beginning of messages.
WHO = "kernel='local' updates effects of groups one by one, and "


def effect_places(graph: DensityGraph, problems: Sequence[Problem]) -> np.ndarray:
    """Return the index in theta of the effect of each group, shape (G,), int64.

    Effects of sparse columns come first, in the order of the columns: each changes the coefficient
    of its own column only. Effects of groups without rows change no coefficient: they are the other
    elements of the variable that has all effects. The model is refused if rows do not have one
    effect each, if a column has no effect of its own, or in single precision.
    """
    design = problems[0].design
    if len(problems) > 1 or design.n_predictors > 1 or not design.sparse.is_factor:
        raise UnsupportedModelError(
            f"{WHO}needs one likelihood of one predictor, to which one grouping factor contributes "
            "random intercepts, as in a[group]; take kernel='auto' or 'hamiltonian' here"
        )
    (w,), q, column = graph.coefficients, design.n_sparse, design.width - design.n_sparse
    if _is_rounded(w, graph.theta):
        raise UnsupportedModelError(
            f"{WHO}tells them apart by numbers in double precision: build the model with "
            "pytensor.config.floatX = 'float64', or take kernel='auto' or 'hamiltonian'"
        )
    slope = pt.vector("slope", dtype="float64")
    change: Any = pytensor.grad(pt.sum(slope * w), graph.theta, disconnected_inputs="ignore")
    vjp = plain_function([graph.theta, slope], change)
    theta, rng = nearby(problems[0].anchor.theta), np.random.default_rng(20141104)
    weights = rng.uniform(1.0, 2.0, design.n_coefficients)
    is_effect = np.zeros(len(weights), bool)
    is_effect[column : column + q] = True
    numbers = np.where(is_effect, np.arange(len(weights)) - column, 0.0)
    of_effects, numbered, of_others = (
        vjp(theta, each) for each in (weights * is_effect, weights * numbers, weights * ~is_effect)
    )
    # For a parameter in several columns this is a mean of their indices, with random weights.
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where((of_effects != 0.0) & (of_others == 0.0), numbered / of_effects, np.nan)
    places = np.flatnonzero(np.abs(found - np.round(found)) < 1e-9)
    columns = np.round(found[places]).astype(np.int64)
    if not np.array_equal(np.sort(columns), np.arange(q)):
        raise UnsupportedModelError(
            f"{WHO}{problems[0].name!r} has groups without a parameter of their own alone; take "
            "kernel='auto' or 'hamiltonian' here"
        )
    found = places[np.argsort(columns)]
    is_idle = vjp(theta, weights) == 0.0
    return np.concatenate([found, _of_no_rows(found, is_idle, graph)])


def _of_no_rows(found: np.ndarray, is_idle: np.ndarray, graph: DensityGraph) -> np.ndarray:
    """Return the indices of effects that change no coefficient, in the others' variable."""
    first, last = int(found.min()), int(found.max())
    cuts = _cuts([graph.prior, *graph.coefficients], graph.theta)
    around = [span for span in cuts.values() if span.start <= first and last < span.stop]
    span = min(around, key=len, default=range(0))
    return np.array([j for j in span if is_idle[j]], np.int64)


def _is_rounded(w: Any, theta: Any) -> bool:
    """Return whether a result that depends on theta is in single precision; constants may be."""
    changed = {theta}
    for node in toposort([w], blockers=[theta]):
        if not changed.isdisjoint(node.inputs):
            changed.update(node.outputs)
    return any(getattr(v.type, "dtype", "") == "float32" for v in changed)


class Conditionals(NamedTuple):
    """Conditional distributions of effects, as native graphs."""

    #: Called like `DENSITY`: returns the `Moments`, one after the other, and the sum of log sds.
    moments: NativeGraph
    vjp: NativeGraph  #: Called like `VJP`, for means and sds.


def compile_conditionals(graphs: DensityGraphs, effects: np.ndarray, rows: Rows) -> Conditionals:
    """Compile the conditional distributions of effects (G,), and the gradient of their moments."""
    # Given all other parameters, the log density is a quadratic in each effect. Its slopes at
    # effects of zero and of one determine it.
    column, pieces = rows.X.shape[1] + rows.intercept, _pieces(graphs, effects)
    theta: Any = graphs.theta
    own = effects - int(effects.min())
    part: Any = (pieces or [theta])[0].type()
    known = dict.fromkeys(pieces or [theta], part)
    replaced: Any = graph_replace([graphs.prior + graphs.bounds, graphs.w], known, strict=False)
    logp, w = replaced
    slope: Any = pytensor.grad(logp, part)
    outputs = [slope[own if pieces else effects], w[column : column + rows.n_sparse]]
    at_zero, at_one = (
        pt.alloc(np.float64(x), len(effects)) if pieces else pt.set_subtensor(theta[effects], x)
        for x in (0.0, 1.0)
    )
    (slope_0, w_0), (slope_1, w_1) = _at_both(outputs, part, at_zero, at_one, rows, column)
    precision = slope_0 - slope_1
    mean, sd = slope_0 / precision, 1.0 / pt.sqrt(precision)
    zero, nothing = pt.constant(0.0), pt.zeros((0,))
    log_sds: Any = -0.5 * pt.sum(pt.log(precision))
    moments = DensityGraphs(
        theta, graphs.statistics, log_sds, zero, pt.join(0, mean, sd), nothing, None
    )
    change = pt.join(0, w_1 - w_0, pt.zeros(len(effects) - rows.n_sparse))
    all_moments: Any = Moments(mean=mean, sd=sd, change=change)
    together = moments._replace(w=pt.join(0, *all_moments))
    return Conditionals(compile_density(together), compile_vjp(moments))


def _pieces(graphs: DensityGraphs, effects: np.ndarray) -> list[Any]:
    """Return replacements for all effects that are cut out of theta, in theta's order."""
    # Gradients in them need no vectors of all parameters. Scattered effects have none.
    whole = range(int(effects.min()), int(effects.max()) + 1)
    if len(whole) > len(effects):
        return []
    cuts = _cuts([graphs.prior, graphs.bounds, graphs.w], graphs.theta)
    return [piece for piece, span in cuts.items() if span == whole]


def _cuts(outputs: Sequence[Any], theta: Any) -> dict[Any, range]:
    """Return the pieces that graphs cut out of theta, and the indices of their elements."""
    found, (size,) = {}, theta.type.shape
    for each in ancestors(outputs):
        node = each.owner
        if node and isinstance(node.op, Subtensor) and node.inputs[0] is theta:
            (place,) = get_constant_idx(node.op.idx_list, node.inputs)
            if isinstance(place, slice):
                found[each] = range(size)[place]
    return found


def _at_both(
    outputs: list[Any], part: Any, at_zero: Any, at_one: Any, rows: Rows, column: int
) -> Any:
    """Return the graphs of outputs at two points that differ in the effects of one factor."""
    # The curvature of an arrow is read once: such effects change A u by its diagonal alone.
    n_effects, nodes = rows.n_sparse, {}
    if column + n_effects > LARGEST_DENSE:
        of_outputs = (each.owner for each in ancestors(outputs))
        nodes = dict.fromkeys(
            node for node in of_outputs if node and isinstance(node.op, Quadratic)
        )
    terms = [(*node.inputs, *node.outputs) for node in nodes]
    us, products = [u for u, *_ in terms], [product for *_, product in terms]

    def moved(point: Any) -> Any:
        found = iter(graph_replace([*outputs, *us, *products], {part: point}, strict=False))
        return [list(islice(found, len(each))) for each in (outputs, us, products)]

    (found_0, us_0, products_0), (found_1, us_1, products_1) = moved(at_zero), moved(at_one)
    known = {}
    for node, u_0, u_1, product_0, product_1 in zip(
        nodes, us_0, us_1, products_0, products_1, strict=True
    ):
        start, diagonal = sparse_diagonal(node.inputs[1], u_0.shape[0], n_effects)
        own = slice(start, start + n_effects)
        known[product_1] = pt.inc_subtensor(product_0[own], diagonal * (u_1 - u_0)[own])
    return found_0, graph_replace(found_1, known, strict=False)
