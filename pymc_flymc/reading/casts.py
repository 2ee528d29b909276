"""Casts of rows to the types of the model's containers, which must not change a value."""

import numpy as np


def cast_rows(array: np.ndarray, dtype: np.dtype, name: str) -> np.ndarray:
    """Return finite rows in the type of the container `name`; refuse values that it cannot hold."""
    # A float becomes a shorter float by rounding, as in PyMC. No other value changes.
    if array.dtype == dtype:
        return array
    with np.errstate(invalid="ignore", over="ignore"):
        found = array.astype(dtype)
        if array.dtype.kind == dtype.kind == "f":
            good = np.isfinite(found)
        else:
            # An integer that wraps around there and back compares equal, but its sign differs.
            good = (found.astype(array.dtype) == array) & ((found < 0) == (array < 0))
    if not good.all():
        raise ValueError(
            f"the data of {name!r} hold {array[~good].flat[0]}, which is no value of the model's "
            f"container, of {dtype}: write the model on rows in a type that holds all values "
            f'(as floats: pm.Data("{name}", rows.astype("float64"))), or number groups from 0'
        )
    return found
