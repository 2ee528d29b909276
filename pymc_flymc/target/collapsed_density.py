"""The density of a model with the collapsed bounds of its likelihoods."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.replace import graph_replace
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.bounds import Bound, ExpansionBound, Preparation, Problem
from pymc_flymc.graphs.affine import write_out_dots
from pymc_flymc.graphs.compilation import DensityGraphs
from pymc_flymc.kernels.layout import POWERS, ROW
from pymc_flymc.likelihoods.likelihood import Likelihood
from pymc_flymc.reading.flat import DensityGraph

#: Columns of the constants that fresh brightness is drawn from.
RATES = [ROW.near, ROW.beyond]


def check_preparation(
    bound: Bound, problem: Problem, prepared: Preparation, n_coefficients: int
) -> None:
    """Refuse statistics and tables that are not finite, or not of the declared size."""
    design, likelihood = problem.design, problem.likelihood
    n, who = design.n_rows, describe(bound, likelihood)
    _same(f"{who} is for", "predictors of a row", likelihood.n_predictors, design.n_predictors)
    _same(f"{who} is for", "nuisances", len(likelihood.nuisances), design.n_nuisances)
    _same(f"{who} is for", "coefficients", design.n_coefficients, n_coefficients)
    check_constants(bound, likelihood, prepared.constants, n)
    _check_array(f"the statistics of {who}", prepared.statistics, 1)
    bright = f"the probabilities of brightness of {who}"
    _check_array(bright, prepared.bright, 1, (np.float32, np.float64))
    _same(f"{bright} have", "rows", len(prepared.bright), n)
    if n and not (0.0 <= prepared.bright.min() and prepared.bright.max() <= 1.0):
        raise ValueError(f"{bright} are not between 0 and 1")
    if not isinstance(bound, ExpansionBound):
        return
    for what, has, needs in (
        ("constants", prepared.constants.shape[1], len(RATES)),
        ("shared numbers", bound.n_shared, len(POWERS)),
    ):
        if has < needs:
            raise ValueError(
                f"{who} has {has} {what}, and rows of an ExpansionBound have rates, of {needs} "
                "at least"
            )
    if n and prepared.constants[:, RATES].min() < 0.0:
        raise ValueError(f"the rates of {who}, its first {len(RATES)} constants, are negative")


def check_constants(
    bound: Bound, likelihood: Likelihood, constants: np.ndarray, n_rows: int
) -> None:
    """Refuse rows' constants that are not finite, or not of the shape that the bound declares."""
    who = describe(bound, likelihood)
    what = f"the table of constants of {who}"
    _check_array(what, constants, 2, infinite=isinstance(bound, ExpansionBound))
    if isinstance(bound, ExpansionBound):
        # A factor of a rate may be infinite; no other number may.
        _check_array(what, constants[:, ROW.near + 1 :], 2)
    _same(f"{what} has", "rows", constants.shape[0], n_rows)
    said = bound.n_constants(likelihood)
    _same(f"{what} has", "columns, and n_constants says", constants.shape[1], said, "")


def check_collapsed(bound: Bound, likelihood: Likelihood, total: Any, shared: Any) -> None:
    """Refuse graphs of a collapsed sum, and of numbers that rows share, that have other shapes."""
    who = f"{describe(bound, likelihood)}: collapsed() returns"
    if not isinstance(total, TensorVariable) or total.type.ndim != 0:
        raise ValueError(f"{who} a sum that is not a scalar graph, but {total}")
    if not isinstance(shared, TensorVariable) or shared.type.ndim != 1:
        raise ValueError(f"{who} shared numbers that are not a graph of a vector, but {shared}")
    (length,) = shared.type.shape
    if length != bound.n_shared:
        known = "a length that is not known" if length is None else f"length {length}"
        raise ValueError(f"{who} shared numbers of {known}, and n_shared says {bound.n_shared}")


def describe(bound: Bound, likelihood: Likelihood) -> str:
    """Return a bound's and its likelihood's name, for messages."""
    return f"the {bound.name} bound on {likelihood.name} likelihoods"


def describe_violation(bound: Bound, likelihood: Likelihood, row: int) -> str:
    """Return the message on a bound that a kernel has found to exceed the likelihood of a row."""
    return (
        f"{describe(bound, likelihood)} is violated at row {row:,}: log B exceeds log L by more "
        "than rounding, so that draws are not exact. If bound or family are your own, check_bound "
        "says where; if not, please report it. bound=None reads all rows, with no bound"
    )


def _same(who: str, what: str, has: int, needs: int, but: str = ", and there are") -> None:
    if has != needs:
        raise ValueError(f"{who} {has} {what}{but} {needs}")


def _check_array(
    what: str,
    array: Any,
    ndim: int,
    dtypes: tuple[type[np.floating], ...] = (np.float64,),
    infinite: bool = False,
) -> None:
    good = isinstance(array, np.ndarray) and array.ndim == ndim and array.dtype in dtypes
    if not good:
        names = " or ".join(np.dtype(each).name for each in dtypes)
        shape, dtype = np.shape(array), getattr(array, "dtype", type(array).__name__)
        raise ValueError(f"{what} must be an array of {ndim} axes of {names}: {dtype}, {shape}")
    # The minimum and the maximum need no array of flags.
    if array.size and not (np.isfinite(array.min()) and (infinite or array.max() < np.inf)):
        raise ValueError(f"{what} must be finite: it holds {array.min()} to {array.max()}")


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
