"""Columns of data frames, of pandas or Dask, as arrays of numbers, and labels of groups."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from pymc.model.core import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import toposort
from pytensor.scalar.basic import Cast
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor, indices_from_subtensor

from pymc_flymc.compat.dask import without_rows
from pymc_flymc.reporting import log, number_of

#: A container that is an index as a whole, or one of its columns.
Index = tuple[str, int | None]


@dataclass(frozen=True)
class Labels:
    """What the columns of tables may hold in place of places from 0.

    Attributes
    ----------
    indexed : mapping
        From containers that index effects to the coordinates of these.
    coords : mapping
        All coordinates by their names: a column of strings or categories may have such a name.
    own_codes : bool
        Categories without coordinates may be read as their own codes: the rows will be compared
        with those in the model.
    """

    indexed: Mapping[Index, Sequence[Any]] = field(default_factory=dict)
    coords: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    own_codes: bool = True

    def of_index(self, container: str, place: int) -> Sequence[Any] | None:
        """Return the coordinates that a column of a container indexes."""
        return self.indexed.get((container, place), self.indexed.get((container, None)))

    def of_name(self, container: str, column: Any) -> Sequence[Any] | None:
        """Return the coordinates that have the name of a container or of a column."""
        return self.coords.get(container, self.coords.get(str(column)))


def labels_of(model: Model, graphs: Iterable[Variable] = (), own_codes: bool = True) -> Labels:
    """Return the labels of groups that a model has, or further graphs of its variables.

    In ``pm.Normal("effect", dims="carrier")[number]`` the container `number` holds places among the
    coordinates of `carrier`.

    Raises
    ------
    ValueError
        If a container indexes effects of different coordinates.
    """
    coords = {name: list(each) for name, each in model.coords.items() if each is not None}
    found: dict[Index, str] = {}
    for node in toposort([*model.basic_RVs, *model.potentials, *model.deterministics, *graphs]):
        if not isinstance(node.op, AdvancedSubtensor):
            continue
        axes = _axes(node.inputs[0], model)
        for dim, index in zip(
            axes, indices_from_subtensor(node.inputs[1:], node.op.idx_list), strict=False
        ):
            of = _container(index)
            if of is None or dim is None or dim not in coords:
                continue
            if coords[found.setdefault(of, dim)] != coords[dim]:
                raise ValueError(
                    f"the container {of[0]!r} indexes effects of the dimensions {found[of]!r} and "
                    f"{dim!r}, which have different coordinates: which group a row is of would "
                    "depend on the effect. Give both effects the same dimension, or write a "
                    "container for each"
                )
    return Labels({of: coords[dim] for of, dim in found.items()}, coords, own_codes)


def _axes(graph: Any, model: Model) -> tuple[str | None, ...]:
    """Return the dimension of each axis of effects, as far as the model names them."""
    dims = model.named_vars_to_dims.get(str(graph.name))
    if dims is not None:
        return dims
    axes: list[str | None] = [None] * graph.ndim
    op = None if graph.owner is None else graph.owner.op
    if isinstance(op, DimShuffle):
        of_input = _axes(graph.owner.inputs[0], model)
        return tuple(None if each == "x" else of_input[each] for each in op.new_order)
    if isinstance(op, Elemwise):
        for part in graph.owner.inputs:
            for i, dim in enumerate(_axes(part, model)):
                axes[i] = axes[i] or (None if part.type.broadcastable[i] else dim)
    return tuple(axes)


def _container(index: Any) -> Index | None:
    """Return the container, and its column, whose values are an index, if it is one."""
    while (node := getattr(index, "owner", None)) is not None:
        if isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, Cast):
            (index,) = node.inputs
        elif isinstance(node.op, Subtensor) and isinstance(node.inputs[0], SharedVariable):
            at = indices_from_subtensor(node.inputs[1:], node.op.idx_list)
            if len(at) != 2 or at[0] != slice(None) or not isinstance(at[1], Constant):
                return None
            container = node.inputs[0]
            return str(container.name), int(at[1].data) % container.get_value().shape[1]
        else:
            return None
    return (str(index.name), None) if isinstance(index, SharedVariable) else None


#: Integers beyond it may have no exact float64.
EXACT_IN_FLOAT64 = 1 << 53
#: Number of labels that the log names.
SHOWN = 5
#: How names of types of strings begin.
STRINGS = ("str", "string", "large_string", "dictionary", "object")


class Plain(NamedTuple):
    """How a column is read as numbers: by its NumPy type, or as places of its values in labels."""

    dtype: np.dtype
    labels: Sequence[Any] | None = None


def is_frame(values: Any) -> bool:
    """Return whether this is a data frame, or a column of one: of pandas, of Dask."""
    return hasattr(values, "to_dask_array") or hasattr(values, "iloc")


def array_of_frame(name: str, frame: Any, labels: Labels) -> Any:
    """Return columns as an array of NumPy, or as one of Dask with chunks of known lengths.

    Parameters
    ----------
    name : str
        Of the container, for messages.
    frame : DataFrame or Series
    labels : Labels
        A column of a container that indexes effects with coordinates is read as the places of its
        values among these, whatever their type is. So are strings and categories by coordinates of
        their name. Other categories are read as their own codes.

    Raises
    ------
    ValueError
        If a column does not hold numbers, has missing values of a nullable type, or holds what is
        no coordinate. The message names the column and says what to do.
    """
    table = frame if frame.ndim > 1 else frame.to_frame(name if frame.name is None else frame.name)
    if len(set(table.columns)) < len(table.columns):
        raise ValueError(
            f"data= of {name!r}: two of the columns {', '.join(map(repr, table.columns))} have the "
            "same name: rename one of them"
        )
    plain = [_plain(name, i, table[column], labels) for i, column in enumerate(table.columns)]
    if any(each.labels for each in plain) and any(each.dtype.kind == "f" for each in plain):
        raise ValueError(
            f"data= of {name!r}: numbers of groups stand beside measurements, in the columns "
            f"{', '.join(map(repr, table.columns))}: put groups into a container of their own"
        )
    if hasattr(table, "to_dask_array"):
        meta = _numbers(without_rows(table), name, plain)
        # Not earlier: Dask reads several files at a time if it needs only some of their columns,
        # and it decides then which it needs.
        table = table.map_partitions(_numbers, name, plain, meta=meta)
        array = table.to_dask_array().compute_chunk_sizes()
    else:
        array = np.ascontiguousarray(_numbers(table, name, plain).to_numpy())
    return array[:, 0] if frame.ndim == 1 else array


def _plain(name: str, place: int, series: Any, known: Labels) -> Plain:
    """Return what a container's column is as numbers, given the labels of the model."""
    column, dtype, kind = series.name, series.dtype, str(series.dtype)
    plain, labels = getattr(dtype, "numpy_dtype", dtype), known.of_index(name, place)
    is_number = isinstance(plain, np.dtype) and plain.kind in "fiub"
    if is_number and labels is None:
        return Plain(plain)
    if labels is None:
        labels = known.of_name(name, column)
    if labels is None and kind == "category" and not known.own_codes:
        raise ValueError(
            f"data= of {name!r}: the column {column!r} holds categories, whose codes may be of "
            "other groups in another table, and the model has no coordinates for them: "
            f"{_way_out(kind)}; or give the places of the effects, as an array"
        )
    # Dask may not know the categories before it reads.
    if labels is None and kind == "category" and getattr(series.cat, "known", True):
        labels = list(dtype.categories)
    if labels is None or not (is_number or kind.startswith(("category", *STRINGS))):
        raise ValueError(
            f"data= of {name!r}: the column {column!r} is of dtype {dtype}, not numbers: "
            f"{_way_out(kind)}"
        )
    shown = [f"{i} = {label!r}" for i, label in enumerate(labels[:SHOWN])]
    shown += ["..."] if len(labels) > SHOWN else []
    log.info(f"{number_of(len(labels), 'group')} of {column!r}: {', '.join(shown)}")
    return Plain(np.dtype(np.int32), labels)


def _way_out(dtype: str) -> str:
    if dtype.startswith(("datetime", "timedelta", "period", "timestamp", "date", "duration")):
        return "give a number, such as the days since some date"
    if dtype.startswith("Sparse"):
        return "make it dense, by .sparse.to_dense()"
    if dtype.startswith(("category", *STRINGS[:-1])):
        return (
            "give the effects of its groups a dimension with coordinates, as in "
            "pm.Model(coords={'group': [...]}) and pm.Normal('effect', dims='group'), by which "
            "they are numbered from 0, or make a column of zeros and ones for each"
        )
    return 'make it a column of numbers, by .astype("float64")'


def _numbers(table: Any, name: str, plain: list[Plain]) -> Any:
    """Return a pandas frame as numbers of one type: several types would become objects in Dask."""
    common = np.result_type(*(each.dtype for each in plain))
    numbers = {}
    for i, ((column, values), (dtype, labels)) in enumerate(zip(table.items(), plain, strict=True)):
        if values.dtype != dtype and values.isna().any():
            raise ValueError(
                f"data= of {name!r}: the column {column!r}, of dtype {values.dtype}, has "
                f"{number_of(int(values.isna().sum()), 'missing value')}; drop or impute these rows"
            )
        if labels is not None:
            numbers[i] = _places(values, labels, name, column)
            continue
        numbers[i] = values.astype(common)
        if common.kind == "f" and dtype.itemsize == 8 and dtype.kind in "iu":
            wide = values.to_numpy(dtype=dtype).astype(np.float64)
            if np.abs(wide).max(initial=0.0) > EXACT_IN_FLOAT64:
                raise ValueError(
                    f"data= of {name!r}: the column {column!r} holds integers beyond 2^53, which "
                    "the floats of the other columns cannot represent: put it into a container of "
                    "its own"
                )
    return type(table)(numbers, index=table.index).astype(common)


def _places(values: Any, labels: Sequence[Any], name: str, column: Any) -> np.ndarray:
    """Return the places of a column's values among labels.

    Each file and partition has categories of its own: their codes cannot be compared. Values are
    compared as Python compares them: 2, 2.0 and the nullable 2 are the same, and large integers are
    not rounded.
    """
    import pandas

    places = {label: i for i, label in enumerate(pandas.Index(labels).tolist())}
    if len(places) < len(labels):
        raise ValueError(f"data= of {name!r}: the labels of {column!r} are not all different")
    if isinstance(values.dtype, pandas.CategoricalDtype):
        codes, own = values.cat.codes.to_numpy(), values.cat.categories
    else:
        codes, own = pandas.factorize(values)
    found = np.array([places.get(value, -1) for value in own.tolist()], np.int32)[codes]
    if (found < 0).any():
        (value,) = values.iloc[[int(np.argmin(found))]].tolist()
        raise ValueError(
            f"data= of {name!r}: the column {column!r} holds {value!r}, which is not one of the "
            f"{len(labels):,} groups that the model's coordinate, or the column's type, has. In a "
            "table groups are read by their coordinates; give their places from 0 as an array, by "
            ".to_numpy(), or .to_dask_array(lengths=True)"
        )
    return found


def of_fragments(dataset: Any) -> Any:
    """Return a data set of Arrow's as a data frame of Dask's: a partition for each file."""
    from dask.dataframe import from_map

    meta = dataset.schema.empty_table().to_pandas()
    return from_map(_read_fragment, list(dataset.get_fragments()), schema=dataset.schema, meta=meta)


def _read_fragment(fragment: Any, schema: Any, columns: Sequence[str] | None = None) -> Any:
    # The data set's schema has columns for folders such as "year=2024"; a fragment's own has not.
    return fragment.to_table(schema=schema, columns=columns).to_pandas()
