"""Checks of numbers that come with an observed variable: its parameters and its values."""

from collections.abc import Callable
from typing import Any

import numpy as np
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import evaluate, free_inputs


def is_positive(values: np.ndarray) -> np.ndarray:
    """Return which values are positive and finite; complex ones are not."""
    return np.isfinite(values) & (values.imag == 0) & (values.real > 0)


def is_zero_or_more(values: np.ndarray) -> np.ndarray:
    """Return which values are finite, and not negative."""
    return np.isfinite(values) & (values >= 0)


def check_parameter(
    parameter: TensorVariable,
    what: str,
    rv: TensorVariable,
    expected: str = "positive and finite",
    good: Callable[[np.ndarray], np.ndarray] = is_positive,
) -> None:
    """Refuse a parameter with impossible values, if it is given as numbers of any shape."""
    if free_inputs([parameter]):
        return
    values = np.ravel(evaluate(parameter))
    bad = np.flatnonzero(~good(values))
    if bad.size:
        row = f" in row {bad[0]}" if values.size > 1 else ""
        raise ValueError(
            f"{what} of the observed variable {rv.name!r} is {values[bad[0]]}{row}; it must be "
            f"{expected}"
        )


def one_for_all_rows(parameter: Any, what: str, rv: TensorVariable) -> Any:
    """Return a parameter that is the same for all rows as a scalar; refuse any other."""
    if not all(parameter.type.broadcastable):
        raise UnsupportedModelError(
            f"{what} of the observed variable {rv.name!r} has a value for each row; Firefly needs "
            f"one for all rows: a scalar {what}"
        )
    return parameter.squeeze() if parameter.ndim else parameter


def scalar_parameter(
    parameter: Any, what: str, rv: TensorVariable, expected: str = "positive and finite"
) -> Any:
    """Return a positive parameter that is the same for all rows as a scalar; refuse any other."""
    parameter = one_for_all_rows(parameter, what, rv)
    check_parameter(parameter, what, rv, expected)
    return parameter


def known_number(parameter: Any, what: str, rv: TensorVariable, instead: str) -> float:
    """Return a positive constant that all rows share as a number; else refuse it with `instead`."""
    parameter = scalar_parameter(parameter, what, rv)
    if free_inputs([parameter]):
        raise UnsupportedModelError(f"{what} of the observed variable {rv.name!r} is free{instead}")
    return float(evaluate(parameter))


def check_values(good: np.ndarray, values: np.ndarray, name: str, expected: str) -> None:
    """Refuse observed values that are not good: the message counts them and names the first."""
    bad = np.flatnonzero(~good)
    if bad.size:
        raise ValueError(
            f"{name} has {bad.size} values that are not {expected}, first in row {bad[0]}: "
            f"{values[bad[0]]}; correct or drop these rows"
        )


def check_counts(values: np.ndarray, name: str) -> np.ndarray:
    """Return observed counts as float64; refuse other values, NaN included."""
    values = np.asarray(values, dtype=np.float64)
    whole = (values >= 0) & (values == np.floor(values)) & (values < np.inf)
    check_values(whole, values, name, "counts")
    return values
