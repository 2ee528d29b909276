"""Records that are arguments of kernels: named tuples whose annotations give the numba types.

A field is an `int`, a record, or `Annotated` with its numba type. If the type depends on the data,
the annotation is a function that returns it for the arguments of `record_type`.
"""

from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import numpy as np
from numba import types


def vector(dtype: types.Type = types.float64) -> types.Array:
    """Return the numba type of a C-contiguous vector."""
    return types.Array(dtype, 1, "C")


def unwritten(dtype: types.Type = types.float64, ndim: int = 1) -> types.Array:
    """Return the numba type of a C-contiguous array that kernels cannot write, see `read_only`."""
    return types.Array(dtype, ndim, "C", readonly=True)


matrix = types.Array(types.float64, 2, "C")

Vector = Annotated[np.ndarray, vector()]
IntVector = Annotated[np.ndarray, vector(types.int64)]
Int32Vector = Annotated[np.ndarray, vector(types.int32)]
Matrix = Annotated[np.ndarray, matrix]


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a view of a C-contiguous array that kernels cannot write, by its numba type."""
    view = np.ascontiguousarray(array).view(np.ndarray)
    view.flags.writeable = False
    return view


def zeros(length: int, *names: str) -> dict[str, np.ndarray]:
    """Return a new vector of zeros for each of a record's fields."""
    return {name: np.zeros(length) for name in names}


def map_fields(record: Any, function: Callable[[Any], Any]) -> Any:
    """Return a record, or a tuple of records, with a function applied to each field within."""
    if not isinstance(record, tuple):
        return function(record)
    mapped = [map_fields(each, function) for each in record]
    return tuple(mapped) if type(record) is tuple else type(record)(*mapped)


def record_type(cls: type, *given: Any) -> types.Type:
    """Return the numba type of a record, given the dtype and the number of designs if needed."""
    hints = get_type_hints(cls, include_extras=True)
    members = [_type_of(hint, given) for hint in hints.values()]
    if len(set(members)) == 1:  # numba has a special type for equal members
        return types.NamedUniTuple(members[0], len(members), cls)
    return types.NamedTuple(members, cls)


def _type_of(hint: Any, given: tuple[Any, ...]) -> types.Type:
    if hint is int:
        return types.int64
    if isinstance(hint, type):
        return record_type(hint, *given)
    (annotation,) = hint.__metadata__
    return annotation if isinstance(annotation, types.Type) else annotation(*given)
