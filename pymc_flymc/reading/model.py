"""Read a model: which observed variables Firefly takes over, and what all else adds up to."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from pymc.model.core import Model
from pytensor.graph.basic import Variable
from pytensor.tensor import as_tensor, join
from pytensor.tensor.math import variadic_add
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.likelihoods import LIKELIHOODS
from pymc_flymc.likelihoods.refusals import nothing_supported
from pymc_flymc.reading.elsewhere import (
    check_rest,
    containers_of,
    only_observed,
    read_elsewhere,
)
from pymc_flymc.reading.full_passes import FullPass, find_full_passes, per_row
from pymc_flymc.reading.hurdles import without_hurdle
from pymc_flymc.reading.observed import observed_graph, size_of
from pymc_flymc.reading.other_steps import warn_of_other_steps
from pymc_flymc.reading.rows import Part, Rows, check_sizes, parameters_of, read_rows
from pymc_flymc.reading.variables import value_shapes, value_variables
from pymc_flymc.reading.weights import without_weights
from pymc_flymc.regression.regression import Regression
from pymc_flymc.reporting import doing
from pymc_flymc.sources.source import RowSource

#: An observed variable beside the largest is subsampled from so many rows on. Fewer take at most
#: some 40 microseconds in full, not worth a form of the model that can be read, and joint moves.
ENOUGH_ROWS = 1000


@dataclass(frozen=True)
class ModelReading:
    """A model, split into rows that Firefly subsamples and the rest.

    Attributes
    ----------
    regressions : tuple of Regression
        The observed variables with these rows, the one with the most first. One with a hurdle is
        two, values above zero first.
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
    taken : dict
        The observed variables that the regressions are of, with what was read of each.
    """

    regressions: tuple[Regression, ...]
    coefficients: tuple[TensorVariable, ...]
    rest_logp: TensorVariable
    vars: list[TensorVariable]
    full_passes: tuple[FullPass, ...]
    per_row: dict[str, int]
    taken: dict[TensorVariable, Rows]


@doing("reading the model and checking its data")
def read_model(
    model: Model,
    vars: str | Variable | Sequence[str | Variable] | None = None,
    source: RowSource | None = None,
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
    source : RowSource, optional
        All rows of some of the model's data containers, which hold a few of them. Then the one
        observed variable whose rows these are is taken.

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
    if source is not None:
        return _read_elsewhere(model, value_variables(model, vars), source)
    largest, *others = _supported(model)
    owned = value_variables(model, vars)
    shapes = value_shapes(model)
    taken = {largest: read_rows(model, largest, owned, shapes)}
    refused: dict[str, str] = {}
    for rv in others:
        if size_of(model, rv) >= ENOUGH_ROWS:
            try:
                taken[rv] = read_rows(model, rv, owned, shapes)
            except UnsupportedModelError as error:
                refused[str(rv.name)] = str(error)
    rows = [size_of(model, rv) for rv in taken]
    parts = [part for each in taken.values() for part in each.parts]
    warn_of_other_steps(model, owned, sum(rows))
    terms = _terms(model, taken)
    coefficients = {
        rv: join(0, *(part.coefficients for part in each.parts)) for rv, each in taken.items()
    }
    return ModelReading(
        _of_one_dtype([part.regression for part in parts]),
        tuple(part.coefficients for part in parts),
        variadic_add(*terms.values(), *(each.rest for each in taken.values())),
        owned,
        find_full_passes(model, coefficients, terms, shapes, refused),
        per_row(model, rows, shapes),
        taken,
    )


def _terms(model: Model, taken: Collection[Variable]) -> dict[TensorVariable, TensorVariable]:
    """Return the log densities of all variables and potentials that are not taken, scalars."""
    rest = [v for v in model.basic_RVs + model.potentials if v not in taken]
    logps = model.logp(vars=rest, sum=False)
    return {
        v: as_tensor(logp, allow_xtensor_conversion=True).sum()
        for v, logp in zip(rest, logps, strict=True)
    }


def _read_elsewhere(model: Model, owned: list[TensorVariable], source: RowSource) -> ModelReading:
    """Read a model whose containers hold the first rows of those of a source."""
    containers, shapes = containers_of(model, source), value_shapes(model)
    rv = only_observed(model, containers)
    if without_weights(rv)[1] is not None:
        raise UnsupportedModelError(
            f"rows given by data= have no weights, and those of {rv.name!r} do. Put the rows into "
            "the model, without data="
        )
    if without_hurdle(rv)[1] is not None:
        raise UnsupportedModelError(
            f"rows given by data= are those of one likelihood, and {rv.name!r} with its hurdle has "
            "two. Put the rows into the model, without data=; or give those with y > 0, of "
            "pm.Truncated(dist, lower=1), and in a model of its own pm.Bernoulli for y > 0"
        )
    if not any(family.matches(rv) for family in LIKELIHOODS):
        raise UnsupportedModelError(nothing_supported(model))
    name = str(rv.name)
    if rv.ndim != 1:
        raise UnsupportedModelError(
            f"rows given by data= have one observed value each, and {name!r} has {rv.ndim} "
            "dimensions. Write it with a row for each value, or without data="
        )
    parameters = parameters_of(model, rv, rv, owned, shapes)
    warn_of_other_steps(model, owned, source.n_rows)
    observed = observed_graph(model, rv)
    regression, w = read_elsewhere(rv, parameters, observed, shapes, containers, source)
    check_sizes(regression, name)
    terms = _terms(model, [rv])
    check_rest([*terms.values()], containers)
    rest, part = variadic_add(*terms.values()), Part(regression, w, np.empty(0, np.int64))
    taken = {rv: Rows([part], as_tensor(0.0), None)}
    return ModelReading((regression,), (w,), rest, owned, (), {}, taken)


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


def _supported(model: Model) -> list[TensorVariable]:
    """Return the observed variables of supported families, at least one, the largest first."""
    inner = {rv: without_hurdle(without_weights(rv)[0])[0] for rv in model.observed_RVs}
    found = [rv for rv in inner if any(family.matches(inner[rv]) for family in LIKELIHOODS)]
    if not found:
        raise UnsupportedModelError(nothing_supported(model))
    return sorted(found, key=lambda rv: -size_of(model, rv))
