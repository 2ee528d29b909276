"""The log density of a model at some points: as PyMC has it, and as it was read."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.agreement.all_of_graph import AllOfGraph
from pymc_flymc.agreement.gathering import RowsOfGraph
from pymc_flymc.agreement.perturbed import RoundedFunction, rounded_function
from pymc_flymc.agreement.values import Rounded, Values
from pymc_flymc.graphs.tools import free_inputs
from pymc_flymc.likelihoods.likelihood import Likelihood, outcome
from pymc_flymc.reading.flat import DensityGraph
from pymc_flymc.regression.design import Design

#: Rounding error of a sum of products, relative to the absolute sum of its terms.
SUMS = 8.0 * float(np.finfo(np.float64).eps)
#: A point of a model: values of its value variables, by name.
Point = Mapping[str, np.ndarray]


def of_graph(
    graph: TensorVariable,
    points: Sequence[Point],
    draws: int,
    m: int = 1,
    data: Mapping[Any, Any] | None = None,
) -> Values:
    """Return m numbers of a graph from `freeze`; `data` has inputs that are not value variables."""
    inputs, data = free_inputs([graph]), data or {}
    function = rounded_function(inputs, [graph])
    found = []
    for point in points:
        arguments = [data[v] if v in data else point[str(v.name)] for v in inputs]
        found.append(_only(function(*arguments, draws=draws)))
    return Values.stack(found, m)


def of_rows(
    graph: TensorVariable, rows: RowsOfGraph | AllOfGraph, points: Sequence[Point], draws: int
) -> Values:
    """Return some rows of a vector or table; raise `NotGatheredError` if they need others."""
    of_these = rows(graph)
    data = dict(zip(rows.inputs, rows.values, strict=True))
    return of_graph(of_these, points, draws, rows.m, data)


def of_reading(
    graph: DensityGraph, flat: Sequence[tuple[np.ndarray, np.ndarray]], draws: int
) -> tuple[Values, list[list[Rounded | None]]]:
    """Return what was read without its rows, and likelihoods' coefficients where known."""
    function = rounded_function([graph.theta, graph.others], [graph.prior, *graph.coefficients])
    found = [function(*each, draws=draws) for each in flat]
    coefficients = [
        [None if each is None else each[1 + i] for each in found] for i in range(len(graph.sizes))
    ]
    return Values.stack([_only(each) for each in found]), coefficients


def function_of(likelihood: Likelihood) -> RoundedFunction:
    """Return the log-likelihoods of rows as a function of their arguments and observed values."""
    n_arguments = likelihood.n_predictors + len(likelihood.nuisances)
    arguments = [pt.dvector(f"argument_{i}") for i in range(n_arguments)]
    columns = [pt.dvector(name) for name in ("y", *likelihood.row_data)]
    log_l = likelihood.log_likelihood(arguments, outcome(likelihood, columns))
    return rounded_function([*arguments, *columns], [log_l])


def of_regression(
    likelihood: Likelihood,
    design: Design,
    y: np.ndarray,
    coefficients: Sequence[Rounded | None],
    draws: int,
) -> Values:
    """Return the log-likelihoods of a regression's rows at some coefficients."""
    known = [t for t, each in enumerate(coefficients) if each is not None]
    pairs: list[Any] = [coefficients[t] for t in known]
    out = Values.stack([None] * len(coefficients), len(y))
    if not known:
        return out
    function = function_of(likelihood)
    # Rows are independent: they are evaluated at all points together.
    observed = np.tile(np.atleast_2d(y.T).astype(np.float64), len(known))
    eta, moved = _arguments(design, *(np.stack(each) for each in zip(*pairs, strict=True)))
    # How rounding errors of predictors change the log-likelihoods.
    with np.errstate(invalid="ignore"):
        steps = ((eta, draws), (eta + moved, 0), (eta - moved, 0))
    found = [_only(function(*each, *observed, draws=n)) for each, n in steps]
    if any(each is None for each in found):
        if len(coefficients) == 1:
            return out
        single = [of_regression(likelihood, design, y, [w], draws) for w in coefficients]
        return Values(*(np.concatenate([getattr(v, name) for v in single]) for name in vars(out)))
    (value, error), *ends = (each for each in found if each is not None)
    for end, _ in ends:
        with np.errstate(invalid="ignore"):
            change = np.where(end == value, 0.0, np.abs(end - value))
        error = error + np.where(np.isnan(change), np.inf, change)
    for array, new in ((out.values, value), (out.errors, error)):
        array[known] = new.reshape(len(known), -1)
    return out


def _arguments(design: Design, w: np.ndarray, errors: np.ndarray) -> Rounded:
    """Return predictors and nuisance parameters, (A, T n), at T points one after the other."""
    eta, sizes = design.predictors(w)
    without_offset = replace(design, offset=np.empty((0, design.n_predictors)))
    moved = SUMS * sizes + without_offset.predictors(errors)[1]
    start = w.shape[1] - design.n_nuisances

    def stack(of_rows: np.ndarray, of_all: np.ndarray) -> np.ndarray:
        predictors = of_rows.T.reshape(design.n_predictors, -1)
        return np.concatenate([predictors, np.repeat(of_all[:, start:].T, design.n_rows, axis=1)])

    return stack(eta, w), stack(moved, errors)


def _only(found: list[Rounded] | None) -> Rounded | None:
    return None if found is None else found[0]
