"""Columns of data frames, of pandas or Dask, as arrays of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_flymc.compat.dask import without_rows

__all__ = ["array_of_frame", "is_frame"]

#: Integers beyond it need not be floats.
EXACT_IN_FLOAT64 = 1 << 53


def is_frame(values: Any) -> bool:
    """Return whether this is a data frame, or a column of one: of pandas, of Dask."""
    return hasattr(values, "to_dask_array") or hasattr(values, "iloc")


def array_of_frame(name: str, frame: Any) -> Any:
    """Return columns as an array of NumPy or Dask; of the latter, chunks are of known lengths.

    Parameters
    ----------
    name : str
        Of the container, for messages.
    frame : DataFrame or Series

    Raises
    ------
    ValueError
        If a column holds no numbers, or has missing values that its type has a place for; it names
        the column and says what to do.
    """
    table = frame.to_frame() if frame.ndim == 1 else frame
    plain = [_plain_type(name, *each) for each in zip(table.columns, table.dtypes, strict=True)]
    if hasattr(table, "to_dask_array"):
        meta = _numbers(without_rows(table), name, plain)
        # Not before: Dask reads several files at a time where it reads some of their columns only,
        # and it is then that it decides which.
        table = table.map_partitions(_numbers, name, plain, meta=meta)
        array = table.to_dask_array().compute_chunk_sizes()
    else:
        array = np.ascontiguousarray(_numbers(table, name, plain).to_numpy())
    return array[:, 0] if frame.ndim == 1 else array


def _plain_type(name: str, column: Any, dtype: Any) -> np.dtype:
    """Return the type of NumPy that a column has, or that is that of a nullable one."""
    plain = getattr(dtype, "numpy_dtype", dtype)
    if not isinstance(plain, np.dtype) or plain.kind not in "fiub":
        raise ValueError(
            f"data= of {name!r}: the column {column!r} is of dtype {dtype}, not numbers: "
            f"{_way_out(str(dtype))}"
        )
    return plain


def _way_out(dtype: str) -> str:
    if dtype.startswith(("datetime", "timedelta", "period", "timestamp", "date", "duration")):
        return "give a number, such as the days since some date"
    if dtype.startswith("Sparse"):
        return "make it dense, by .sparse.to_dense()"
    if dtype.startswith(("category", "str", "string", "large_string", "dictionary")):
        return (
            "number the groups from 0, with the same numbers in all partitions, or make a column "
            "of zeros and ones for each"
        )
    return 'make it a column of numbers, by .astype("float64")'


def _numbers(table: Any, name: str, plain: list[np.dtype]) -> Any:
    """Return a frame of pandas as numbers of one type: Dask would make objects of several."""
    common = np.result_type(*plain)
    for (column, values), dtype in zip(table.items(), plain, strict=True):
        if values.dtype != dtype and values.isna().any():
            raise ValueError(
                f"data= of {name!r}: the column {column!r}, of dtype {values.dtype}, has "
                f"{int(values.isna().sum())} missing values; drop or impute these rows"
            )
        if common.kind == "f" and dtype.itemsize == 8 and dtype.kind in "iu":
            wide = values.to_numpy(dtype=dtype).astype(np.float64)
            if np.abs(wide).max(initial=0.0) > EXACT_IN_FLOAT64:
                raise ValueError(
                    f"data= of {name!r}: the column {column!r} holds integers beyond 2^53, which "
                    "are none of the floats that stand beside it: put it into a container of its "
                    "own"
                )
    return table.set_axis(range(len(plain)), axis=1).astype(common)
