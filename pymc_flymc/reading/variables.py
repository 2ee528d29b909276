"""The variables of a model: observed values, and the value variables that a step samples."""

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from pymc.model.core import Model
from pytensor.graph.basic import Variable
from pytensor.scalar import basic as ps
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.compat.pymc import get_value_vars_from_user_vars, make_initial_point_expression
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import check_integers, evaluate, free_inputs, freeze, plain_function
from pymc_flymc.likelihoods.likelihood import RowParameters


def size_of(model: Model, rv: TensorVariable) -> int:
    """Return the number of an observed variable's values, or rows of counts."""
    return math.prod(shape_of_rows(rv, evaluate(model.rvs_to_values[rv])))


def is_constant(model: Model, rv: TensorVariable, owned: Collection[Variable]) -> bool:
    """Return whether an observed variable depends on none of the value variables of a step."""
    # Then its density is constant for that step. For example, another step samples all that it
    # depends on, or all of a causal model is observed. A variable on an interval that ends at a
    # variable of the step depends on that one, too: its value is not a function of its
    # unconstrained value alone.
    parameters = [v for v in rv.owner.inputs if isinstance(v, TensorVariable)]
    return not any(v in owned for v in free_inputs(model.replace_rvs_by_values(parameters)))


def shape_of_rows(rv: TensorVariable, values: np.ndarray) -> tuple[int, ...]:
    """Return the shape of observed values, without an axis of the classes that are counted."""
    return values.shape[: values.ndim - rv.owner.op.ndim_supp]


def check_form(model: Model, rv: TensorVariable) -> None:
    """Refuse observed variables with missing values, a single number, or in batches."""
    name = str(rv.name)
    if name.endswith("_observed"):
        check_missing(model, name.removesuffix("_observed"))
    if free_inputs([model.rvs_to_values[rv]]):
        raise UnsupportedModelError(
            f"the values of the observed variable {name!r} are drawn at random, as by "
            "pm.Minibatch: give all rows, of which Firefly reads few anyway"
        )
    if rv.ndim == 0:
        raise UnsupportedModelError(
            f"the observed variable {rv.name!r} is a single number: write one variable for all "
            "rows, with a vector of observed values, in place of one for each"
        )


def check_missing(model: Model, name: str) -> None:
    """Refuse an observed variable with missing values, which PyMC splits into two variables."""
    missing = model.named_vars.get(f"{name}_unobserved")
    if missing is None or f"{name}_observed" not in model.named_vars:
        return
    n_missing = math.prod(model.eval_rv_shapes()[str(missing.name)])
    raise UnsupportedModelError(
        f"the observed variable {name!r} has missing values (NaN or masked), {n_missing} of them, "
        "which PyMC samples as variables of their own; drop these rows from the observed values "
        "and from all predictors, as in y[keep] and X[keep] with keep = ~np.isnan(y), or ~y.mask; "
        "of a table write the values that there are: person, item = np.nonzero(~np.isnan(Y)), "
        "theta[person] - b[item], observed=Y[person, item]"
    )


def observed_graph(model: Model, rv: TensorVariable) -> TensorVariable:
    """Return the graph of values as the user gave them: PyMC's cast to integers would hide 0.5."""
    value = model.rvs_to_values[rv]
    while (
        value.owner is not None
        and isinstance(value.owner.op, Elemwise)
        and isinstance(value.owner.op.scalar_op, ps.Cast)
    ):
        (value,) = value.owner.inputs
    return value


def outcomes_of(
    parameters: RowParameters,
    observed: np.ndarray,
    name: str,
    of: Mapping[Variable, np.ndarray] | None = None,
) -> np.ndarray:
    """Return observed values as the family has them, (N,), or (N, 1 + R) with row data.

    With counts (N, K) of K classes the first count is the value of a row; the family has the others
    as row data. `of` replaces values of shared variables. Impossible values, none, and row data of
    another length are refused.
    """
    if not observed.size:
        raise ValueError(f"the observed variable {name!r} has no rows")
    likelihood, observed = parameters.likelihood, observed.reshape(len(observed), -1)[:, 0]

    def of_rows(graph: TensorVariable, what: str) -> np.ndarray:
        frozen = freeze(graph, {}, of)
        check_integers(frozen, f"{what} of {name!r}")
        column = np.squeeze(evaluate(frozen))
        if column.shape not in ((), observed.shape):
            raise ValueError(
                f"{what} of {name!r} has {column.size} values for {len(observed)} observed ones"
            )
        return np.broadcast_to(column, observed.shape)

    pairs = zip(parameters.row_data, likelihood.row_data, strict=True)
    columns = [observed, *(of_rows(graph, what) for graph, what in pairs)]
    y = likelihood.read_observed(np.stack(columns, axis=1) if columns[1:] else observed, name)
    # Row data are in the units of the outcomes.
    return y if parameters.unit is None else (y.T / of_rows(parameters.unit, "the scale")).T


def value_variables(
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
    discrete = names(model, [v for v in owned if v.type.dtype[:5] != "float"])
    for name in discrete:
        check_missing(model, name.removesuffix("_unobserved"))
    if discrete:
        raise UnsupportedModelError(
            f"Firefly samples continuous variables only, and {discrete} are discrete: "
            "sum them out of the model, or leave out step=, and PyMC samples the model as it is. "
            "If they enter only priors, leave them out of vars="
        )
    if not owned:
        raise ValueError("there are no variables to sample")
    return owned


def names(model: Model, values: Sequence[Variable]) -> list[str]:
    """Return the names of random variables, given their value variables."""
    return [str(model.values_to_rvs[v].name) for v in values]


def value_shapes(model: Model) -> dict[Variable, tuple[int, ...]]:
    """Return the shapes of all value variables."""
    open_rvs = [rv for rv in model.free_RVs if None in model.rvs_to_values[rv].type.shape]
    shapes = {v: v.type.shape for v in model.value_vars}
    if open_rvs:
        # Initial values have these shapes; computing them without compilation takes milliseconds.
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
