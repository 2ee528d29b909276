"""The log density of a model at some points: as PyMC has it, and as it was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.model.core import Model
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.agreement.gathering import AllOfGraph, RowsOfGraph
from pymc_flymc.agreement.rounding import rounded_function
from pymc_flymc.agreement.values import Rounded, Values
from pymc_flymc.graphs.tools import fold_constants, free_inputs, freeze
from pymc_flymc.likelihoods import Likelihood, outcome
from pymc_flymc.reading.flat import LONG, DensityGraph
from pymc_flymc.regression.design import Design

__all__ = ["Point", "of_reading", "of_regression", "of_rest", "of_rows"]

#: Units of rounding of a sum of products, relative to the size of its terms.
SUMS = 8.0 * float(np.finfo(np.float64).eps)
#: A point of a model: values of its value variables, by name.
Point = Mapping[str, np.ndarray]


def of_rows(
    graph: TensorVariable,
    rows: RowsOfGraph | AllOfGraph,
    points: Sequence[Point],
    draws: int,
) -> Values:
    """Evaluate rows of the graph of a vector, in terms of value variables.

    Parameters
    ----------
    graph : TensorVariable
        From `freeze`.

    Raises
    ------
    NotGatheredError
        If rows cannot be taken out of it.
    """
    of_these = rows(graph)
    data = dict(zip(rows.inputs, rows.values, strict=True))
    inputs = free_inputs([of_these])
    variables = [v for v in inputs if v not in data]
    data = {v: data[v] for v in inputs if v in data}
    function = rounded_function([*variables, *data], [of_these])
    values = [[*(point[str(v.name)] for v in variables), *data.values()] for point in points]
    return Values.stack([_only(function(*each, draws=draws)) for each in values], rows.m)


def of_rest(
    model: Model,
    taken: Sequence[Variable],
    shapes: Mapping[Any, Any],
    points: Sequence[Point],
    draws: int,
) -> Values:
    """Evaluate the model's own log density without some of its observed variables."""
    terms = zip([*model.basic_RVs, *model.potentials], model.logp(sum=False), strict=True)
    kept: list[Any] = [
        pt.as_tensor(term, allow_xtensor_conversion=True).astype("float64").sum()
        for v, term in terms
        if v not in taken
    ]
    graph: Any = fold_constants(freeze(reduce(add, kept, pt.constant(0.0)), shapes), LONG)
    inputs = free_inputs([graph])
    function = rounded_function(inputs, [graph])
    values = [[point[str(v.name)] for v in inputs] for point in points]
    return Values.stack([_only(function(*each, draws=draws)) for each in values])


def of_reading(
    graph: DensityGraph, flat: Sequence[tuple[np.ndarray, np.ndarray]], draws: int
) -> tuple[Values, list[list[Rounded | None]]]:
    """Evaluate what was read of a model without its rows, and the coefficients.

    Parameters
    ----------
    flat : sequence of (ndarray, ndarray)
        Points, as vectors of the step's variables and of all others.

    Returns
    -------
    Values, list of list
        The coefficients of each likelihood, at each point at which they are known.
    """
    function = rounded_function([graph.theta, graph.others], [graph.rest, *graph.coefficients])
    found = [function(*each, draws=draws) for each in flat]
    coefficients = [
        [None if each is None else each[1 + i] for each in found] for i in range(len(graph.sizes))
    ]
    return Values.stack([_only(each) for each in found]), coefficients


def of_regression(
    likelihood: Likelihood,
    design: Design,
    y: np.ndarray,
    coefficients: Sequence[Rounded | None],
    draws: int,
) -> Values:
    """Evaluate the log-likelihoods of a regression's rows at some coefficients.

    Parameters
    ----------
    design : Design
        Of these rows.
    y : ndarray
        Their observed values, as of a `Regression`.
    """
    n_arguments = likelihood.n_predictors + len(likelihood.nuisances)
    arguments = [pt.dvector(f"argument_{i}") for i in range(n_arguments)]
    columns = [pt.dvector(name) for name in ("y", *likelihood.row_data)]
    log_l = likelihood.log_likelihood(arguments, outcome(likelihood, columns))
    function = rounded_function([*arguments, *columns], [log_l])
    observed = list(np.atleast_2d(y.T).astype(np.float64))
    found: list[Rounded | None] = []
    for each in coefficients:
        if each is None:
            found.append(None)
            continue
        eta, moved = _arguments(design, *each)
        at = _only(function(*eta, *observed, draws=draws))
        # What the rounding of predictors does to them.
        steps = (eta + sign * moved for sign in (1.0, -1.0))
        ends = [_only(function(*step, *observed, draws=0)) for step in steps]
        if at is None:
            found.append(None)
            continue
        value, error = at
        for end in ends:
            if end is None:
                error = np.full_like(value, np.inf)
                continue
            with np.errstate(invalid="ignore"):
                change = np.where(end[0] == value, 0.0, np.abs(end[0] - value))
            error = error + np.where(np.isnan(change), np.inf, change)
        found.append((value, error))
    return Values.stack(found, len(y))


def _arguments(design: Design, w: np.ndarray, errors: np.ndarray) -> Rounded:
    """Return predictors and nuisance parameters, each of shape (A, n), with their errors."""
    both, sizes = design.predictors(w[None])
    without_offset = replace(design, offset=np.empty((0, design.n_predictors)))
    _, of_errors = without_offset.predictors(errors[None])
    start = len(w) - design.n_nuisances
    shape = design.n_nuisances, design.n_rows
    nuisances, of_nuisances = (np.broadcast_to(v[start:, None], shape) for v in (w, errors))
    moved = SUMS * sizes[:, 0] + of_errors[:, 0]
    return np.concatenate([both[:, 0].T, nuisances]), np.concatenate([moved.T, of_nuisances])


def _only(found: list[Rounded] | None) -> Rounded | None:
    return None if found is None else found[0]
