"""Arrays with an element for each row: one copy of the data for all chains."""

import contextlib
import errno
import os
import tempfile
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pymc_flymc.bounds import Bound, ExpansionBound
from pymc_flymc.graphs.content_hash import owner_of
from pymc_flymc.kernels.dark_rates import total_rates
from pymc_flymc.kernels.fresh_brightness import HEAVY, AliasTables, alias_table
from pymc_flymc.kernels.layout import ROW
from pymc_flymc.kernels.native import map_fields, read_only
from pymc_flymc.kernels.rows import NO_COLUMNS, Rows, RowsOfColumns, SeveralRows, parts_of
from pymc_flymc.regression.design import Design, SparseColumns
from pymc_flymc.reporting import doing
from pymc_flymc.target.resampling import Levels


class SharedArray:
    """A read-only array whose pickle refers to one file on disk: its own, if it is a memory map."""

    # The file is written when the first pickle is made, and removed with the object that made it.
    # An array that is not C-contiguous comes back as a C-contiguous copy.

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self._file = _file_behind(array)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickle by reference to a file."""
        if self._file is None:
            path = _write(self.array)
            weakref.finalize(self, _remove, path, os.getpid())
            self._file = (path, 0)
        return _attach, (*self._file, self.array.dtype.str, self.array.shape)


def _write(array: np.ndarray) -> str:
    """Write an array to a new temporary file, and return its path; a failure leaves no file."""
    path = None
    try:
        handle, path = tempfile.mkstemp(prefix="pymc-flymc-", suffix=".bin")
        with os.fdopen(handle, "wb") as file:
            # (`tofile` does not report what no longer fits when it closes the file.)
            file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    except OSError as error:
        if path is not None:
            _remove(path, os.getpid())
        raise OSError(
            error.errno or errno.ENOSPC,
            f"chains in processes of their own share rows as temporary files, and one of "
            f"{array.nbytes:,} bytes could not be written ({error}). Let the environment variable "
            "TMPDIR name a folder with room, or sample with cores=1",
        ) from error
    return path


def _file_behind(array: np.ndarray) -> tuple[str, int] | None:
    """Return the file and the position in it that an array maps, or None if it is in memory."""
    root = owner_of(array)
    # A copy-on-write map ("c") may differ from its file.
    if not isinstance(root, np.memmap) or root.filename is None or root.mode == "c":
        return None
    # The other process reads consecutive numbers, in the order of rows.
    if not array.flags.c_contiguous:
        return None
    return os.fspath(root.filename), int(root.offset) + _address(array) - _address(root)


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def _attach(path: str, offset: int, dtype: str, shape: tuple[int, ...]) -> SharedArray:
    if int(np.prod(shape)) == 0:
        return SharedArray(np.empty(shape, dtype))
    return SharedArray(np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape))


def _remove(path: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked child inherits the finalizer, but not the file
        with contextlib.suppress(OSError):
            os.remove(path)


_SPARSE = ("codes", "values", "indptr", "indices", "numbers")
_ROWS = ("X", "offset", "constants", *_SPARSE)


class Data:
    """Row-sized arrays. Under forkserver and spawn they are pickled as the names of files.

    `rows` are designs (the user's own memory if possible) with the constants of the bounds,
    `levels` the proposal probabilities of implicit resampling, `alias` the tables of kernels that
    draw fresh brightness, `exact` copies of the rows that the surrogate kernel treats exactly, and
    `columns` the rows of each sparse column where scales move together with brightness.
    """

    def __init__(
        self,
        rows: Rows | SeveralRows,
        levels: Levels | None,
        alias: AliasTables | None = None,
        exact: Rows | None = None,
        columns: RowsOfColumns = NO_COLUMNS,
    ) -> None:
        self.rows = rows
        self.levels = levels
        self.alias = alias
        self.exact = exact
        self.columns = columns
        self._shared: Any = None

    @property
    def parts(self) -> tuple[Rows, ...]:
        """Return the rows of each likelihood."""
        return parts_of(self.rows)

    def __getstate__(self) -> Any:
        """Return the state with read-only arrays as references to files, see `SharedArray`."""
        if self._shared is None:
            records = self.rows, self.levels, self.alias, self.exact, self.columns
            self._shared = map_fields(records, _as_reference)
        return self._shared

    def __setstate__(self, shared: Any) -> None:
        self._shared = shared
        self.rows, self.levels, self.alias, self.exact, self.columns = map_fields(shared, _as_array)


def _as_reference(field: Any) -> Any:
    is_read_only = isinstance(field, np.ndarray) and not field.flags.writeable
    return SharedArray(field) if is_read_only else field


def _as_array(field: Any) -> Any:
    return read_only(field.array) if isinstance(field, SharedArray) else field


def combine_rows(rows: Sequence[Rows], lengths: Sequence[int]) -> Rows | SeveralRows:
    """Return one likelihood's rows as they are, or the rows of several together.

    The lengths are numbers of coefficients, including the numbers that rows share.
    """
    if len(rows) == 1:
        return rows[0]
    first = np.cumsum([0, *(len(each.X) for each in rows)])
    numbered = [each._replace(first=int(n)) for each, n in zip(rows, first[:-1], strict=True)]
    return SeveralRows(tuple(numbered), np.cumsum([0, *lengths]))


def make_rows(design: Design, constants: np.ndarray, bound: Bound | None = None) -> Rows:
    """Return what kernels see of a design and the rows' constants of a bound, without copies."""
    rows = Rows(
        read_only(design.X),
        read_only(design.offset),
        int(design.intercept),
        read_only(constants),
        n_sparse=design.n_sparse,
        n_nuisances=design.n_nuisances,
    )
    arrays: dict[str, Any] = {n: read_only(getattr(design.sparse, n)) for n in _SPARSE}
    rows = rows._replace(**arrays)
    if not isinstance(bound, ExpansionBound):
        return rows
    rows = rows._replace(n_sums=bound.n_sums)
    return rows._replace(totals=read_only(total_rates(rows, bound.n_shared)))


def design_of(rows: Rows) -> Design:
    """Return the design that rows were made of, in the memory of these."""
    sparse = SparseColumns(rows.n_sparse, *(getattr(rows, name) for name in _SPARSE))
    return Design(rows.X, rows.offset, bool(rows.intercept), rows.n_nuisances, sparse)


def row_arrays(rows: Rows) -> list[np.ndarray]:
    """Return the arrays of what kernels read that have an element for each row or entry."""
    return [getattr(rows, name) for name in _ROWS]


def some_rows(rows: Rows, index: np.ndarray) -> Rows:
    """Return copies of some rows, numbered in their order; all else is as for all rows."""
    copies = make_rows(design_of(rows).rows(index), rows.constants[index])
    return copies._replace(n_sums=rows.n_sums, totals=rows.totals)


@doing("preparing to draw from all rows")
def make_alias_tables(constants: np.ndarray, bright: np.ndarray) -> AliasTables:
    """Return the joint kernel's tables from the constants and the expected brightness of rows."""
    n_rows = len(bright)
    light = bright < HEAVY
    total = np.empty(2)
    parts: list[np.ndarray] = []
    for place in (ROW.near, ROW.beyond):
        weights = np.where(light, constants[:, place], 0.0)
        total[place] = weights.sum()
        threshold, alias = np.empty(n_rows), np.empty(n_rows, np.int32)
        alias_table(weights, threshold, alias)
        parts += [read_only(threshold), read_only(alias)]
    heavy = np.flatnonzero(~light).astype(np.int32)
    fields: Any = [read_only(heavy), total, *parts, np.empty(0, np.int32)]
    return AliasTables(*fields)
