"""Arrays of Dask, which need not be installed."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_flymc.out_of_core.checks import check_block

__all__ = ["is_dask", "with_checked_blocks"]


def is_dask(values: Any) -> bool:
    """Return whether this is an array of Dask."""
    return hasattr(values, "__dask_graph__") and hasattr(values, "chunks")


def with_checked_blocks(name: str, array: Any) -> Any:
    """Return an array whose blocks hold whole rows, and are what the array says of them.

    Parameters
    ----------
    name : str
        Of the container, for messages.
    array : dask.array.Array
        Chunks of unknown lengths are counted first.
    """
    if any(np.isnan(n) for n in array.shape):
        array = array.compute_chunk_sizes()
    meta = np.empty((0,) * array.ndim, array.dtype)
    checked = array.map_blocks(_checked, column=name, dtype=array.dtype, meta=meta)
    return checked.rechunk({axis: -1 for axis in range(1, array.ndim)})


def _checked(block: Any, column: str, block_info: Any = None) -> Any:
    at = block_info[0]["array-location"]
    shape = tuple(stop - start for start, stop in at)
    return check_block(block, column, shape, f"the block of rows {at[0][0]:,} to {at[0][1]:,}")
