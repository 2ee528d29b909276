"""Reading of a model: observed variables that Firefly samples, and the sum of other terms."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymc as pm
from pymc.model.core import Model
from pytensor.graph.basic import Variable
from pytensor.tensor import as_tensor, join
from pytensor.tensor.math import variadic_add
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError, warn
from pymc_flymc.likelihoods import LIKELIHOODS
from pymc_flymc.likelihoods.refusals import nothing_supported
from pymc_flymc.likelihoods.zeros import without_hurdle
from pymc_flymc.reading.full_passes import FullPass, find_full_passes, per_row
from pymc_flymc.reading.hurdles import read_hurdle
from pymc_flymc.reading.levels import read_levels
from pymc_flymc.reading.lifted_lookups import read_either
from pymc_flymc.reading.observed import check_missing, is_constant, size_of
from pymc_flymc.reading.observed_rows import Observation, ObservedRows
from pymc_flymc.reading.other_steps import warn_of_other_steps
from pymc_flymc.reading.variables import value_shapes, value_variables
from pymc_flymc.reading.weights import without_weights
from pymc_flymc.regression.regression import Regression
from pymc_flymc.reporting import doing

#: Observed variables other than the largest are subsampled from this many rows on. Fewer rows take
#: at most about 40 microseconds in full, not worth a special form of the model, and joint moves.
ENOUGH_ROWS = 1000


@dataclass(frozen=True)
class ModelReading:
    """A model, split into rows that Firefly subsamples and the rest.

    A variable with a hurdle makes two regressions, the one of the values above zero first.
    """

    #: The observed variables with these rows, the one with the most rows first.
    regressions: tuple[Regression, ...]
    #: w(theta) of each: float64 vectors in terms of value variables.
    coefficients: tuple[TensorVariable, ...]
    #: Log density of everything but these rows, in terms of value variables: priors with the
    #: Jacobians of their transforms, potentials, and other observed variables.
    prior_logp: TensorVariable
    vars: list[TensorVariable]  #: Value variables that the step samples.
    #: Parts of the model of the size of the data that are evaluated in full.
    full_passes: tuple[FullPass, ...]
    #: Deterministic variables with a value for each row, with the number of rows.
    per_row: dict[str, int]
    #: The observed variables of the regressions, with what was read of each.
    taken: dict[TensorVariable, ObservedRows]


@doing("reading the model and checking its data")
def read_model(
    model: Model, vars: str | Variable | Sequence[str | Variable] | None = None
) -> ModelReading:
    """Read a model for a step method that samples `vars`, by default all free variables.

    Candidates are the observed variables of a supported family that depend on `vars`. The one with
    the most values is taken, and so is any other one that has at least `ENOUGH_ROWS` values and can
    be read. All others that depend on `vars` stay in ``prior_logp``, which is evaluated in full.
    Data containers and dimension lengths have their current values.

    The model is refused if its largest candidate cannot be sampled exactly. Variables that are left
    to steps of PyMC that would read all rows, and mixtures among the priors, cause warnings.
    """
    supported = _supported(model)
    owned = value_variables(model, vars)
    own = [rv for rv in supported if not is_constant(model, rv, owned)]
    largest, *others = own or supported
    warn_of_mixtures(model, owned)
    shapes = value_shapes(model)

    def rows_of(rv: TensorVariable) -> ObservedRows:
        return read_either(model, rv, lambda v: _read(Observation.of(model, rv, v, owned, shapes)))

    taken = {largest: rows_of(largest)}
    refused: dict[str, str] = {}
    for rv in others:
        if size_of(model, rv) >= ENOUGH_ROWS:
            try:
                taken[rv] = rows_of(rv)
            except UnsupportedModelError as error:
                refused[str(rv.name)] = str(error)
    rows = [size_of(model, rv) for rv in taken]
    parts = [part for each in taken.values() for part in each.parts]
    warn_of_other_steps(model, owned, sum(rows))
    terms = rest_terms(model, taken, owned)
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


def _read(observation: Observation) -> ObservedRows:
    """Read one observed variable."""
    if observation.psi is not None:
        return read_hurdle(observation)
    parameters = observation.parameters(observation.inner)
    if parameters.cutpoints is not None:
        return read_levels(observation, parameters)
    part, rest = observation.regress(parameters, observation.of_rows)
    return observation.result([part], rest, parameters.rest)


def rest_terms(
    model: Model, taken: Collection[Variable], owned: Collection[Variable]
) -> dict[TensorVariable, TensorVariable]:
    """Return the log densities of variables and potentials that are not taken, scalars."""
    # Observed variables that depend on no value variable of the step are left out.
    constant = [rv for rv in model.observed_RVs if is_constant(model, rv, owned)]
    rest = [v for v in model.basic_RVs + model.potentials if v not in (*taken, *constant)]
    logps = model.logp(vars=rest, sum=False)
    return {
        v: as_tensor(logp, allow_xtensor_conversion=True).sum()
        for v, logp in zip(rest, logps, strict=True)
    }


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
        for rv in model.observed_RVs:
            check_missing(model, str(rv.name).removesuffix("_observed"))
        raise UnsupportedModelError(nothing_supported(model))
    return sorted(found, key=lambda rv: -size_of(model, rv))


_MIXTURE: Any = pm.Mixture.rv_type


def warn_of_mixtures(model: Model, owned: Sequence[TensorVariable]) -> None:
    """Warn of mixtures among the priors, such as a spike and a slab."""
    sampled = [rv for rv in model.free_RVs if model.rvs_to_values[rv] in owned]
    found = [str(rv.name) for rv in sampled if isinstance(rv.owner.op, _MIXTURE)]
    if found:
        warn(
            f"the priors of {found} are mixtures, so that the posterior may have several modes. "
            "Bounds and proposals are tuned at one of them, around which all chains start, and "
            "R-hat does not show what none has visited. To see whether there are others, let "
            "chains start in different places: pm.sample(initvals=[{...}, {...}, ...]), one for "
            "each chain. A prior with one mode that leaves large coefficients alone is a "
            "horseshoe: "
            'pm.Normal("b", shape=p) * pm.HalfCauchy("local", 1, shape=p) * pm.HalfCauchy("tau", 1)'
        )
