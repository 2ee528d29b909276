"""The setting for rows that are out of core: ``FireflyMH(data=...)``."""

import itertools
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from pymc.model.core import Model
from pytensor.compile.sharedvalue import SharedVariable

from pymc_flymc.errors import check
from pymc_flymc.out_of_core.arrays import check_repeatable, is_dask
from pymc_flymc.out_of_core.columns import ArrayColumn, Column, as_column
from pymc_flymc.out_of_core.frames import Labels, of_fragments
from pymc_flymc.out_of_core.source import PARTITION, LocalSource, RowSource
from pymc_flymc.reporting import log, number_of

#: Least number of partitions of arrays that a cluster reads.
PARTS = 16
#: If a Dask array has more chunks than this, neighbouring chunks are merged.
MANY = 256
#: What a container's rows may be, for messages.
KINDS = (
    "an array of numbers with a row for each row of the data: of NumPy (a memory map, too), Zarr "
    "or Dask, or columns of a data frame"
)


def of_table(table: Any, model: Model) -> Any:
    """Return the columns of one table by the data containers of a model, in a common row order.

    A container of one column takes the column of its own name. A container of several takes those
    that the coordinates of its second dimension name.

    Parameters
    ----------
    table : data frame, Arrow data set or path
        Of pandas, Polars, Arrow or Dask; the path of Parquet files, which Dask reads. Anything else
        is returned as it is.

    Raises
    ------
    ValueError
        If no container takes a column, or if the table is lazy.
    """
    if isinstance(table, str | Path):
        check(
            find_spec("dask") is not None, "data", "a dict of arrays where Dask is missing", table
        )
        import dask.dataframe

        table = dask.dataframe.read_parquet(table)
    elif hasattr(table, "get_fragments"):
        table = of_fragments(table)
    elif hasattr(table, "to_pandas") and hasattr(table, "column_names"):  # of Arrow
        table = table.to_pandas()
    if hasattr(table, "collect_schema") and not hasattr(table, "to_pandas"):  # of Polars
        raise ValueError(
            "data= is a lazy frame, whose rows are not there: give frame.collect(), or the path of "
            "Parquet files, of which a part is read at a time"
        )
    if not hasattr(table, "columns"):
        return table
    there, found = set(table.columns), {}
    for name in (str(variable.name) for variable in model.data_vars):
        dims = model.named_vars_to_dims.get(name, ())
        columns = list(model.coords.get(dims[1]) or ()) if len(dims) == 2 else []
        if name in there:
            found[name] = table[name]
        elif columns and there.issuperset(columns):
            found[name] = table[columns]
    if not found:
        raise ValueError(
            f"none of the table's columns, {', '.join(map(repr, table.columns))}, is the name of a "
            'data container of the model: pm.Data("y", ...); or give a dict of columns'
        )
    log.info(f"columns of data= fill {', '.join(map(repr, found))}")
    return found


def source_of(data: object, client: Any = None, labels: Labels | None = None) -> RowSource:
    """Return the source of all rows of some data containers.

    Parameters
    ----------
    data : mapping
        From names of containers to arrays.
    client : distributed.Client or str, optional
        Client of a Dask cluster, or its scheduler's address, for arrays of any kind: its workers
        open files themselves. By default the client that is open, if the arrays are Dask's.
    labels : Labels, optional
        Of the groups that columns of tables hold.

    Raises
    ------
    ValueError
        If it is something else, if lengths differ, or if arrays do not hold numbers.
    """
    good = isinstance(data, Mapping) and bool(data) and all(isinstance(k, str) for k in data)
    check(good, "data", 'a dict of arrays by names of pm.Data containers: {"X": X, "y": y}', data)
    assert isinstance(data, Mapping)
    columns: dict[str, Column] = {}
    for name, values in data.items():
        column = as_column(name, values, labels)
        check(column is not None, f"data= of {name!r}", KINDS, values)
        assert column is not None
        columns[name] = column
    lengths = {name: column.shape[0] for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{n:,} of {name!r}" for name, n in lengths.items())
        raise ValueError(f"data= has different numbers of rows: {listed}")
    if not next(iter(lengths.values())):
        raise ValueError("data= has no rows")
    of_dask = {n: c.array for n, c in columns.items() if isinstance(c, ArrayColumn)}
    of_dask = {name: array for name, array in of_dask.items() if is_dask(array)}
    owned = isinstance(client, str)
    client = _client(client, bool(of_dask))
    if client is None:
        for name, array in of_dask.items():
            check_repeatable(name, array)
        return LocalSource(columns)
    from pymc_flymc.out_of_core.cluster import ClusterSource

    first = next(iter(of_dask.values()), None)
    chunks = _equal_parts(columns) if first is None else merged(first.chunks[0])
    blocks = {name: _as_dask(column, chunks) for name, column in columns.items()}
    return ClusterSource(columns, blocks, client, owned)


def check_head(source: RowSource, model: Model) -> None:
    """Refuse a model that is not written on the first rows of a source.

    Containers and data that are not of the same kind of rows are reported elsewhere.

    Raises
    ------
    ValueError
        It names the container, and the first row that differs.
    """
    containers = [v for v in model.data_vars if v.name in source.names]
    own = {
        str(v.name): np.asarray(v.get_value(borrow=True))
        for v in containers
        if isinstance(v, SharedVariable) and v.type.ndim
    }
    first = source.head(max((len(rows) for rows in own.values()), default=0))
    for name, rows in own.items():
        found = first[name][: len(rows)]
        if found.shape[1:] != rows.shape[1:]:
            continue
        bad = np.flatnonzero(_differ(found, rows[: len(found)]).reshape(len(found), -1).any(axis=1))
        if len(bad):
            raise ValueError(
                f"data= of {name!r}: row {bad[0]:,} is {found[bad[0]]}, and {rows[bad[0]]} in the "
                "model's container. Model and data would disagree on what a row, a column or a "
                f"group is. Write the model on the first rows of data=, pm.Data({name!r}, "
                f"rows[:{len(rows)}]); there, and in arrays, groups are places from 0, and in a "
                "table the coordinates of the effects"
            )
        if len(found) < len(rows):
            raise ValueError(
                f"data= of {name!r} has {number_of(len(found), 'row')}, and the model's container "
                f"{len(rows):,}: write the model on the first rows of data="
            )


def _differ(found: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return which numbers differ by more than rounding, of those that are finite."""
    if own.dtype.kind != "f":
        return found != own
    kinds = [each.dtype for each in (found, own) if each.dtype.kind == "f"]
    rounding = max(float(np.finfo(kind).eps) for kind in kinds) ** 0.5
    size = np.abs(own).max(axis=0, initial=0.0)
    with np.errstate(invalid="ignore"):
        same = np.abs(found.astype(np.float64) - own) <= rounding * size
    return ~same & np.isfinite(found)


def _client(client: Any, has_dask: bool) -> Any:
    """Return the client of a Dask cluster, None to compute in this process."""
    if client is None and not has_dask:
        return None
    try:
        import distributed
    except ImportError:
        check(client is None, "client", "None without Dask's distributed scheduler", client)
        return None
    if isinstance(client, str):
        client = distributed.Client(client, set_as_default=False)
    if client is None:
        with suppress(ValueError):  # none is open
            return distributed.default_client()
        return None
    check(isinstance(client, distributed.Client), "client", "a dask.distributed.Client", client)
    return client


def merged(chunks: tuple[int, ...]) -> tuple[int, ...]:
    """Return lengths of partitions: those of chunks, or of neighbouring chunks if there are many.

    They depend on the chunks only, because draws depend on them.
    """
    if len(chunks) <= MANY:
        return chunks
    enough, lengths = min(PARTITION, -(-sum(chunks) // MANY)), [0]
    for n in chunks:
        if lengths[-1] and lengths[-1] + n > enough:
            lengths.append(0)
        lengths[-1] += n
    said = f"the {len(chunks):,} chunks of data= are read as {number_of(len(lengths), 'partition')}"
    if len(lengths) > 2 * MANY:
        said += ", each a task of about 25 ms of processor time in every pass and superbatch: "
        said += "larger chunks would be faster"
    log.info(said)
    return tuple(lengths)


def _equal_parts(columns: Mapping[str, Column]) -> tuple[int, ...]:
    """Return the lengths of partitions if no array is Dask's: the same for any cluster."""
    n_rows = next(iter(columns.values())).shape[0]
    chunk = max(column.chunk for column in columns.values())
    size = -(-min(PARTITION, -(-n_rows // PARTS)) // chunk) * chunk
    return tuple(min(size, n_rows - start) for start in range(0, n_rows, size))


def _as_dask(column: Column, chunks: tuple[int, ...]) -> Any:
    """Return a column as a Dask array with these chunks of rows."""
    import dask.array

    array: Any = getattr(column, "array", None)
    if is_dask(array):
        return array.rechunk({0: chunks})
    row, read = column.shape[1:], dask.delayed(column.read)
    if isinstance(array, np.ndarray):
        return dask.array.from_array(array, chunks=(chunks, *row))
    blocks = [
        dask.array.from_delayed(read(slice(a, b)), (b - a, *row), column.dtype)
        for a, b in itertools.pairwise(itertools.accumulate(chunks, initial=0))
    ]
    return dask.array.concatenate(blocks)
