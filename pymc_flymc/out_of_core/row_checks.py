"""Checks that rows were read in the requested shape, and are numbers."""

from typing import Any

import numpy as np

from pymc_flymc.reporting import number_of


def check_rows(rows: Any, container: str, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Return rows as they are, if they have the requested shape and are numbers.

    Parameters
    ----------
    rows : array
    container : str
        Its name.
    shape : tuple of int
        The requested shape.
    what : str
        Where the rows come from, for messages.
    """
    if np.ma.is_masked(rows):
        n_masked = int(np.ma.getmaskarray(rows).sum())
        raise ValueError(
            f"data= of {container!r}: {what} has {number_of(n_masked, 'masked value')}; drop or "
            "impute these rows"
        )
    rows = np.asarray(np.ma.getdata(rows))
    if rows.shape != shape:
        raise ValueError(
            f"data= of {container!r}: {what} was declared to have the shape {shape}, and has "
            f"{rows.shape}: rows of different containers would be put together. What it is read "
            "from has changed, or its lengths were declared wrongly: open it again, and make a new "
            "step"
        )
    if rows.dtype.kind not in "fiub":
        raise ValueError(f"data= of {container!r}: {what} is of dtype {rows.dtype}, not numbers")
    return rows
