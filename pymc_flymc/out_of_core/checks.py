"""Rows that were read are as many as were asked for, and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["check_block"]


def check_block(block: Any, column: str, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Return rows as they are, if they are as many as were asked for, and numbers.

    Parameters
    ----------
    block : array
    column : str
        Name of the container.
    shape : tuple of int
        What it is to be.
    what : str
        The place of the block, for messages.

    Raises
    ------
    ValueError
    """
    if np.ma.is_masked(block):
        n_masked = int(np.ma.getmaskarray(block).sum())
        raise ValueError(
            f"data= of {column!r}: {what} has {n_masked} masked values; drop or impute these rows"
        )
    block = np.asarray(np.ma.getdata(block))
    if block.shape != shape:
        raise ValueError(
            f"data= of {column!r}: {what} was declared to have the shape {shape}, and has "
            f"{block.shape}: rows of different containers would be put together. What it is read "
            "from has changed, or its lengths were declared wrongly: open it again, and make a new "
            "step"
        )
    if block.dtype.kind not in "fiub":
        raise ValueError(f"data= of {column!r}: {what} is of dtype {block.dtype}, not numbers")
    return block
