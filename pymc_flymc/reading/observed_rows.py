"""Rows of one observed variable: its parameters, and the regressions that they make."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pymc.model.core import Model
from pytensor.graph.replace import graph_replace
from pytensor.tensor import as_tensor
from pytensor.tensor.random.basic import CategoricalRV
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.integers import check_integers
from pymc_flymc.graphs.tools import Shapes, evaluate, free_inputs, freeze, weighted_sum
from pymc_flymc.likelihoods import LIKELIHOODS
from pymc_flymc.likelihoods.likelihood import Likelihood, RowParameters
from pymc_flymc.likelihoods.zeros import without_hurdle
from pymc_flymc.reading.observed import check_form, observed_graph, outcomes_of, shape_of_rows
from pymc_flymc.reading.predictor import read_predictor
from pymc_flymc.reading.tables import as_rows, several_predictors
from pymc_flymc.reading.variables import names
from pymc_flymc.reading.weights import read_weights, with_weights, without_weights
from pymc_flymc.regression.regression import Regression


@dataclass(frozen=True)
class Part:
    """A regression on some of the values of an observed variable."""

    regression: Regression
    coefficients: TensorVariable  #: The graph of its coefficients.
    rows: np.ndarray  #: Indices of the observed values that its rows belong to.


@dataclass(frozen=True)
class ObservedRows:
    """The rows of an observed variable."""

    parts: list[Part]  #: One, or two for a variable with a hurdle.
    #: Sum of the terms of the log-likelihood that regressions do not have, a scalar.
    rest: TensorVariable
    terms: TensorVariable | None  #: These terms for each observed value, or None.


@dataclass(frozen=True)
class Observation:
    """An observed variable that is to be read."""

    model: Model
    rv: TensorVariable
    inner: TensorVariable  #: The variable without weights and hurdle.
    psi: TensorVariable | None  #: The probability of a value above zero, if there is a hurdle.
    values: np.ndarray  #: Observed values, in the variable's own shape.
    weights: np.ndarray | None
    owned: list[TensorVariable]  #: Value variables that the step samples.
    shapes: Shapes  #: Shapes of all value variables.

    @classmethod
    def of(
        cls,
        model: Model,
        rv: TensorVariable,
        form: TensorVariable,
        owned: list[TensorVariable],
        shapes: Shapes,
    ) -> Observation:
        """Return an observation in some `form`, with weights and a hurdle separated from it."""
        inner, graph = without_weights(form)
        inner, psi = without_hurdle(inner)
        graph_of_values = freeze(observed_graph(model, rv), {})
        check_integers(graph_of_values, f"the observed variable {str(rv.name)!r}")
        values = evaluate(graph_of_values)
        shape = shape_of_rows(inner, values)
        weights = None
        if graph is not None:
            weights = read_weights(freeze(graph, {}), shape, str(rv.name))
        if weights is not None and not weights.any():
            raise ValueError(f"all weights of {rv.name!r} are zero: no row says anything")
        return cls(model, rv, inner, psi, values, weights, owned, shapes)

    @property
    def name(self) -> str:
        """Return the name of the variable."""
        return str(self.rv.name)

    @property
    def of_rows(self) -> np.ndarray:
        """Return the observed values, (N,), or (N, K) counts of K classes."""
        shape = shape_of_rows(self.inner, self.values)
        return self.values.reshape(math.prod(shape), *self.values.shape[len(shape) :])

    def parameters(
        self, inner: TensorVariable, values: TensorVariable | None = None
    ) -> RowParameters:
        """Return the parameters, as `parameters_of` does."""
        return parameters_of(self.model, self.rv, inner, self.owned, self.shapes, values)

    def regress(
        self,
        parameters: RowParameters,
        observed: np.ndarray,
        kept: np.ndarray | None = None,
        name: str | None = None,
    ) -> tuple[Part, TensorVariable]:
        """Return the regression of `kept` values, while all are checked, and other terms' sum."""
        name = self.name if name is None else name
        y = outcomes_of(parameters, observed, name)  # first, as a design may contain outcomes
        n_rows, of_counts = len(y), getattr(parameters.likelihood, "zero_at_no_mean", False)
        predictor = read_predictor(
            parameters.predictors,
            n_rows,
            name,
            self.shapes,
            nuisances=parameters.nuisances,
            certain=np.atleast_2d(y.T)[0] == 0 if of_counts else None,
        )
        design, rows = predictor.design, predictor.rows
        if kept is not None:
            rows = np.flatnonzero(kept)
            design = design.rows(rows)
        if rows is not None:
            y = y[rows]
        regression = Regression(name, design, y, parameters.likelihood)
        check_sizes(regression, name)
        sum_of_terms = self._sum_of_terms(parameters.rest, n_rows, kept)
        rows = np.arange(n_rows) if rows is None else rows
        return self.part(regression, predictor.coefficients, rows), sum_of_terms

    def _sum_of_terms(
        self, terms: TensorVariable | None, n_rows: int, kept: np.ndarray | None
    ) -> TensorVariable:
        """Return the graph of the weighted sum of the terms of all rows that are used."""
        # Terms are read like a predictor, so that their sum needs only column sums of a design.
        if terms is None:
            return as_tensor(0.0)
        weights = np.ones(n_rows) if self.weights is None else self.weights
        weights = weights if kept is None else kept * weights
        predictor = read_predictor(terms, n_rows, self.name, self.shapes)
        design = predictor.design
        offset = float(weights @ design.offset[:, 0]) if design.offset.size else 0.0
        return weighted_sum(design.sum_rows(weights), predictor.coefficients) + offset

    def part(self, regression: Regression, coefficients: TensorVariable, rows: np.ndarray) -> Part:
        """Return a regression on rows of given observed values, without rows of weight zero."""
        weights = None if self.weights is None else self.weights[rows]
        kept = rows if weights is None else rows[weights > 0.0]
        return Part(with_weights(regression, weights), coefficients, kept)

    def result(
        self, parts: list[Part], rest: TensorVariable, terms: TensorVariable | None
    ) -> ObservedRows:
        """Return what was read, given the terms of observed values without their weights."""
        if terms is not None:
            terms = (np.ones(len(self.of_rows)) if self.weights is None else self.weights) * terms
        return ObservedRows(parts, rest, terms)


def check_sizes(regression: Regression, name: str) -> None:
    """Refuse a family that reads other numbers of predictors or nuisances than it declares."""
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
    shapes: Shapes,
    values: TensorVariable | None,
    families: Sequence[Likelihood] | None = None,
) -> RowParameters:
    """Return the parameters of an observed variable in terms of value variables.

    `inner` is the variable without weights and hurdle. It is read as one of `families`, by default
    of all. `values` replace it in graphs, by default the observed ones. The parameters of a table
    become its rows' parameters.
    """
    check_form(model, rv)
    if rv.ndim > 1 and isinstance(inner.owner.op, CategoricalRV):
        raise several_predictors(str(rv.name), rv.ndim)
    parameters = _read_parameters(inner, LIKELIHOODS if families is None else families)
    optional = {name: getattr(parameters, name) for name in ("cutpoints", "rest", "unit")}
    further = {name: graph for name, graph in optional.items() if graph is not None}
    several = [*parameters.nuisances, *parameters.row_data]
    graphs: Any = [parameters.predictors, *several, *further.values()]
    observed: dict[Any, Any] = {inner: model.rvs_to_values[rv] if values is None else values}
    graphs = model.replace_rvs_by_values(graph_replace(graphs, observed, strict=False))
    check_variables(model, owned, graphs, str(rv.name))
    first, stop = 1 + len(parameters.nuisances), 1 + len(several)
    parameters = replace(
        parameters,
        predictors=graphs[0],
        nuisances=graphs[1:first],
        row_data=graphs[first:stop],
        **dict(zip(further, graphs[stop:], strict=True)),
    )
    shape = shape_of_rows(inner, evaluate(model.rvs_to_values[rv]))
    return parameters if len(shape) == 1 else as_rows(parameters, shape, shapes, str(rv.name))


def _read_parameters(rv: TensorVariable, families: Sequence[Likelihood]) -> RowParameters:
    """Return what the first family that can read an observed variable has read."""
    families = [family for family in families if family.matches(rv)]
    for family in families[:-1]:
        with suppress(UnsupportedModelError):
            return family.read(rv)
    return families[-1].read(rv)


def check_variables(
    model: Model, owned: list[TensorVariable], graphs: list[TensorVariable], name: str
) -> None:
    """Refuse variables that the rows depend on and that the step cannot, or does not, sample."""
    touched = [v for v in free_inputs(graphs) if v in model.values_to_rvs]
    discrete = names(model, [v for v in touched if v.type.dtype[:5] != "float"])
    if discrete:
        raise UnsupportedModelError(
            f"the likelihood of {name!r} depends on the discrete variables {discrete}: "
            "sum them out of the model"
        )
    missing = names(model, [v for v in touched if v not in owned])
    if missing:
        raise UnsupportedModelError(
            f"the likelihood of {name!r} depends on {missing}, which this step does not sample. "
            "Another step method would see only the bright rows' part of it and the result would "
            f"be wrong: add {missing} to vars"
        )
