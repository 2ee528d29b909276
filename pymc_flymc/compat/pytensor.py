"""Private parts of PyTensor: its cache of compiled functions, and rewrites by their names."""

from functools import cache
from hashlib import sha256
from types import FunctionType
from typing import Any

from pytensor.compile.mode import optdb
from pytensor.graph.rewriting.db import RewriteDatabase
from pytensor.link.numba.dispatch.basic import numba_njit

from pymc_flymc.compat import private, require

#: A graph that can be compared with others, and be a key.
FrozenFunctionGraph = private(
    "pytensor.graph.fg:FrozenFunctionGraph", "equal graphs are compiled once for each model"
)
_KEYS = private(
    "pytensor.link.numba.cache:CACHED_SRC_FUNCTIONS", "models are compiled in each process again"
)
inline_ofg_node = private(
    "pytensor.compile.rewriting:inline_ofg_node", "graphs within operations are not read"
)

_native = "operations of this package run in Python"
register_funcify_default_op_cache_key = private(
    "pytensor.link.numba.dispatch.basic:register_funcify_default_op_cache_key", _native
)
register_scalar_funcify = private(
    "pytensor.link.numba.dispatch.scalar:register_scalar_funcify", _native
)
scalar_op_cache_key = private("pytensor.link.numba.dispatch.scalar:scalar_op_cache_key", _native)


def rewrites(*names: str) -> tuple[str, ...]:
    """Return names of rewrites; raise an ImportError for unknown ones, which PyTensor ignores."""
    for name in names:
        require(
            name in _known(),
            f"PyTensor's rewrite {name!r}",
            "compiled densities would be others than PyMC's, or as slow as to be of no use",
        )
    return names


@cache
def _known() -> frozenset[str]:
    """Return the names of all rewrites that are registered."""
    found: set[str] = set()

    def add(database: RewriteDatabase) -> None:
        for name, those in database.__db__.items():
            found.add(name)
            for each in those:
                if isinstance(each, RewriteDatabase):
                    add(each)

    add(optdb)
    return frozenset(found)


def cache_key(function: Any) -> str | None:
    """Return the key under which PyTensor keeps a compiled function, or None if numba is off."""
    source = getattr(function, "py_func", None)
    return None if source is None else _KEYS.get(source)


def keep_as(source: FunctionType, key: str) -> None:
    """Make PyTensor keep on disk what numba compiles from a function, under a key."""
    _KEYS[source] = key


def unwrapped(function: Any, environment: str) -> Any:
    """Return the machine code of a compiled graph without its wrapper, kept on disk like the graph.

    The wrapper only calls it, for PyTensor's cache, and is compiled with it: LLVM would optimise
    the whole graph twice. Several threads may call the machine code at the same time: it does not
    hold Python's lock, and keeps no arguments as functions of PyTensor do. `environment` is what
    compiled code depends on in addition to the graph.
    """
    jitted: Any = function.vm.jit_fn
    key = cache_key(jitted)
    if key is None:
        return jitted
    outer = jitted.py_func
    require(
        "jitable_func" in outer.__globals__,
        "the function in what PyTensor compiles with numba",
        "models take twice as long to compile",
    )
    graph = outer.__globals__["jitable_func"].py_func
    # Numba's file has the name of the source file, which PyTensor invents again in each process.
    code = graph.__code__.replace(co_filename=outer.__code__.co_filename)
    same = FunctionType(code, graph.__globals__, graph.__name__)
    keep_as(same, sha256(f"{key}_inline_{environment}".encode()).hexdigest())
    # A loop over rows then computes once what depends on no row: LLVM leaves graphs of more than
    # about twenty operations as calls, and evaluates their exponentials again and again.
    return numba_njit(same, final_function=True, cache=True, nogil=True, forceinline=True)
