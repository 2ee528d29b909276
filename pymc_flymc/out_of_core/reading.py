"""Read a model whose data containers hold the first of many rows, which are out of core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from pymc.model.core import Model
from pymc.variational.minibatch_rv import MinibatchRandomVariable
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import graph_inputs, toposort
from pytensor.tensor import as_tensor
from pytensor.tensor.math import variadic_add
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.likelihoods import (
    LIKELIHOODS,
    JointlySmoothLikelihood,
    RowParameters,
    SmoothLikelihood,
)
from pymc_flymc.likelihoods.refusals import nothing_supported
from pymc_flymc.out_of_core.design_builder import Containers, DesignBuilder, columns_of
from pymc_flymc.out_of_core.source import RowSource, Values
from pymc_flymc.out_of_core.stored_rows import SourceRows
from pymc_flymc.reading.model import ModelReading, rest_terms
from pymc_flymc.reading.observed import observed_graph, without_hurdle
from pymc_flymc.reading.observed_rows import ObservedRows, Part, check_sizes, parameters_of
from pymc_flymc.reading.other_steps import warn_of_other_steps
from pymc_flymc.reading.predictor import read_parameters
from pymc_flymc.reading.row_axes import check_rows_alone
from pymc_flymc.reading.variables import value_shapes, value_variables
from pymc_flymc.reading.weights import without_weights
from pymc_flymc.regression.matrices import LARGEST_DENSE
from pymc_flymc.regression.regression import Regression
from pymc_flymc.reporting import doing, log

__all__ = ["read_stored"]

#: Rows that a model must be written on, for what is read of them to be checked.
FEWEST = 8


def _containers(model: Model, source: RowSource) -> Containers:
    """Return the model's containers that a source has rows of."""
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


def _only_observed(model: Model, containers: Containers) -> TensorVariable:
    """Return the observed variable whose rows a source has: one, that is not scaled."""
    named = set(containers.values())
    found = [
        rv for rv in model.observed_RVs if named & set(graph_inputs([model.rvs_to_values[rv]]))
    ]
    if len(found) != 1:
        what = f"{len(found)} observed variables are" if found else "no observed variable is"
        raise UnsupportedModelError(
            f"{what} made of the containers that data= names ({', '.join(map(repr, containers))}); "
            'one is needed: observed=pm.Data("y", ...), with data={"y": ...}'
        )
    (rv,) = found
    if isinstance(rv.owner.op, MinibatchRandomVariable):
        raise UnsupportedModelError(
            f"{rv.name!r} has a total_size=: leave it out. With data= no likelihood is scaled, and "
            "pm.compute_log_likelihood would report, of each of the model's own rows, that of many "
            "others, too, from which az.loo makes a precise number that means nothing"
        )
    return rv


def _check_rest(graphs: Sequence[TensorVariable], containers: Containers) -> None:
    """Refuse containers of which all else of a model, these graphs, knows only the first rows."""
    used = set(graph_inputs(list(graphs)))
    for name, container in containers.items():
        if container in used:
            raise UnsupportedModelError(
                f"the model uses the container {name!r} in more than the rows of one observed "
                "variable (in a prior, a potential, or a mean over rows): there it would be its "
                "first rows alone. Compute what is needed of all rows before the model"
            )


@doing("reading the model and checking its data")
def read_stored(model: Model, vars: Any, source: RowSource) -> ModelReading:
    """Read a model whose data containers hold the first rows of those of a source.

    The one observed variable whose rows these are is taken.

    Parameters
    ----------
    model, vars
        As of `read_model`.
    source : RowSource
        All rows of some of the model's data containers.

    Returns
    -------
    ModelReading

    Raises
    ------
    UnsupportedModelError
        If the model is not of a form that can be sampled out of core.
    ValueError
        If names or shapes of containers are wrong, or data are not valid.
    """
    owned = value_variables(model, vars)
    containers, shapes = _containers(model, source), value_shapes(model)
    rv = _only_observed(model, containers)
    if without_weights(rv)[1] is not None:
        raise _refused(f"rows given by data= have no weights, and those of {rv.name!r} do")
    if without_hurdle(rv)[1] is not None:
        raise UnsupportedModelError(
            f"rows given by data= are those of one likelihood, and {rv.name!r} with its hurdle has "
            "two. Put the rows into the model, without data=; or give those with y > 0, of "
            "pm.Truncated(dist, lower=1), and in a model of its own pm.Bernoulli for y > 0"
        )
    if not any(family.matches(rv) for family in LIKELIHOODS):
        raise UnsupportedModelError(nothing_supported(model))
    name = str(rv.name)
    if rv.ndim - rv.owner.op.ndim_supp != 1:
        raise UnsupportedModelError(
            f"rows given by data= have one observed value each, and {name!r} has {rv.ndim} "
            "dimensions. Write it with a row for each value, or without data="
        )
    parameters = parameters_of(model, rv, rv, owned, shapes)
    warn_of_other_steps(model, owned, source.n_rows)
    _check_likelihood(parameters, name)
    regression, w = _read_rows(
        rv, parameters, observed_graph(model, rv), shapes, containers, source
    )
    check_sizes(regression, name)
    terms = rest_terms(model, [rv])
    _check_rest([*terms.values()], containers)
    rest, part = variadic_add(*terms.values()), Part(regression, w, np.empty(0, np.int64))
    taken = {rv: ObservedRows([part], as_tensor(0.0), None)}
    return ModelReading((regression,), (w,), rest, owned, (), {}, taken)


def _refused(reason: str) -> UnsupportedModelError:
    return UnsupportedModelError(f"{reason}. Put the rows into the model, without data=")


def _check_likelihood(parameters: RowParameters, name: str) -> None:
    """Refuse likelihoods that independent proposals do not sample."""
    if parameters.cutpoints is not None:
        raise _refused(
            f"rows given by data= are one row each of a regression, and the ordered levels of "
            f"{name!r} are two comparisons each"
        )
    if parameters.rest is not None:
        raise UnsupportedModelError(
            f"the likelihood of {name!r} has a term that is summed up over all rows when the model "
            "is read, as those of a free shape have, which is not done for rows given by data=. "
            "Put the rows into the model, without data=, or give the shape as a number"
        )
    if not isinstance(parameters.likelihood, SmoothLikelihood | JointlySmoothLikelihood):
        raise _refused(
            f"rows given by data= are sampled by joint moves, which are for smooth likelihoods "
            f"without nuisance parameters, and {name!r} is of the family "
            f"{parameters.likelihood.name}"
        )


def _read_rows(
    rv: TensorVariable,
    parameters: RowParameters,
    observed: TensorVariable,
    shapes: Mapping[Variable, tuple[int, ...]],
    containers: Containers,
    source: RowSource,
) -> tuple[Regression, TensorVariable]:
    """Return the regression of all rows, and the graph of its coefficients."""
    name = str(rv.name)
    of_rows = [parameters.predictors, *parameters.row_data, observed]
    of_rows += [] if parameters.unit is None else [parameters.unit]
    check_rows_alone(of_rows, parameters.nuisances, containers, name, rv)
    builder = DesignBuilder(name, parameters, observed, containers, shapes)
    head = {each: np.asarray(v.get_value(borrow=True)) for each, v in containers.items()}
    _check_lengths(head)
    values = builder.values(head)
    n_rows = len(builder.observations(values))
    predictor = read_parameters(parameters, n_rows, name, shapes, values)
    design = predictor.design
    if design.is_arrow:
        raise _refused(
            f"{name!r} has {design.n_coefficients:,} coefficients with effects of groups or sparse "
            f"columns; for rows given by data= there may be {LARGEST_DENSE}"
        )
    narrow = tuple(
        each
        for each, v in containers.items()
        if _is_same(design.X, values[v]) and _n_uses(v, of_rows) == 1
    )
    builder = replace(builder, like=columns_of(design), narrow=narrow)
    y = builder(head)[1]
    log.info(
        f"of {name!r} all {source.n_rows:,} rows of data= are sampled; observed_data and "
        f"constant_data of the result hold the {n_rows:,} that the model is written on"
    )
    none = slice(0, 0)
    tall = replace(design.rows(none), stored=SourceRows(source, builder))
    return Regression(name, tall, y[none], parameters.likelihood), predictor.coefficients


def _is_same(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether arrays are the same numbers in the same memory."""
    return a.shape == b.shape and a.__array_interface__["data"] == b.__array_interface__["data"]


def _n_uses(container: Variable, graphs: Sequence[Variable]) -> int:
    return sum(container in node.inputs for node in toposort(list(graphs)))


def _check_lengths(head: Values) -> None:
    lengths = {name: len(values) for name, values in head.items()}
    if len(set(lengths.values())) > 1 or min(lengths.values()) < FEWEST:
        listed = ", ".join(f"{n:,} of {name!r}" for name, n in lengths.items())
        raise ValueError(
            f"the model is written on {listed}: put the same rows into all containers that data= "
            f"names, at least {FEWEST} of them"
        )
