"""Value variables of a model: which ones a step samples, and their shapes."""

from collections.abc import Sequence

import numpy as np
from pymc.model.core import Model
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.compat.pymc import get_value_vars_from_user_vars, make_initial_point_expression
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import plain_function
from pymc_flymc.reading.observed import check_missing


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
