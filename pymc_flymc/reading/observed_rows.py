"""Rows of an observed variable: its parameters, and the regressions that they make."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.model.core import Model
from pytensor.graph.replace import graph_replace
from pytensor.tensor import as_tensor
from pytensor.tensor.random.basic import CategoricalRV
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import (
    Shapes,
    check_integers,
    evaluate,
    fold_constants,
    free_inputs,
    freeze,
    weighted_sum,
)
from pymc_flymc.likelihoods import LIKELIHOODS
from pymc_flymc.likelihoods.checks import check_values
from pymc_flymc.likelihoods.likelihood import Likelihood, RowParameters
from pymc_flymc.likelihoods.zero_inflated import without_hurdle
from pymc_flymc.reading.predictor import read_predictor
from pymc_flymc.reading.tables import as_rows, several_predictors
from pymc_flymc.reading.variables import (
    check_form,
    names,
    observed_graph,
    outcomes_of,
    shape_of_rows,
)
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


def read_hurdle(observation: Observation) -> ObservedRows:
    """Read an observed variable with a hurdle; refuse negative values, and values all zero."""
    observed, name, psi = observation.values, observation.name, observation.psi
    assert psi is not None
    check_values(observed >= 0, observed, name, "zero or more")
    above = observed > 0
    if not above.any():
        raise ValueError(f"all values of {name!r} are zero: no row says what is beyond the hurdle")
    # Zeros become one, possible above any hurdle; after the check their rows are left out.
    filled = np.where(above, observed, 1)
    values = pt.as_tensor(filled.astype(observation.inner.dtype))
    parameters = observation.parameters(observation.inner, values)
    above = above.reshape(-1)
    part, rest = observation.regress(parameters, filled.reshape(-1), above)
    terms = None if parameters.rest is None else above * parameters.rest
    if psi.ndim:
        zeros = pm.Bernoulli.dist(p=psi)
        zeros.name = f"{name} > 0"
        whether, _ = observation.regress(observation.parameters(zeros), above, name=zeros.name)
        return observation.result([part, whether], rest, terms)
    (psi,) = observation.model.replace_rvs_by_values([psi])
    check_variables(observation.model, observation.owned, [psi], name)
    logs = pt.log(psi), pt.log1p(-psi)
    of_values = pt.switch(above, *logs)
    # All zeros have the same term, and so have all other values: only sums of weights are needed.
    weights = np.ones(len(above)) if observation.weights is None else observation.weights
    counts = np.array([weights[above].sum(), weights[~above].sum()])
    # Without zeros psi may be one, but not more.
    rest = rest + weighted_sum(counts, pt.stack(logs))
    return observation.result([part], rest, of_values + (0.0 if terms is None else terms))


def read_levels(observation: Observation, parameters: RowParameters) -> ObservedRows:
    """Read an observed variable of ordered levels, 0 to K - 1.

    Its regression has a row for each comparison: first of levels with the cutpoints below them,
    then of levels with the cutpoints above them; y is whether the level is above. The lowest level
    has no cutpoint below it, the highest none above it. Coefficients are for the dense columns, the
    cutpoints, the intercept and the sparse columns. In addition to the comparisons, the likelihood
    of level k has the factor ``1 - exp(c_(k-1) - c_k)``. If cutpoints do not increase, its
    logarithm is minus infinity.
    """
    name, shapes = observation.name, observation.shapes
    cutpoints, n_cutpoints = known_cutpoints(parameters, shapes, name)
    levels = _check_levels(observation.values.reshape(-1), n_cutpoints, name)
    # The first cutpoint is part of the predictor, as its only intercept.
    first = read_predictor(parameters.predictors - cutpoints[0], len(levels), name, shapes)
    below, above = np.flatnonzero(levels > 0), np.flatnonzero(levels < n_cutpoints)
    rows = np.concatenate([below, above])
    places = np.concatenate([levels[below] - 1, levels[above]])
    y = np.concatenate([np.ones(len(below), np.int8), np.zeros(len(above), np.int8)])
    further, design = fold_constants(cutpoints[1:] - cutpoints[0]), first.design
    # The parts of the design, other than dense columns, that comparisons repeat.
    repeated = replace(design, X=design.X[:, :0]).rows(rows)
    if not free_inputs([further]):
        offset = repeated.offset if repeated.offset.size else np.zeros((len(rows), 1))
        numbers = np.append(0.0, evaluate(further))[places]
        design = replace(repeated, X=design.X[rows], offset=offset - numbers[:, None])
        w = first.coefficients
    else:
        n_columns = design.X.shape[1]
        X = np.zeros((len(rows), n_columns + n_cutpoints - 1), design.X.dtype)
        np.take(design.X, rows, axis=0, out=X[:, :n_columns], mode="clip")
        later = np.flatnonzero(places)
        X[later, n_columns + places[later] - 1] = 1.0
        design = replace(repeated, X=X)
        w = pt.join(0, first.coefficients[:n_columns], -further, first.coefficients[n_columns:])
    regression = Regression(name, design, y, parameters.likelihood)
    part = observation.part(regression, fold_constants(w), rows)
    steps, zero = cutpoints[1:] - cutpoints[:-1], pt.zeros((1,))
    terms = pt.join(0, zero, pt.log1mexp(-steps), zero)[levels]
    counts = np.bincount(levels, observation.weights, n_cutpoints + 1)[1:-1].astype(np.float64)
    # Cutpoints that do not increase have no density, even around a level without values.
    of_levels = pt.switch(steps > 0.0, counts * pt.log1mexp(-steps), -np.inf)
    rest = pt.sum(of_levels) if n_cutpoints > 1 else pt.constant(0.0)
    return observation.result([part], rest, terms)


def known_cutpoints(
    parameters: RowParameters, shapes: Shapes, name: str
) -> tuple[TensorVariable, int]:
    """Return the graph of the cutpoints, with the current data, and their number."""
    assert parameters.cutpoints is not None
    cutpoints = fold_constants(freeze(parameters.cutpoints.astype("float64"), shapes))
    (n_cutpoints,) = cutpoints.type.shape
    if n_cutpoints is None:
        raise UnsupportedModelError(
            f"the number of cutpoints of {name!r} is open: give it, as in "
            "pt.specify_shape(cutpoints, (3,))"
        )
    if not free_inputs([cutpoints]):
        _check_increasing(evaluate(cutpoints), name)
    return cutpoints, n_cutpoints


def _check_increasing(cutpoints: np.ndarray, name: str) -> None:
    good = np.isfinite(cutpoints)
    good[1:] &= cutpoints[1:] > cutpoints[:-1]
    bad = np.flatnonzero(~good)
    if bad.size:
        raise ValueError(
            f"cutpoints of the observed variable {name!r} must be finite and increase, and number "
            f"{bad[0]} of them is {cutpoints[bad[0]]:g}"
            + (f", after {cutpoints[bad[0] - 1]:g}" if bad[0] else "")
        )


def _check_levels(values: np.ndarray, n_cutpoints: int, name: str) -> np.ndarray:
    """Return levels as integers."""
    values = np.asarray(values)
    good = (values == np.floor(values)) & (values >= 0) & (values <= n_cutpoints)
    bad = np.flatnonzero(~good)
    if bad.size:
        raise ValueError(
            f"{name} has {bad.size} values other than the levels 0 to {n_cutpoints}, of which its "
            f"{n_cutpoints} cutpoints are the limits, first in row {bad[0]}: {values[bad[0]]}; "
            "recode them or drop these rows"
        )
    return values.astype(np.int64)
