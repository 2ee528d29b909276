"""Tools for PyTensor graphs: copies, rewrites, evaluation, and arithmetic of integers."""

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import cache, reduce
from typing import Any, cast

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import optdb
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import graph_replace
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.graph.traversal import ancestors, graph_inputs, toposort
from pytensor.scalar import basic as ps
from pytensor.sparse import as_sparse_variable
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.sharedvar import TensorSharedVariable
from pytensor.tensor.subtensor import indices_from_subtensor
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorConstant, TensorVariable
from scipy.sparse import spmatrix

from pymc_flymc.compat.pytensor import inline_ofg_node, rewrites
from pymc_flymc.graphs.plain import After, PlainFunction

#: One solve with a matrix in place of many solves with the same triangle, one for each effect of a
#: covariance: PyTensor's Python linker runs them in a loop, and their second derivatives, too.
SOLVES = optdb["specialize"].query(
    RewriteDatabaseQuery(include=rewrites("batched_vector_b_solve_to_matrix_b_solve"))
)


@cache
def _rewriter(names: tuple[str, ...]) -> Any:
    """Return a rewriter that includes rewrites of these names."""
    return optdb.query(RewriteDatabaseQuery(include=names))


def rewritten(
    graphs: Sequence[Variable], names: Sequence[str], kept: Collection[Variable] = ()
) -> list[Any]:
    """Return copies of graphs, except `kept`, after rewrites of these names and `SOLVES`."""
    inputs = [
        v
        for v in ancestors(graphs, kept)
        if v in kept or (v.owner is None and not isinstance(v, Constant))
    ]
    copies = FunctionGraph(inputs, list(graphs), clone=True)
    _rewriter(tuple(names)).rewrite(copies)
    SOLVES.rewrite(copies)
    # A variable's history is copied to all of its rewritten forms, once for each path to it: in a
    # graph that is rewritten again, this takes all memory.
    for v in ancestors(copies.outputs):
        v.tag.trace = []
    own: Any = dict(zip(copies.inputs, inputs, strict=True))
    return list(graph_replace(copies.outputs, own, strict=False))


#: Shapes of variables whose types leave them open.
Shapes = Mapping[Variable, tuple[int, ...]]


def plain_function(
    inputs: Sequence[Variable],
    outputs: Variable | Sequence[Variable],
    n_fixed: int = 0,
    after: After | None = None,
) -> PlainFunction:
    """Return a `PlainFunction` of graphs, with those inside operations in their place."""
    memo: dict[Variable, Variable] = {}

    def written_out(node: Apply, inputs: Sequence[Variable]) -> Sequence[Variable] | None:
        if isinstance(node.op, OpFromGraph):
            return copy_graphs(inline_ofg_node(node), written_out, memo=memo)
        return None

    graphs: list[Any] = [outputs] if isinstance(outputs, Variable) else list(outputs)
    graphs = copy_graphs(graphs, written_out, memo=memo)
    is_single = isinstance(outputs, Variable)
    return PlainFunction(inputs, graphs[0] if is_single else graphs, n_fixed, after)


def evaluate(variable: Variable) -> np.ndarray:
    """Return the value of a graph without arguments, without a copy of constants."""
    if isinstance(variable, Constant):
        return np.asarray(variable.data)
    if isinstance(variable, TensorSharedVariable):
        return np.asarray(variable.get_value(borrow=True))
    return np.asarray(plain_function([], variable)())


def evaluate_sparse(variable: Variable) -> spmatrix:
    """Return the value of a graph of a sparse matrix that needs no argument, in its own format."""
    if isinstance(variable, Constant):
        return variable.data
    return plain_function([], variable)()


def weighted_sum(weights: np.ndarray, terms: TensorVariable) -> TensorVariable:
    """Return the sum of terms (n,) with weights (n,), which is -inf if a term is not a number."""
    # If the logarithm of a scale is not a number, there is no density, even if no row needs it:
    # terms with weight zero restrict the parameters, too.
    used = weights != 0.0
    if used.all():
        return (weights * terms).sum()
    total = (weights[used] * terms[np.flatnonzero(used)]).sum()
    return pt.switch(pt.isnan(terms[np.flatnonzero(~used)]).any(), -np.inf, total)


def free_inputs(variables: Iterable[Variable]) -> list[Variable]:
    """Return the inputs that are neither constants nor shared variables, each once."""
    return [
        v
        for v in dict.fromkeys(graph_inputs(list(variables)))
        if not isinstance(v, Constant | TensorSharedVariable)
    ]


def has_rows_of_data(variable: TensorVariable) -> bool:
    """Return whether a graph has a value for each row of a container that may have other rows."""
    return not all(variable.type.broadcastable) and any(
        isinstance(v, TensorSharedVariable) for v in graph_inputs([variable])
    )


def freeze(
    variable: TensorVariable, shapes: Shapes, values: Mapping[Variable, np.ndarray] | None = None
) -> TensorVariable:
    """Return a copy of a graph with its data made constant, and as many static shapes as possible.

    Shared variables become constants that use the same memory, known symbolic shapes become
    constants, and functions written as ``OpFromGraph`` (``pt.einsum``) are written out.
    """
    others = values or {}

    def leaf(v: Variable) -> Variable:
        if isinstance(v, TensorSharedVariable):
            data = others[v] if v in others else v.get_value(borrow=True)
            if isinstance(v.type, SparseTensorType):
                return as_sparse_variable(data, name=v.name)
            dtype = data.dtype.name if v in others else v.type.dtype
            return TensorConstant(TensorType(dtype, data.shape), data, name=v.name)
        if v in shapes and None in v.type.shape:
            return pt.specify_shape(v, shapes[v])
        return v

    def frozen(node: Apply, inputs: Sequence[Variable]) -> Sequence[Variable] | None:
        known = _known_shape(node.op, inputs[0]) if inputs else None
        if known is not None:
            return [known]
        if isinstance(node.op, OpFromGraph):
            return copy_graphs(inline_ofg_node(node), frozen, leaf, memo)
        return None

    memo: dict[Variable, Variable] = {}
    return copy_graphs([variable], frozen, leaf, memo)[0]


def copy_graphs[V: Variable](
    variables: Sequence[V],
    replaced: Callable[[Apply, Sequence[Any]], Sequence[Variable] | None],
    leaf: Callable[[Variable], Variable] = lambda v: v,
    memo: dict[Variable, Variable] | None = None,
) -> list[V]:
    """Return copies of graphs with other graphs in place of some nodes.

    `replaced` returns, from a node and the copies of its inputs, graphs for its outputs, or None to
    keep it; `leaf` returns the replacement of an input of the graphs. Copies in `memo` are used,
    and new ones are added to it.
    """
    memo = {} if memo is None else memo
    for node in toposort(variables):
        if node.outputs[0] in memo:
            continue
        inputs = [memo[v] if v in memo else memo.setdefault(v, leaf(v)) for v in node.inputs]
        new: Any = replaced(node, inputs)
        if new is None and any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
            new = node.clone_with_new_inputs(inputs, strict=False).outputs
        copies = zip(node.outputs, node.outputs if new is None else new, strict=True)
        memo.update((out, copy) for out, copy in copies if out not in memo)
    return [cast(V, memo[v] if v in memo else leaf(v)) for v in variables]


def _known_shape(op: object, source: Variable) -> Variable | None:
    """Return the constant that a ``Shape`` or ``Shape_i`` node stands for, if it is known."""
    static = getattr(source.type, "shape", None)
    if isinstance(op, Shape) and static is not None and None not in static:
        return pt.constant(np.asarray(static, dtype="int64"))
    if isinstance(op, Shape_i) and static is not None and static[op.i] is not None:
        return pt.constant(np.asarray(static[op.i], dtype="int64"))
    return None


def fold_constants(variable: TensorVariable, least: int = 0) -> TensorVariable:
    """Return a copy of a graph with all parts that need no argument replaced by their values."""
    # Such a part may read the data (X.std(axis=0)): it is computed once, here, and not whenever the
    # graph is compiled. Parts in which all arrays have fewer elements than `least` stay as they
    # are.
    is_constant, nodes = ConstantParts([variable]), list(toposort([variable]))
    most: dict[Variable, int] = {}
    for node in nodes:
        largest = max((most.setdefault(v, known_size(v)) for v in node.inputs), default=0)
        most.update((v, max(largest, known_size(v))) for v in node.outputs)
    read = [v for node in nodes if not is_constant(node.outputs[0]) for v in node.inputs]
    parts = [
        v
        for v in dict.fromkeys([*read, variable])
        if v.owner is not None
        and is_constant(v)
        and most[v] >= least
        and isinstance(v.type, TensorType)
    ]
    if not parts:
        return variable
    memo: dict[Variable, Variable] = {}
    for v, value in zip(parts, map(np.asarray, plain_function([], parts)()), strict=True):
        memo[v] = TensorConstant(TensorType(v.type.dtype, value.shape), value, name=v.name)
    return copy_graphs([variable], lambda *_: None, memo=memo)[0]


class ConstantParts:
    """Tell which variables of graphs, and of graphs made from them, depend on constants only."""

    def __init__(self, outputs: Sequence[Variable]) -> None:
        self._known: dict[Variable, bool] = {}
        for node in toposort(outputs):  # deep graphs from below: no deep recursion
            self(node.outputs[0])

    def __call__(self, variable: Variable) -> bool:
        """Return whether a variable depends on constants only."""
        if variable not in self._known:
            node = variable.owner
            self._known[variable] = isinstance(variable, Constant) or (
                node is not None and all([self(v) for v in node.inputs])
            )
        return self._known[variable]


def index_of(node: Apply, first: int) -> list[Any]:
    """Return one index for each axis of the array, its first input, that a node indexes."""
    op: Any = node.op
    index: list[Any] = list(indices_from_subtensor(node.inputs[first:], op.idx_list))
    return index + [slice(None)] * (node.inputs[0].type.ndim - len(index))


def numbers_of(index: Any) -> Any:
    """Return an index in numbers; the limits of a `slice` are small graphs, too."""
    if isinstance(index, slice):
        return slice(*map(numbers_of, (index.start, index.stop, index.step)))
    if not isinstance(index, Variable):
        return index
    value = evaluate(index)
    return value if value.ndim else value.item()


def known_size(variable: Variable) -> int:
    """Return the number of a variable's elements, without axes of unknown length."""
    return math.prod(n or 1 for n in getattr(variable.type, "shape", ()))


def known_length(variable: TensorVariable, axis: int) -> int:
    """Return the length of an axis with current data, for any values of free inputs."""
    length = freeze(variable, {}).type.shape[axis]
    return int(evaluate(variable.shape[axis])) if length is None else length


def first_equals(variable: Variable) -> dict[Variable, Variable]:
    """Map each variable of a graph to the first one that is computed in the same way."""
    # Large constants are the same if they are the same memory: nothing data-sized is compared.
    first: dict[Variable, Variable] = {}
    seen: dict[Hashable, Variable] = {}

    def leaf(v: Variable) -> Variable:
        key: Hashable = v
        data = v.data if isinstance(v, Constant) else None
        if isinstance(data, np.ndarray):
            memory = data.tobytes() if data.nbytes <= 256 else data.__array_interface__["data"]
            key = (v.type, data.strides, memory)
        return first.setdefault(v, seen.setdefault(key, v))

    for node in toposort([variable]):
        inputs = tuple(first[v] if v in first else leaf(v) for v in node.inputs)
        for i, out in enumerate(node.outputs):
            first[out] = seen.setdefault((node.op, inputs, i), out)
    return first


#: Scalar operations whose result may be outside the type of their arguments.
_ARITHMETIC: dict[type, Any] = {
    ps.Add: np.add,
    ps.Sub: np.subtract,
    ps.Mul: np.multiply,
    ps.Neg: np.negative,
    ps.Pow: np.power,
    ps.Sqr: np.square,
    ps.Abs: np.abs,
}
#: Rounding error of float64, in which sums and products are compared.
_ROUNDING = 1e-12


def check_integers(variable: TensorVariable, what: str) -> None:
    """Refuse a graph from `freeze` in which integer data exceed the range of their type."""
    is_constant = ConstantParts([variable])
    for node in toposort([variable]):
        if is_constant(node.outputs[0]) and _is_arithmetic(node):
            _check(node, what)


def _is_arithmetic(node: Apply) -> bool:
    op: Any = node.op
    return (
        isinstance(op, Elemwise)
        and type(op.scalar_op) in _ARITHMETIC
        and node.outputs[0].type.dtype.startswith(("int", "uint", "bool"))
    )


def _check(node: Apply, what: str) -> None:
    op: Any = node.op
    function = _ARITHMETIC[type(op.scalar_op)]
    found, *arguments = plain_function([], [*node.outputs, *node.inputs])()
    wide = [np.asarray(each, np.float64) for each in arguments]
    with np.errstate(all="ignore"):
        expected = reduce(function, wide) if len(wide) > 1 else function(*wide)
    bad = np.abs(found.astype(np.float64) - expected) > _ROUNDING * np.abs(expected)
    dtype = found.dtype
    if isinstance(op.scalar_op, ps.Pow) and arguments[0].dtype.kind in "iu":
        # PyTensor may rewrite it as a product in the type of its base.
        dtype = min(dtype, arguments[0].dtype, key=lambda each: each.itemsize)
        limits = np.iinfo(arguments[0].dtype)
        bad |= (expected < limits.min) | (expected > limits.max)
    if bad.any():
        first = np.flatnonzero(np.broadcast_to(bad, expected.shape))[0]
        numbers = [np.broadcast_to(each, expected.shape).flat[first] for each in arguments]
        raise ValueError(
            f"{what} computes {function.__name__} of {', '.join(map(str, numbers))} in {dtype}, "
            "which has no place for the result: PyTensor then takes the remainder in some orders "
            "of the operations, and not in others. Make the data floats, as in "
            'pm.Data(name, values.astype("float64")), or values.astype("float64") in the model'
        )
