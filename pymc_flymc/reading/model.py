"""Read a model: which observed variables Firefly takes over, and what all else adds up to."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.model.core import Model
from pymc.step_methods import BinaryGibbsMetropolis, CategoricalGibbsMetropolis
from pymc.step_methods.compound import Competence
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import toposort
from pytensor.scan.op import Scan
from pytensor.tensor import as_tensor, join
from pytensor.tensor.math import variadic_add
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError, warn
from pymc_flymc.graphs.tools import ConstantParts, Shapes, evaluate, freeze, known_size
from pymc_flymc.likelihoods import LIKELIHOODS
from pymc_flymc.likelihoods.checks import nothing_supported
from pymc_flymc.likelihoods.zero_inflated import without_hurdle
from pymc_flymc.reading.lookups import read_either
from pymc_flymc.reading.observed_rows import Observation, ObservedRows, read_hurdle, read_levels
from pymc_flymc.reading.variables import (
    check_missing,
    is_constant,
    size_of,
    value_shapes,
    value_variables,
)
from pymc_flymc.reading.weights import without_weights
from pymc_flymc.regression.regression import Regression
from pymc_flymc.reporting import doing

_GIBBS = (BinaryGibbsMetropolis, CategoricalGibbsMetropolis)


def warn_of_other_steps(model: Model, owned: Sequence[TensorVariable], n_rows: int) -> None:
    """Warn of variables to which PyMC would assign steps that evaluate the whole model."""
    # Metropolis steps do not: PyTensor cancels all terms of the difference of two log densities
    # that do not depend on their variables. PyMC assigns them to most discrete variables.
    left = [rv for rv in model.free_RVs if model.rvs_to_values[rv] not in owned]
    continuous = [str(rv.name) for rv in left if rv.type.dtype[:5] == "float"]
    gibbs = [
        str(rv.name)
        for rv in left
        if str(rv.name) not in continuous
        and any(step.competence(rv) is Competence.IDEAL for step in _GIBBS)
    ]
    if not continuous + gibbs:
        return
    steps = [
        f"{step} for {names}"
        for step, names in (("NUTS", continuous), ("a Gibbs step", gibbs))
        if names
    ]
    add = f"Add {continuous} to vars, or give" if continuous else "Give"
    warn(
        f"vars leaves out {continuous + gibbs}. If pm.sample is given no step for them, PyMC takes "
        f"{' and '.join(steps)}, of which each evaluation reads all {n_rows:,} rows. {add} "
        "pm.sample a pm.Metropolis step for them beside this one: it evaluates only what depends "
        "on its variables"
    )


#: A part that is evaluated in full at each update is reported above this share of the rows,
_NOTABLE_SHARE = 0.1
#: and above this many numbers per parameter: a prior of many parameters is not a pass over data.
_PER_PARAMETER = 2
#: ... and if that takes as long as some hundred rows in turn.
_FEWEST_MILLISECONDS = 0.05


@dataclass(frozen=True)
class FullPass:
    """A part of a model that is evaluated in full at each update."""

    what: str  #: The part, with its name.
    size: int  #: Number of elements of its largest array.
    reason: str = ""  #: Why its rows are not subsampled, or empty.

    def __str__(self) -> str:
        reason = f"; {self.reason}" if self.reason else ""
        return f"{self.what} ({self.size:,} numbers{reason})"


def find_full_passes(
    model: Model,
    taken: Mapping[TensorVariable, TensorVariable],
    terms: Mapping[TensorVariable, TensorVariable],
    shapes: Shapes,
    refused: Mapping[str, str],
) -> tuple[FullPass, ...]:
    """Return the parts of a model that evaluate arrays of the size of the data at each update."""
    n_parameters = sum(math.prod(shapes[v]) for v in model.value_vars)
    n_rows = max(evaluate(model.rvs_to_values[rv]).size for rv in taken)
    notable = _NOTABLE_SHARE * n_rows
    graphs: Any = [*terms.values(), *(w.sum() for w in taken.values())]
    # They are copied as one graph, so that common subgraphs are copied once.
    together: Any = freeze(pt.add(0.0, *graphs), shapes)
    found = []
    for v, graph in zip([*terms, *taken], together.owner.inputs[1:], strict=True):
        is_observed = v in model.observed_RVs and v not in taken
        rows = evaluate(model.rvs_to_values[v]).size if is_observed else 0
        size = max(_sizes(graph), default=0)
        if rows > notable or size > max(notable, _PER_PARAMETER * n_parameters):
            what = f"the coefficients of {v.name!r}" if v in taken else _describe(model, v)
            found.append(FullPass(what, max(rows, size), refused.get(str(v.name), "")))
    return tuple(found)


def _sizes(graph: TensorVariable) -> Iterator[int]:
    """Yield the known sizes of the arrays of a graph that change with a variable."""
    is_constant = ConstantParts([graph])
    for node in toposort([graph]):
        if not is_constant(node.outputs[0]):
            # A loop reads its inputs element by element.
            read = node.inputs if isinstance(node.op, Scan) else []
            yield from map(known_size, [*node.outputs, *read])


def _describe(model: Model, v: TensorVariable) -> str:
    if v in model.potentials:
        return f"the potential {v.name!r}"
    if v in model.free_RVs:
        return f"the prior of {v.name!r}"
    return f"the observed variable {v.name!r}"


def per_row(model: Model, rows: Sequence[int], shapes: Shapes) -> dict[str, int]:
    """Return deterministic variables with a value for each row of a likelihood, and that number."""
    graphs = model.replace_rvs_by_values(model.deterministics)
    return {
        str(v.name): max(found)
        for v, graph in zip(model.deterministics, graphs, strict=True)
        if (found := set(rows) & _lengths(freeze(graph, shapes)))
    }


def _lengths(variable: TensorVariable) -> set[int | None]:
    """Return the lengths of an array's axes, and the number of its elements."""
    return {*variable.type.shape, known_size(variable)}


def warn_of_full_passes(
    passes: Sequence[FullPass], names: Sequence[str], seconds: Callable[[], float]
) -> None:
    """Warn of parts of the model that are evaluated in full, and of the seconds that this takes."""
    milliseconds = 1e3 * seconds() if passes else 0.0
    if milliseconds < _FEWEST_MILLISECONDS:
        return
    listed = " and ".join(str(each) for each in passes)
    warn(
        f"Firefly subsamples the rows of {' and '.join(map(repr, names))} only. Evaluated in full "
        f"at each update of the parameters, in about {milliseconds:.2g} ms that likelihood_queries "
        f"does not count: {listed}. Compute before the model "
        "what no variable changes, and write what rows say as an observed variable of a supported "
        "likelihood, or one of your own"
    )


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
