"""Machine code of graphs, found on disk without rewriting them: private parts of PyTensor's cache.

PyTensor keeps machine code under a key of the graph once it is rewritten, which takes longer than
all else if the machine code is there. Here the key is of the graph as it was written.
"""

import marshal
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from hashlib import sha256
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
from numba.core.errors import NumbaError
from pytensor import config
from pytensor.graph.basic import Constant
from pytensor.link.numba.dispatch.basic import numba_njit

from pymc_flymc.compat import private
from pymc_flymc.compat.numba import DISABLE_JIT
from pymc_flymc.compat.pytensor import cache_key, keep_as

_FOLDER: Path = private(
    "pytensor.link.numba.cache:NUMBA_CACHE_PATH", "graphs are rewritten in each process again"
)
#: Packages whose versions are part of the key, and those whose objects a name identifies.
VERSIONS = "pytensor", "pymc", "numba"
KNOWN = frozenset({*VERSIONS, "numpy", "builtins", "copyreg", "collections", "functools"})
#: Settings of PyTensor that change what it compiles.
SETTINGS = "floatX", "numba__fastmath", "optimizer_including", "optimizer_excluding"


class _Writer(pickle.Pickler):
    """Writes graphs; refuses those with functions or classes that their names do not identify."""

    def __init__(self, file: Any, version_of: Callable[[str], int]) -> None:
        super().__init__(file, protocol=5)
        self._version_of = version_of

    def reducer_override(self, obj: Any) -> Any:
        """Write this package's functions and classes by the version of their file."""
        if isinstance(obj, Constant):  # without its name, and what PyTensor has noted in it
            data: Any = obj.data
            if isinstance(data, np.ndarray):
                data = data.dtype.str, data.shape, data.tobytes()
            return list, (obj.type, data)
        if not isinstance(obj, type | FunctionType):
            return NotImplemented
        root = obj.__module__.partition(".")[0]
        if root == __name__.partition(".")[0]:
            place = f"{obj.__module__}.{obj.__qualname__}"
            cells = [cell.cell_contents for cell in getattr(obj, "__closure__", None) or ()]
            return list, (place, self._version_of(str(sys.modules[obj.__module__].__file__)), cells)
        if root not in KNOWN:
            raise pickle.PicklingError(f"{obj!r} may be another one in the next process")
        return NotImplemented


def key_of(graph: Any, version_of: Callable[[str], int], *also: Any) -> str | None:
    """Return a key of a graph as it was written, for any process, or None if it has none."""
    if DISABLE_JIT or not config.numba__cache:
        return None
    settings = [getattr(config, name) for name in SETTINGS]
    given = sys.implementation.cache_tag, *map(version, VERSIONS), *settings, *also
    written = BytesIO()
    try:
        _Writer(written, version_of).dump(graph)
    except (pickle.PicklingError, AttributeError, TypeError, RecursionError):
        return None
    return sha256(written.getvalue() + repr(given).encode()).hexdigest()


def load(key: str | None, arguments: Sequence[Any]) -> Any:
    """Return the machine code that was kept under a key, for numba types of arguments, or None."""
    if key is None:
        return None
    try:
        code, name, of_code = marshal.loads(_file(key).read_bytes())
        same = FunctionType(code, {}, name)
    except (OSError, ValueError, EOFError, TypeError):
        return None
    keep_as(same, of_code)
    found: Any = numba_njit(same, final_function=True, cache=True, nogil=True, forceinline=True)
    try:
        found.compile(tuple(arguments))
    except NumbaError:  # without machine code on disk: the names in the code are unknown
        return None
    return found


def keep(key: str | None, function: Any) -> None:
    """Note under a key where PyTensor keeps the machine code of a function, see `unwrapped`."""
    of_code = cache_key(function)
    if key is None or of_code is None:
        return
    source, path = function.py_func, _file(key)
    own = path.with_suffix(f".{os.getpid()}")
    try:
        own.write_bytes(marshal.dumps((source.__code__, source.__name__, of_code)))
        own.replace(path)
    except OSError:  # a full disk: the graph is rewritten the next time
        return


def _file(key: str) -> Path:
    return _FOLDER / f"{key}.graph"
