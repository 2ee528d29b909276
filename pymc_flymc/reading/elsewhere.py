"""Read a model whose data containers hold the first of many rows, which lie elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from pymc.model.core import Model
from pymc.variational.minibatch_rv import MinibatchRandomVariable
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import graph_inputs, toposort
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.likelihoods import JointlySmoothLikelihood, RowParameters, SmoothLikelihood
from pymc_flymc.reading.predictor import read_parameters
from pymc_flymc.reading.recipe import Containers, GraphRecipe, columns_of
from pymc_flymc.reading.row_axes import check_rows_alone
from pymc_flymc.regression.design import STRUCTURED
from pymc_flymc.regression.elsewhere import TallDesign
from pymc_flymc.regression.regression import Regression
from pymc_flymc.reporting import log
from pymc_flymc.sources.source import RowSource, Values

__all__ = [
    "check_rest",
    "containers_of",
    "only_observed",
    "read_elsewhere",
]

#: Rows that a model must be written on, for what is read of them to be checked.
FEWEST = 8


def containers_of(model: Model, source: RowSource) -> Containers:
    """Return the model's containers that a source has rows of.

    Raises
    ------
    ValueError
        If a name is that of no container.
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


def only_observed(model: Model, containers: Containers) -> TensorVariable:
    """Return the observed variable whose rows a source has.

    Raises
    ------
    UnsupportedModelError
        If there is none, or several, or if it is scaled by a ``total_size=``.
    """
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


def check_rest(graphs: Sequence[TensorVariable], containers: Containers) -> None:
    """Refuse containers of which other parts of a model know only the first rows.

    Parameters
    ----------
    graphs : sequence of TensorVariable
        Of all of the model but the observed variable's rows.
    """
    used = set(graph_inputs(list(graphs)))
    for name, container in containers.items():
        if container in used:
            raise UnsupportedModelError(
                f"the model uses the container {name!r} in more than the rows of one observed "
                "variable (in a prior, a potential, or a mean over rows): there it would be its "
                "first rows alone. Compute what is needed of all rows before the model"
            )


def read_elsewhere(
    rv: TensorVariable,
    parameters: RowParameters,
    observed: TensorVariable,
    shapes: Mapping[Variable, tuple[int, ...]],
    containers: Containers,
    source: RowSource,
) -> tuple[Regression, TensorVariable]:
    """Read an observed variable whose rows are those of a source, from the first of them.

    Parameters
    ----------
    rv : TensorVariable
        The observed random variable.
    parameters : RowParameters
        Its parameters, as graphs of value variables and containers.
    observed : TensorVariable
        Graph of its values.
    shapes : mapping
        Of the value variables.
    containers : mapping
        That the source has rows of, by name.
    source : RowSource

    Returns
    -------
    Regression, TensorVariable
        Its design is a `TallDesign`; and the graph of the coefficients.

    Raises
    ------
    UnsupportedModelError
        If the predictor cannot be read, or if rows depend on other rows.
    """
    name = str(rv.name)
    if parameters.cutpoints is not None:
        raise UnsupportedModelError(
            f"rows given by data= are one row each of a regression, and the ordered levels "
            f"of {name!r} are two comparisons each. Put the rows into the model, without data="
        )
    if parameters.rest is not None:
        raise UnsupportedModelError(
            f"the likelihood of {name!r} has a term that is summed up over all rows when the model "
            "is read, as those of a free shape have, which is not done for rows given by data=. "
            "Put the rows into the model, without data=, or give the shape as a number"
        )
    if not isinstance(parameters.likelihood, SmoothLikelihood | JointlySmoothLikelihood):
        raise UnsupportedModelError(
            f"rows given by data= are sampled by joint moves, which are for smooth likelihoods "
            f"without nuisance parameters, and {name!r} is of the family "
            f"{parameters.likelihood.name}. Put the rows into the model, without data="
        )
    of_rows = [parameters.predictors, *parameters.row_data, observed]
    of_rows += [] if parameters.unit is None else [parameters.unit]
    check_rows_alone(of_rows, parameters.nuisances, containers, name, rv)
    recipe = GraphRecipe(name, parameters, observed, containers, shapes)
    head = {each: np.asarray(v.get_value(borrow=True)) for each, v in containers.items()}
    _check_lengths(head)
    values = recipe.values(head)
    n_rows = len(recipe.observations(values))
    predictor = read_parameters(parameters, n_rows, name, shapes, values)
    design = predictor.design
    if design.structured:
        raise UnsupportedModelError(
            f"{name!r} has {design.n_coefficients:,} coefficients with effects of groups or sparse "
            f"columns; for rows given by data= there may be {STRUCTURED}. Put the rows into the "
            "model, without data="
        )
    narrow = tuple(
        each
        for each, v in containers.items()
        if _is_same(design.X, values[v]) and _n_uses(v, of_rows) == 1
    )
    recipe = replace(recipe, like=columns_of(design), narrow=narrow)
    y = recipe(head)[1]
    log.info(
        f"of {name!r} all {source.n_rows:,} rows of data= are sampled; observed_data and "
        f"constant_data of the result hold the {n_rows:,} that the model is written on"
    )
    none = slice(0, 0)
    empty = design.rows(none)
    tall = TallDesign(
        X=empty.X,
        offset=empty.offset,
        intercept=design.intercept,
        n_nuisances=design.n_nuisances,
        sparse=empty.sparse,
        source=source,
        recipe=recipe,
    )
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
