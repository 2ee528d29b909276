"""Memoised results of graphs: each graph is compiled once in a process, for any model.

Machine code is found on disk by the graph as well, without rewriting it.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import graph_inputs

from pymc_flymc.compat.pytensor import FrozenFunctionGraph
from pymc_flymc.compat.pytensor_cache import keep, key_of, load
from pymc_flymc.graphs.content_hash import arrays_of, content_hash
from pymc_flymc.kernels.native import environment, version_of
from pymc_flymc.reporting import COMPILING, doing
from pymc_flymc.threads import compiling_lock

#: Number of results that are kept, enough for about ten models; the least recently used goes first.
KEPT = 200
#: A graph whose constants have more bytes is not kept: they would outlive the model.
LARGE = 1 << 20

_kept: OrderedDict[Hashable, Any] = OrderedDict()


@compiling_lock.held()
def memoised[T](
    make: Callable[..., T],
    *arguments: Any,
    inputs: Sequence[Variable],
    outputs: Sequence[Variable],
    also: Hashable = None,
) -> T:
    """Return ``make(*arguments)``, or what it returned for an equal graph, and `also`, before."""
    # Row factors and derivatives of rows depend on the family and the bound only, and the density
    # of a model does not depend on the values of its rows: a further step on other data compiles
    # nothing.
    content = _content(outputs)
    if content is None:
        with doing(COMPILING):
            return make(*arguments)
    key = make, FrozenFunctionGraph.from_io(inputs, outputs), content, also
    if key not in _kept:
        with doing(COMPILING):
            _kept[key] = make(*arguments)
    _kept.move_to_end(key)
    while len(_kept) > KEPT:
        _kept.popitem(last=False)
    return _kept[key]  # type: ignore[no-any-return]


def kept_on_disk(
    compile: Callable[[], Any],
    arguments: Sequence[Any],
    inputs: Sequence[Variable],
    outputs: Sequence[Variable],
    also: Hashable = None,
) -> Any:
    """Return ``compile()``, or the machine code it returned for an equal graph, and `also`, before.

    `arguments` are the numba types with which the compiled function is called.
    """
    content, key = _content(outputs), None
    if content is not None:
        graph, names = FrozenFunctionGraph.from_io(inputs, outputs), compile.__qualname__
        version = version_of(compile.__code__.co_filename)
        key = key_of(graph, version_of, content, names, version, environment(), arguments, also)
    found = load(key, arguments)
    if found is None:
        found = compile()
        keep(key, found)
    return found


def _content(outputs: Sequence[Variable]) -> tuple[bytes, ...] | None:
    """Return hashes of the arrays in graphs, or None if they are large."""
    # PyTensor caches a constant's signature, but its array may be the user's, and changed since:
    # the hash is of the values as they are now.
    constants = [v for v in graph_inputs(list(outputs)) if isinstance(v, Constant)]
    arrays = [array for v in constants for array in arrays_of(v)]
    if sum(array.nbytes for array in arrays) > LARGE:
        return None
    return tuple(map(content_hash, arrays))
