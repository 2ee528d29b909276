"""Evaluation of graphs in Python, operation by operation, without rewrites."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from functools import cache, partial, reduce
from typing import Any

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import toposort
from pytensor.graph.utils import MissingInputError
from pytensor.scalar import basic as ps
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.type import discrete_dtypes
from pytensor.tensor.utils import import_func_from_string

#: Where an operation finds an argument, or leaves a result: a list of one value.
Cell = list[Any]
#: Number of values of fixed inputs for which results are kept.
KEPT = 3
#: Called with each node once it has run, and the cells of its results.
After = Callable[[Apply, list[Cell]], None]


class PlainFunction:
    """A function of a graph that runs each operation once in Python, without rewrites.

    ``pytensor.function`` takes milliseconds for that, and in each operation its functions check
    what types say already. The values are the same.

    Parameters
    ----------
    inputs, outputs : sequence of Variable
        The value of a single output that is not in a sequence is returned as it is.
    n_fixed : int
        Number of the first inputs that rarely change: what depends on these alone is kept for their
        last `KEPT` values.
    after : After, optional
    """

    def __init__(
        self,
        inputs: Sequence[Variable],
        outputs: Variable | Sequence[Variable],
        n_fixed: int = 0,
        after: After | None = None,
    ) -> None:
        self._is_single = isinstance(outputs, Variable)
        graphs: list[Any] = [outputs] if isinstance(outputs, Variable) else list(outputs)
        cells = _Cells({v: [None] for v in inputs})
        computed: Any = defaultdict(lambda: [True])
        changing = {id(cells[v]) for v in inputs[n_fixed:]}
        self._shared: list[Cell] = []
        same: dict[Hashable, list[Cell]] = {}  # results, by the operation and its arguments
        self._fixed: list[Callable[[], Any]] = []
        steps: list[tuple[Callable[[], Any], list[Cell]]] = []
        for node in toposort(graphs, blockers=inputs):
            read = [cells[v] for v in node.inputs]
            key = node.op, *map(id, read)
            if key in same and after is None:
                cells.update(zip(node.outputs, same[key], strict=True))
                continue
            written = same[key] = [[None] for _ in node.outputs]
            cells.update(zip(node.outputs, written, strict=True))
            run: Any = _elementwise(node, read, written[0])
            run = run or node.op.make_thunk(node, cells, computed, [], "py")
            if n_fixed and not any(id(cell) in changing for cell in read):
                self._fixed.append(run)
                self._shared += written
                continue
            changing.update(map(id, written))
            steps.append((run, [*read, *written]))
            if after is not None:
                steps.append((partial(after, node, written), written))
        self._inputs = [(cells[v], v.type.filter) for v in inputs]
        self._outputs = [cells[v] for v in graphs]
        self._n_fixed = n_fixed
        self._kept: dict[bytes, list[Any]] = {}
        # Other results may be arguments or constants, parts of them, or kept.
        self._are_new = [_makes_array(v) and id(cells[v]) in changing for v in graphs]
        # A result is dropped once it has been read for the last time.
        changing.difference_update(id(cell) for cell, _ in self._inputs)
        self._emptied = [cell for cell in self._outputs if id(cell) in changing]
        changing.difference_update(map(id, self._outputs))
        self._steps: list[tuple[Callable[[], Any], list[Cell]]] = []
        for run, own in reversed(steps):
            last = [cell for cell in own if id(cell) in changing]
            changing.difference_update(map(id, last))
            self._steps.append((run, last))
        self._steps.reverse()

    def __call__(self, *arguments: Any) -> Any:
        """Return the values of the outputs."""
        for (cell, checked), argument in zip(self._inputs, arguments, strict=True):
            cell[0] = checked(argument)
        try:
            with np.errstate(all="ignore"):
                self._evaluate()
            found = zip(self._outputs, self._are_new, strict=True)
            values = [cell[0] if is_new else _copy(cell[0]) for cell, is_new in found]
        finally:
            for cell in (*self._emptied, *(cell for cell, _ in self._inputs)):
                cell[0] = None
        return values[0] if self._is_single else values

    def _evaluate(self) -> None:
        if self._n_fixed:
            key = b"".join(cell[0].tobytes() for cell, _ in self._inputs[: self._n_fixed])
            if key not in self._kept:
                for cell in self._shared:
                    cell[0] = None
                # Results may be parts of arguments, which the caller may write to.
                for cell, _ in self._inputs[: self._n_fixed]:
                    cell[0] = cell[0].copy()
                for run in self._fixed:
                    run()
                while len(self._kept) >= KEPT:
                    del self._kept[next(iter(self._kept))]
                self._kept[key] = [cell[0] for cell in self._shared]
            for cell, value in zip(self._shared, self._kept[key], strict=True):
                cell[0] = value
        for run, last in self._steps:
            run()
            for cell in last:
                cell[0] = None


class _Cells(dict[Variable, Cell]):
    """Cells of variables; equal small constants have the same."""

    def __missing__(self, v: Variable) -> Cell:
        if isinstance(v, SharedVariable):
            self[v] = v.container.storage
        elif not isinstance(v, Constant):
            raise MissingInputError(f"{v!r} has no value")
        elif isinstance(v.data, np.ndarray) and v.data.nbytes <= SMALL:
            key: Any = v.type, v.data.tobytes()
            self[v] = self.setdefault(key, [v.data])
        else:
            self[v] = [v.data]
        return self[v]


#: Constants of up to this many bytes are compared.
SMALL = 64
_function_named = cache(import_func_from_string)


def _elementwise(node: Apply, read: list[Cell], out: Cell) -> Callable[[], None] | None:
    """Return what evaluates an elementwise operation, if it is a function of arrays."""
    op: Any = node.op
    if not _makes_array(node.outputs[0]) or len(node.outputs) > 1:
        return None
    types: list[Any] = [v.type for v in node.inputs]
    dtype = np.dtype(node.outputs[0].type.dtype)  # type: ignore[attr-defined]
    function = _function_of(op, types, dtype)
    if function is None:
        return None
    lengths_are_known = len(types) == 1 or not any(None in each.shape for each in types)

    def run() -> None:
        arrays = [cell[0] for cell in read]
        if not lengths_are_known:
            _check_lengths(types, arrays)
        value = np.asarray(function(*arrays), dtype)
        out[0] = value if value.flags.owndata else value.copy()

    return run


def _function_of(op: Elemwise, types: Sequence[Any], dtype: np.dtype) -> Any:
    """Return the function of arrays that an operation applies, or None."""
    if isinstance(op.scalar_op, ps.Second):
        return lambda like, value: np.full(np.broadcast_shapes(like.shape, value.shape), value)
    if isinstance(op.scalar_op, ps.Cast):
        return np.array
    if op.nfunc_spec is None:
        return None
    name, n_arguments, _ = op.nfunc_spec
    function = _function_named(name)
    # NumPy would compute functions of small integers in less than double precision.
    is_short = types[0].dtype in discrete_dtypes and dtype.kind == "f"
    if is_short and isinstance(function, np.ufunc):
        return None
    if len(types) == n_arguments:
        return function
    if isinstance(op.scalar_op, ps.Add | ps.Mul) and len(types) > 1:
        return lambda *arrays: reduce(function, arrays)
    return None


def _check_lengths(types: Sequence[Any], arrays: Sequence[np.ndarray]) -> None:
    """Refuse arrays of which one would be repeated although its type does not say so."""
    for axis in range(types[0].ndim):
        pairs = zip(types, arrays, strict=True)
        lengths = {each.shape[axis] for kind, each in pairs if kind.shape[axis] != 1}
        if 1 in lengths and len(lengths) > 1:
            raise ValueError(
                f"arrays of lengths {sorted(lengths)} along axis {axis}, of which one is one by "
                "chance, are not repeated"
            )


def _makes_array(v: Variable) -> bool:
    op: Any = None if v.owner is None else v.owner.op
    return isinstance(op, Elemwise) and not op.inplace_pattern


def _copy(value: Any) -> Any:
    return value.copy() if hasattr(value, "copy") else value
