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
    plain = _plain_types(name, frame)
    if not hasattr(frame, "to_dask_array"):
        return _numbers(frame, name, plain)
    frame = frame.map_partitions(_numbers, name, plain, as_frame=True, meta=_meta(frame, plain))
    # Not before: Dask reads several files at a time where it reads some of their columns only, and
    # it is then that it decides which.
    return frame.to_dask_array().compute_chunk_sizes()


def _columns(frame: Any) -> list[tuple[Any, Any]]:
    """Return names and types of columns."""
    if frame.ndim == 1:
        return [(frame.name, frame.dtype)]
    return list(zip(frame.columns, frame.dtypes, strict=True))


def _plain_types(name: str, frame: Any) -> list[np.dtype]:
    """Return the types of NumPy that columns have, or that are those of nullable ones."""
    found = []
    for column, dtype in _columns(frame):
        plain = getattr(dtype, "numpy_dtype", dtype)
        if not isinstance(plain, np.dtype) or plain.kind not in "fiub":
            raise ValueError(
                f"data= of {name!r}: the column {column!r} is of dtype {dtype}, not numbers: "
                f"{_way_out(str(dtype))}"
            )
        found.append(plain)
    return found


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


def _numbers(frame: Any, name: str, plain: list[np.dtype], as_frame: bool = False) -> Any:
    """Return rows of columns as numbers of plain types."""
    columns = [frame] if frame.ndim == 1 else [frame.iloc[:, i] for i in range(frame.shape[1])]
    # Of several columns one type: Dask would make objects of numbers beside truth values.
    common, made = np.result_type(*plain), []
    for column, dtype in zip(columns, plain, strict=True):
        if column.dtype != dtype and column.isna().any():
            raise ValueError(
                f"data= of {name!r}: the column {column.name!r}, of dtype {column.dtype}, has "
                f"{int(column.isna().sum())} missing values; drop or impute these rows"
            )
        numbers = column.to_numpy(dtype=dtype)
        if common.kind == "f" and dtype.itemsize == 8 and dtype.kind in "iu":
            wide = numbers.astype(np.float64)
            if np.abs(wide).max(initial=0.0) > EXACT_IN_FLOAT64:
                raise ValueError(
                    f"data= of {name!r}: the column {column.name!r} holds integers beyond 2^53, "
                    "which are none of the floats that stand beside it: put it into a container "
                    "of its own"
                )
        made.append(numbers.astype(common, copy=False))
    if as_frame:
        places = frame if frame.ndim == 1 else frame.set_axis(range(len(plain)), axis=1)
        return places.astype(common)
    return made[0] if frame.ndim == 1 else np.stack(made, axis=1)


def _meta(frame: Any, plain: list[np.dtype]) -> Any:
    """Return the same columns, of plain types and without rows."""
    return _numbers(without_rows(frame), "", plain, as_frame=True)
