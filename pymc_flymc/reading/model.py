"""Read a model: which observed variables Firefly takes over, and what all else adds up to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from pymc.initial_point import make_initial_point_expression
from pymc.model.core import Model
from pymc.util import get_value_vars_from_user_vars
from pytensor.graph.basic import Variable
from pytensor.tensor import as_tensor
from pytensor.tensor.math import variadic_add
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import free_inputs, plain_function
from pymc_flymc.likelihoods import LIKELIHOODS, RowParameters
from pymc_flymc.likelihoods.refusals import nothing_supported
from pymc_flymc.reading.full_passes import FullPass, find_full_passes, per_row
from pymc_flymc.reading.observed import (
    check_form,
    check_missing,
    observed_values,
    size_of,
    with_row_data,
)
from pymc_flymc.reading.other_steps import warn_of_other_steps
from pymc_flymc.reading.predictor import read_parameters
from pymc_flymc.regression.regression import Regression
from pymc_flymc.reporting import doing

#: An observed variable beside the largest is subsampled from so many rows on. Fewer take at most
#: some 40 microseconds in full, not worth a form of the model that can be read, and joint moves.
ENOUGH_ROWS = 1000


@dataclass(frozen=True)
class ModelReading:
    """A model, split into rows that Firefly subsamples and the rest.

    Attributes
    ----------
    regressions : tuple of Regression
        The observed variables with these rows, the one with the most first.
    coefficients : tuple of TensorVariable
        w(theta) of each: float64 vectors in terms of value variables.
    rest_logp : TensorVariable
        Scalar: the model's log density without these rows - priors with the Jacobians of their
        transforms, potentials, other observed variables - in terms of value variables.
    vars : list of TensorVariable
        Value variables that the step samples.
    full_passes : tuple of FullPass
        What of the model is evaluated in full though it is of the size of the data.
    per_row : dict
        Deterministic variables with a value for each row, with the number of rows.
    """

    regressions: tuple[Regression, ...]
    coefficients: tuple[TensorVariable, ...]
    rest_logp: TensorVariable
    vars: list[TensorVariable]
    full_passes: tuple[FullPass, ...]
    per_row: dict[str, int]


@doing("reading the model and checking its data")
def read_model(
    model: Model, vars: str | Variable | Sequence[str | Variable] | None = None
) -> ModelReading:
    """Read a model for a step method.

    Of the observed variables that belong to a supported family the one with the most values is
    taken, and each that has at least `ENOUGH_ROWS` values and can be read. All others stay in
    ``rest_logp``, which is evaluated in full.

    Parameters
    ----------
    model : Model
        The model. ``pm.Data`` and dimension lengths count with their values of now.
    vars : variable, name, or sequence of them, optional
        What the step samples: random variables, their names or value variables. All free
        variables by default.

    Returns
    -------
    ModelReading

    Raises
    ------
    UnsupportedModelError
        If the model, that is its largest observed variable of a supported family, is not of a form
        that can be sampled exactly by Firefly.
    ValueError
        If `vars` names no variables of the model, or data are not valid.

    Warns
    -----
    UserWarning
        If `vars` leaves variables to steps of PyMC that would read all rows.
    """
    largest, *others = _supported(model)
    owned = _value_variables(model, vars)
    shapes = _value_shapes(model)
    taken = {largest: _read_rows(model, largest, owned, shapes)}
    refused: dict[str, str] = {}
    for rv in others:
        if size_of(model, rv) >= ENOUGH_ROWS:
            try:
                taken[rv] = _read_rows(model, rv, owned, shapes)
            except UnsupportedModelError as error:
                refused[str(rv.name)] = str(error)
    rows = [regression.design.n_rows for regression, _ in taken.values()]
    warn_of_other_steps(model, owned, sum(rows))
    rest = [v for v in model.basic_RVs + model.potentials if v not in taken]
    logps = model.logp(vars=rest, sum=False)
    terms = {
        v: as_tensor(logp, allow_xtensor_conversion=True).sum()
        for v, logp in zip(rest, logps, strict=True)
    }
    coefficients = {rv: w for rv, (_, w) in taken.items()}
    return ModelReading(
        _of_one_dtype([regression for regression, _ in taken.values()]),
        tuple(coefficients.values()),
        variadic_add(*terms.values()),
        owned,
        find_full_passes(model, coefficients, terms, shapes, refused),
        per_row(model, rows, shapes),
    )


def _read_rows(
    model: Model,
    rv: TensorVariable,
    owned: list[TensorVariable],
    shapes: Mapping[Variable, tuple[int, ...]],
) -> tuple[Regression, TensorVariable]:
    """Read one observed variable: its rows, and the graph of their coefficients."""
    name = str(rv.name)
    check_form(model, rv)
    parameters = _read_parameters(rv)
    likelihood = parameters.likelihood
    values = with_row_data(observed_values(model, rv), parameters.row_data, likelihood, name)
    graphs = model.replace_rvs_by_values([parameters.predictors, *parameters.nuisances])
    _check_variables(model, owned, graphs, name)
    parameters = replace(parameters, predictors=graphs[0], nuisances=graphs[1:])
    predictor = read_parameters(parameters, len(values), name, shapes)
    found = predictor.design.n_predictors, predictor.design.n_nuisances
    expected = likelihood.n_predictors, len(likelihood.nuisances)
    if found != expected:  # kernels would read beyond the arrays of such a family
        raise ValueError(
            f"the family {likelihood.name} is of {expected} predictors and nuisance parameters, "
            f"and has read {found} of {name!r}"
        )
    y = likelihood.read_observed(values, name)
    return Regression(name, predictor.design, y, likelihood), predictor.coefficients


def _of_one_dtype(regressions: list[Regression]) -> tuple[Regression, ...]:
    """Return regressions whose designs are all float64 if one is: kernels loop over equal types."""
    dense = {each.design.X.dtype for each in regressions if each.design.X.size}
    dtype = max(dense, key=lambda each: each.itemsize, default=np.dtype(np.float64))

    def converted(regression: Regression) -> Regression:
        design = regression.design
        if len(regressions) == 1 or design.X.dtype == dtype:
            return regression
        return replace(regression, design=replace(design, X=design.X.astype(dtype)))

    return tuple(converted(regression) for regression in regressions)


def _value_variables(
    model: Model, vars: str | Variable | Sequence[str | Variable] | None
) -> list[TensorVariable]:
    """Return the value variables that a user's `vars` stand for, and refuse discrete ones."""
    if vars is None:
        owned = list(model.value_vars)
    else:
        items = [vars] if isinstance(vars, str | Variable) else list(vars)
        unknown = [v for v in items if isinstance(v, str) and v not in model.named_vars]
        if unknown:
            raise ValueError(f"the model has no variables {unknown}")
        owned = get_value_vars_from_user_vars(
            [model.named_vars[v] if isinstance(v, str) else v for v in items], model
        )
    discrete = _names(model, [v for v in owned if v.type.dtype[:5] != "float"])
    for name in discrete:
        check_missing(model, name.removesuffix("_unobserved"))
    if discrete:
        raise UnsupportedModelError(
            f"Firefly samples continuous variables only, and {discrete} are discrete: marginalize "
            "them, or, if they enter only priors, leave them out of vars"
        )
    if not owned:
        raise ValueError("there are no variables to sample")
    return owned


def _names(model: Model, values: Sequence[Variable]) -> list[str]:
    """Return the names of random variables, given their value variables."""
    return [str(model.values_to_rvs[v].name) for v in values]


def _read_parameters(rv: TensorVariable) -> RowParameters:
    """Return what the first family that can read an observed variable has read."""
    families = [family for family in LIKELIHOODS if family.matches(rv)]
    for family in families[:-1]:
        with suppress(UnsupportedModelError):
            return family.read(rv)
    return families[-1].read(rv)


def _supported(model: Model) -> list[TensorVariable]:
    """Return the observed variables of supported families, at least one, the largest first."""
    found = [rv for rv in model.observed_RVs if any(family.matches(rv) for family in LIKELIHOODS)]
    if not found:
        raise UnsupportedModelError(nothing_supported(model, LIKELIHOODS))
    return sorted(found, key=lambda rv: -size_of(model, rv))


def _check_variables(
    model: Model, owned: list[TensorVariable], graphs: list[TensorVariable], name: str
) -> None:
    """Refuse variables that the rows depend on and that the step cannot, or does not, sample."""
    touched = [v for v in free_inputs(graphs) if v in model.values_to_rvs]
    discrete = _names(model, [v for v in touched if v.type.dtype[:5] != "float"])
    if discrete:
        raise UnsupportedModelError(
            f"the likelihood of {name!r} depends on the discrete variables {discrete}; "
            "marginalize them"
        )
    missing = _names(model, [v for v in touched if v not in owned])
    if missing:
        raise UnsupportedModelError(
            f"the likelihood of {name!r} depends on {missing}, which this step does not sample. "
            "Another step method would see only the bright rows' part of it and the result would "
            f"be wrong: add {missing} to vars"
        )


def _value_shapes(model: Model) -> dict[Variable, tuple[int, ...]]:
    """Return the shapes of all value variables."""
    open_rvs = [rv for rv in model.free_RVs if None in model.rvs_to_values[rv].type.shape]
    shapes = {v: v.type.shape for v in model.value_vars}
    if open_rvs:
        # The values at the start have them; without compilation this takes milliseconds.
        start = make_initial_point_expression(
            free_rvs=model.free_RVs,
            rvs_to_transforms=model.rvs_to_transforms,
            initval_strategies=model.rvs_to_initial_values,
            return_transformed=True,
        )
        wanted = [out for rv, out in zip(model.free_RVs, start, strict=True) if rv in open_rvs]
        for rv, value in zip(open_rvs, plain_function([], wanted)(), strict=True):
            shapes[model.rvs_to_values[rv]] = np.shape(value)
    return shapes
