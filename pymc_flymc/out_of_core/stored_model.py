"""Read a model whose data containers hold the first of many rows, which are out of core."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from pymc.model.core import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import graph_inputs, toposort
from pytensor.tensor import as_tensor
from pytensor.tensor.math import variadic_add
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.compat.pymc import MinibatchRandomVariable
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import Shapes
from pymc_flymc.out_of_core.design_builder import (
    Containers,
    DesignBuilder,
    RowGraphs,
    columns_of,
    row_graphs_of,
)
from pymc_flymc.out_of_core.source import RowSource, Values
from pymc_flymc.out_of_core.stored_rows import SourceRows
from pymc_flymc.reading.lookups import read_either
from pymc_flymc.reading.model import ModelReading, rest_terms, warn_of_other_steps
from pymc_flymc.reading.observed_rows import ObservedRows, Part, check_sizes
from pymc_flymc.reading.predictor import read_predictor
from pymc_flymc.reading.rows_alone import check_rows_alone, statistics_of_rows
from pymc_flymc.reading.variables import value_shapes, value_variables
from pymc_flymc.regression.matrices import LARGEST_DENSE
from pymc_flymc.regression.regression import Regression
from pymc_flymc.reporting import doing, log, number_of

#: Least number of rows in the model's own containers, so that its reading can be checked.
FEWEST_ROWS = 8


def containers_of(model: Model, source: RowSource) -> Containers:
    """Return the model's containers for which a source has rows.

    Raises
    ------
    ValueError
        If there is no such container, or if its rows are of another shape.
    """
    known = {str(v.name): v for v in model.data_vars}
    for name in source.names:
        if name not in known:
            listed = ", ".join(map(repr, known)) or "none"
            raise ValueError(
                f"data= names {name!r}, which is no data container of the model; it has {listed}. "
                f'Put its first rows into one: pm.Data("{name}", ...)'
            )
        if not isinstance(known[name], SharedVariable):
            raise ValueError(f"the container {name!r} of the model holds no array")
        shape, row = known[name].get_value(borrow=True).shape, source.shapes[name]
        if shape[1:] != row:
            raise ValueError(
                f"a row of the container {name!r} has the shape {shape[1:]} in the model, and "
                f"{row} in data="
            )
    return {name: known[name] for name in source.names}


def _observed(model: Model, containers: Containers) -> list[TensorVariable]:
    """Return the observed variables whose rows a source has, not scaled."""
    named = set(containers.values())
    found = [
        rv for rv in model.observed_RVs if named & set(graph_inputs([model.rvs_to_values[rv]]))
    ]
    if not found:
        raise UnsupportedModelError(
            "no observed variable is made of the containers that data= names "
            f"({', '.join(map(repr, containers))}); one is needed: "
            'observed=pm.Data("y", ...), with data={"y": ...}'
        )
    for rv in found:
        if isinstance(rv.owner.op, MinibatchRandomVariable):
            raise UnsupportedModelError(
                f"{rv.name!r} has a total_size=: leave it out. With data= no likelihood is scaled, "
                "and pm.compute_log_likelihood would report, of each of the model's own rows, that "
                "of many others, too, from which az.loo makes a precise number that means nothing"
            )
    return found


def _check_rest(graphs: Sequence[TensorVariable], containers: Containers) -> None:
    """Refuse containers in these graphs, the rest of the model, which knows only the first rows."""
    used = set(graph_inputs(list(graphs)))
    for name, container in containers.items():
        if container in used:
            raise UnsupportedModelError(
                f"the model uses the container {name!r} in more than the rows of one observed "
                "variable (in a prior, a potential, or a mean over rows): there it would be its "
                "first rows alone. Compute what is needed of all rows before the model, or put the "
                "rows into the model, without data="
            )


def _check_deterministics(model: Model, containers: Containers) -> None:
    """Refuse deterministics that would be recorded as statistics of the first rows."""
    graphs: dict[str, Any] = {str(v.name): v for v in model.deterministics}
    for name, what in statistics_of_rows(graphs, containers).items():
        raise UnsupportedModelError(
            f"the deterministic {name!r} contains {what}: it would be recorded as that of the "
            "first rows alone. Leave it out of the model: after sampling, summarize_rows reads all "
            "rows of data="
        )


@doing("reading the model and checking its data")
def read_stored(model: Model, vars: Any, source: RowSource) -> ModelReading:
    """Read a model whose data containers hold the first rows of those of a source.

    All observed variables with outcomes in these containers are taken.

    Parameters
    ----------
    model, vars
        As of `read_model`.
    source : RowSource
        All rows of some of the model's data containers.

    Raises
    ------
    UnsupportedModelError
        If the model is not of a form that can be sampled out of core.
    ValueError
        If names or shapes of containers are wrong, or data are not valid.
    """
    owned = value_variables(model, vars)
    containers, shapes = containers_of(model, source), value_shapes(model)
    taken: dict[TensorVariable, ObservedRows] = {}
    regressions: list[Regression] = []
    coefficients: list[TensorVariable] = []
    warn_of_other_steps(model, owned, source.n_rows)
    for rv in _observed(model, containers):

        def read(form: TensorVariable, rv: TensorVariable = rv) -> ObservedRows:
            several = row_graphs_of(model, rv, form, owned, shapes)
            return _read_all(rv, several, containers, shapes, source)

        taken[rv] = read_either(model, rv, read)
        regressions += [part.regression for part in taken[rv].parts]
        coefficients += [part.coefficients for part in taken[rv].parts]
    n_written = len(next(iter(containers.values())).get_value(borrow=True))
    log.info(
        f"all {number_of(source.n_rows, 'row')} of data= are taken for "
        f"{' and '.join(repr(rv.name) for rv in taken)}; observed_data and constant_data of the "
        f"result hold only the {n_written:,} rows that the model is written on"
    )
    of_all_else = rest_terms(model, taken, owned)
    _check_rest([*of_all_else.values()], containers)
    _check_deterministics(model, containers)
    prior = variadic_add(*of_all_else.values(), *(each.rest for each in taken.values()))
    return ModelReading(tuple(regressions), tuple(coefficients), prior, owned, (), {}, taken)


def _read_all(
    rv: TensorVariable,
    several: Sequence[RowGraphs],
    containers: Containers,
    shapes: Shapes,
    source: RowSource,
) -> ObservedRows:
    """Return the regressions of an observed variable, and all else of its log density."""
    parts: list[Part] = []
    rests: list[TensorVariable] = []
    terms: Any = None
    for graphs in several:
        regression, w, rest = _read_rows(rv, graphs, containers, shapes, source)
        check_sizes(regression, graphs.name)
        parts.append(Part(regression, w, np.empty(0, np.int64)))
        rests.append(rest)
        if graphs.terms is not None:
            terms = graphs.terms if terms is None else terms + graphs.terms
    return ObservedRows(parts, variadic_add(*rests), terms)


def _read_rows(
    rv: TensorVariable, graphs: RowGraphs, containers: Containers, shapes: Shapes, source: RowSource
) -> tuple[Regression, TensorVariable, TensorVariable]:
    """Return the regression of all rows, and graphs of its coefficients and of the sum of the rest.

    The rest is the terms of a log-likelihood that its family does not have, as for a free shape.
    """
    name, parameters = graphs.name, graphs.parameters
    builder = DesignBuilder(graphs, containers, shapes)
    further = (parameters.unit, parameters.rest, graphs.weights, graphs.chances)
    of_rows = [parameters.predictors, *parameters.row_data, graphs.observed]
    of_rows += [graph for graph in further if graph is not None]
    check_rows_alone(of_rows, parameters.nuisances, containers, name, rv)
    head = {each: np.asarray(v.get_value(borrow=True)) for each, v in containers.items()}
    _check_lengths(head)
    values = builder.values(head)
    n_rows = len(builder.observations(values))
    of = parameters.predictors, n_rows, name, shapes, values
    predictor = read_predictor(*of, parameters.nuisances)
    design = predictor.design
    if not design.format.one_radius:
        raise UnsupportedModelError(
            f"{name!r} has {design.n_coefficients:,} coefficients with effects of groups or sparse "
            f"columns; for rows given by data= there may be {LARGEST_DENSE}. Put the rows into the "
            "model, without data="
        )
    narrow = tuple(
        each
        for each, v in containers.items()
        if _is_same(design.X, values[v]) and _n_uses(v, of_rows) == 1
    )
    builder = replace(builder, like=columns_of(design), narrow=narrow)
    y = builder(head)[1]
    none, stored = slice(0, 0), SourceRows(source, builder)
    rest: Any = as_tensor(0.0)
    if parameters.rest is not None:
        of_rest = read_predictor(parameters.rest, n_rows, name, shapes, values)
        columns, offset = stored.sum_of_rest()
        rest = (columns * of_rest.coefficients).sum() + float(offset[0])
    tall = replace(design.rows(none), stored=stored)
    regression = Regression(name, tall, y[none], builder.likelihood)
    return regression, predictor.coefficients, rest


def _is_same(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether arrays are the same numbers in the same memory."""
    return a.shape == b.shape and a.__array_interface__["data"] == b.__array_interface__["data"]


def _n_uses(container: Variable, graphs: Sequence[Variable]) -> int:
    return sum(container in node.inputs for node in toposort(list(graphs)))


def _check_lengths(head: Values) -> None:
    lengths = {name: len(values) for name, values in head.items()}
    if len(set(lengths.values())) > 1 or min(lengths.values()) < FEWEST_ROWS:
        listed = ", ".join(f"{n:,} of {name!r}" for name, n in lengths.items())
        raise ValueError(
            f"the model is written on {listed}: put the same rows into all containers that data= "
            f"names, at least {FEWEST_ROWS} of them"
        )
