"""Read the rows of one observed variable: its parameters, and the regressions that they make."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pymc.model.core import Model
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.tensor import as_tensor
from pytensor.tensor.random.basic import CategoricalRV
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.integers import check_integers
from pymc_flymc.graphs.tools import evaluate, free_inputs, freeze
from pymc_flymc.likelihoods import LIKELIHOODS, RowParameters
from pymc_flymc.reading.hurdles import (
    above_zero,
    name_of_zeros,
    without_hurdle,
    zeros_of_rows,
    zeros_of_values,
    zeros_together,
)
from pymc_flymc.reading.levels import read_levels
from pymc_flymc.reading.observed import check_form, observed_graph, outcomes_of
from pymc_flymc.reading.predictor import read_parameters, read_predictor
from pymc_flymc.reading.tables import as_rows, several_predictors
from pymc_flymc.reading.variables import names
from pymc_flymc.reading.weights import read_weights, with_weights, without_weights
from pymc_flymc.regression.regression import Regression

__all__ = ["ObservedRows", "Part", "check_sizes", "parameters_of", "read_rows"]


@dataclass(frozen=True)
class Part:
    """A regression on some of the values of an observed variable.

    Attributes
    ----------
    regression : Regression
    coefficients : TensorVariable
        The graph of its coefficients.
    rows : ndarray of int, shape (number of the regression's rows,)
        Which of the observed values each row belongs to.
    """

    regression: Regression
    coefficients: TensorVariable
    rows: np.ndarray


@dataclass(frozen=True)
class ObservedRows:
    """The rows of an observed variable.

    Attributes
    ----------
    parts : list of Part
        One, or two behind a hurdle.
    rest : TensorVariable
        Scalar: the part of the log-likelihood that is the same for all rows of a kind.
    terms : TensorVariable, optional
        Vector: the same, of each observed value. None if there is no such part.
    """

    parts: list[Part]
    rest: TensorVariable
    terms: TensorVariable | None


def read_rows(
    model: Model,
    rv: TensorVariable,
    owned: list[TensorVariable],
    shapes: Mapping[Variable, tuple[int, ...]],
) -> ObservedRows:
    """Read one observed variable."""
    name = str(rv.name)
    inner, graph = without_weights(rv)
    inner, psi = without_hurdle(inner)
    graph_of_values = freeze(observed_graph(model, rv), {})
    check_integers(graph_of_values, f"the observed variable {name!r}")
    observed = evaluate(graph_of_values)
    weights = None if graph is None else read_weights(graph, observed.shape, name)
    if psi is not None:
        return _read_hurdle(model, rv, (inner, psi), owned, observed, weights, shapes)
    parameters, observed = parameters_of(model, rv, inner, owned, shapes), observed.reshape(-1)
    if parameters.cutpoints is not None:
        levels = read_levels(parameters, observed, name, shapes, weights)
        regression = Regression(name, levels.design, levels.y, parameters.likelihood)
        of_rows = None if weights is None else weights[levels.rows]
        part = _part(regression, levels.coefficients, levels.rows, of_rows)
        return ObservedRows([part], levels.rest, _of_values(levels.terms, len(observed), weights))
    part, rest = _regress(parameters, observed, name, shapes, weights)
    return ObservedRows([part], rest, _of_values(parameters.rest, len(observed), weights))


def _read_hurdle(
    model: Model,
    rv: TensorVariable,
    inside: tuple[TensorVariable, TensorVariable],
    owned: list[TensorVariable],
    observed: np.ndarray,
    weights: np.ndarray | None,
    shapes: Mapping[Variable, tuple[int, ...]],
) -> ObservedRows:
    """Read one observed variable whose values above zero are of another one, `inside` with psi."""
    name, (inner, psi) = str(rv.name), inside
    above = above_zero(observed, name)
    # One is a value of all that are above zero: these rows are left out once all are checked.
    filled = np.where(above, observed, 1)
    values = as_tensor(filled.astype(inner.dtype))
    parameters = parameters_of(model, rv, inner, owned, shapes, values)
    above, filled = above.reshape(-1), filled.reshape(-1)
    part, rest = _regress(parameters, filled, name, shapes, weights, above)
    terms = None if parameters.rest is None else above * parameters.rest
    if psi.ndim == 0:
        (psi,) = model.replace_rvs_by_values([psi])
        _check_variables(model, owned, [psi], name)
        terms = zeros_of_values(psi, above) + (0.0 if terms is None else terms)
        rest = rest + zeros_together(psi, above, weights)
        return ObservedRows([part], rest, _of_values(terms, len(above), weights))
    zeros = parameters_of(model, rv, zeros_of_rows(psi, name), owned, shapes)
    whether, _ = _regress(zeros, above, name_of_zeros(name), shapes, weights)
    return ObservedRows([part, whether], rest, _of_values(terms, len(above), weights))


def _regress(
    parameters: RowParameters,
    observed: np.ndarray,
    name: str,
    shapes: Mapping[Variable, tuple[int, ...]],
    weights: np.ndarray | None,
    kept: np.ndarray | None = None,
) -> tuple[Part, TensorVariable]:
    """Return the regression of observed values, or of some of them, and the rest."""
    y = outcomes_of(parameters, observed, name)  # first: a design may be made of them
    n_rows = len(y)
    predictor = read_parameters(parameters, n_rows, name, shapes)
    regression = Regression(name, predictor.design, y, parameters.likelihood)
    check_sizes(regression, name)
    of_kept = weights if kept is None else kept * (1.0 if weights is None else weights)
    rest = _sum_of_terms(parameters.rest, n_rows, name, shapes, of_kept)
    rows = np.arange(n_rows) if kept is None else np.flatnonzero(kept)
    if kept is not None:
        regression = replace(regression, design=predictor.design.rows(rows), y=y[rows])
    weights = None if weights is None else weights[rows]
    return _part(regression, predictor.coefficients, rows, weights), rest


def _part(
    regression: Regression,
    coefficients: TensorVariable,
    rows: np.ndarray,
    weights: np.ndarray | None,
) -> Part:
    """Return a regression whose rows have weights, without those of weight zero."""
    kept = rows if weights is None else rows[weights > 0.0]
    return Part(with_weights(regression, weights), coefficients, kept)


def _of_values(
    terms: TensorVariable | None, n_values: int, weights: np.ndarray | None
) -> TensorVariable | None:
    """Return terms of all observed values, with their weights."""
    return None if terms is None else (np.ones(n_values) if weights is None else weights) * terms


def _sum_of_terms(
    terms: TensorVariable | None,
    n_rows: int,
    name: str,
    shapes: Mapping[Variable, tuple[int, ...]],
    weights: np.ndarray | None,
) -> TensorVariable:
    """Return the graph of a sum over all rows of what their likelihoods have beside the family's.

    It is read as a predictor is, so that the sum is one over the columns of a design.
    """
    if terms is None:
        return as_tensor(0.0)
    predictor = read_predictor(terms, n_rows, name, shapes)
    design, weights = predictor.design, np.ones(n_rows) if weights is None else weights
    offset = float(weights @ design.offset[:, 0]) if design.offset.size else 0.0
    return (design.sum_rows(weights) * predictor.coefficients).sum() + offset


def check_sizes(regression: Regression, name: str) -> None:
    """Refuse families of other numbers of predictors or nuisance parameters than they say."""
    design, likelihood = regression.design, regression.likelihood
    found = design.n_predictors, design.n_nuisances
    expected = likelihood.n_predictors, len(likelihood.nuisances)
    if found != expected:  # kernels would read beyond the arrays of such a family
        raise ValueError(
            f"the family {likelihood.name} is of {expected} predictors and nuisance parameters, "
            f"and has read {found} of {name!r}"
        )


def parameters_of(
    model: Model,
    rv: TensorVariable,
    inner: TensorVariable,
    owned: list[TensorVariable],
    shapes: Mapping[Variable, tuple[int, ...]],
    values: TensorVariable | None = None,
) -> RowParameters:
    """Return the parameters of an observed variable in terms of value variables.

    Of one with weights or a hurdle the variable inside is read. In graphs it
    stands for `values`, by default those observed. Those of a table are those of its rows.
    """
    check_form(model, rv)
    if rv.ndim > 1 and isinstance(inner.owner.op, CategoricalRV):
        raise several_predictors(str(rv.name), rv.ndim)
    parameters = _read_parameters(inner)
    optional = {name: getattr(parameters, name) for name in ("cutpoints", "rest", "unit")}
    further = {name: graph for name, graph in optional.items() if graph is not None}
    graphs: Any = [parameters.predictors, *parameters.nuisances, *further.values()]
    observed: dict[Any, Any] = {inner: model.rvs_to_values[rv] if values is None else values}
    graphs = model.replace_rvs_by_values(graph_replace(graphs, observed, strict=False))
    _check_variables(model, owned, graphs, str(rv.name))
    stop = 1 + len(parameters.nuisances)
    parameters = replace(
        parameters,
        predictors=graphs[0],
        nuisances=graphs[1:stop],
        **dict(zip(further, graphs[stop:], strict=True)),
    )
    if rv.ndim == 1:
        return parameters
    return as_rows(parameters, evaluate(model.rvs_to_values[rv]).shape, shapes, str(rv.name))


def _read_parameters(rv: TensorVariable) -> RowParameters:
    """Return what the first family that can read an observed variable has read."""
    families = [family for family in LIKELIHOODS if family.matches(rv)]
    for family in families[:-1]:
        with suppress(UnsupportedModelError):
            return family.read(rv)
    return families[-1].read(rv)


def _check_variables(
    model: Model, owned: list[TensorVariable], graphs: list[TensorVariable], name: str
) -> None:
    """Refuse variables that the rows depend on and that the step cannot, or does not, sample."""
    touched = [v for v in free_inputs(graphs) if v in model.values_to_rvs]
    discrete = names(model, [v for v in touched if v.type.dtype[:5] != "float"])
    if discrete:
        raise UnsupportedModelError(
            f"the likelihood of {name!r} depends on the discrete variables {discrete}; "
            "marginalize them"
        )
    missing = names(model, [v for v in touched if v not in owned])
    if missing:
        raise UnsupportedModelError(
            f"the likelihood of {name!r} depends on {missing}, which this step does not sample. "
            "Another step method would see only the bright rows' part of it and the result would "
            f"be wrong: add {missing} to vars"
        )
