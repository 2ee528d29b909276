"""One row of a graph, in which each array of data and each lookup is an input.

A row is written from the result of each operation to its arguments. It keeps the axes of the graph:
axes of rows have length one, so that most operations are those of the graph. What is the same for
all rows is an input, too. A row is linear in each of its inputs, as operations that are not linear
are refused, and so are products of two inputs that depend on variables.
"""

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.scalar import basic as ps
from pytensor.sparse.math import Dot as SparseDot
from pytensor.sparse.math import StructuredDot
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.basic import Alloc, Join
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, IncSubtensor, Subtensor
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorConstant, TensorVariable
from scipy.sparse import csr_array

from pymc_flymc.errors import warn
from pymc_flymc.graphs.tools import (
    ConstantParts,
    evaluate,
    evaluate_sparse,
    free_inputs,
    index_of,
    known_size,
    numbers_of,
)
from pymc_flymc.reading.unreadable import (
    CHANGE_POINT,
    JOINS_ROWS,
    PRODUCT,
    QUOTIENT,
    TAKES_ELEMENTS,
    TAKES_ROWS,
    NotReadableError,
    not_linear,
    op_type,
)


def below_views(var: Any) -> Any:
    """Return the variable below copies, and below casts that keep all values."""
    while var.owner is not None and op_type(var.owner) in (ps.Cast, ps.Identity, ViewOp):
        (source,) = var.owner.inputs
        if not np.can_cast(source.type.dtype, var.type.dtype, "safe"):
            return var
        var = source
    return var


#: Positions of all rows along some axes; None is for rows as they are, along a single axis.
Places = Mapping[int, np.ndarray | None]
#: What a rule requests is rows of a variable at places; what it receives is the row.
Rule = Generator[tuple[Any, Places], Any, Any]


def _varies(var: Any, places: Places) -> bool:
    return any(not var.type.broadcastable[k] for k in places)


@dataclass(frozen=True, eq=False)
class RowInput:
    """An input of a row: numbers of the data; or, of a source, elements or sums that a row has."""

    variable: TensorVariable  #: Float64; its axes of rows have length one.
    #: Of all rows: numbers (N, ...), positions in the flat source (N, ...), or a sparse matrix.
    rows: Any
    source: TensorVariable | None = None
    #: Inputs with equal origins are equal for any rows; None is unknown.
    origin: Hashable = None

    @property
    def size(self) -> int:
        """Return the number of elements in a row."""
        return known_size(self.variable)


class OneRow:
    """One row of the rows of a graph from ``freeze`` that lie along its first axis.

    With `any_rows` the result must hold for other rows, too: values of these rows decide nothing.
    """

    is_linear = True

    def __init__(self, eta: TensorVariable, n_rows: int, name: str, any_rows: bool) -> None:
        self.n_rows, self.name, self.any_rows = n_rows, name, any_rows
        self.inputs: dict[Variable, RowInput] = {}
        #: Inputs that stand for what is the same for all rows.
        self.shared: dict[Any, TensorVariable] = {}
        self._stand_ins: dict[Variable, TensorVariable] = {}
        self._is_constant = ConstantParts([eta])
        self._known: dict[Hashable, tuple[Any, Places]] = {}
        self.graph: TensorVariable = self._take(eta.dimshuffle("x") if not eta.ndim else eta)

    def _take(self, eta: TensorVariable) -> Any:
        """Run rules on a stack, not by recursion: sums of a thousand columns are deep graphs."""
        stack, found = [self._row(eta, {0: None})], None
        while stack:
            try:
                request = stack[-1].send(found)
            except StopIteration as done:
                stack.pop()
                found = done.value
            else:
                stack.append(self._row(*request))
                found = None
        return found

    def _row(self, v: Any, places: Places) -> Rule:
        """Return the row of a variable at places of all rows."""
        if not isinstance(v.type, TensorType):
            raise NotReadableError(f"it contains {v.type}, which is not a dense tensor")
        if isinstance(v.type, SparseTensorType):
            raise NotReadableError("it uses a sparse matrix other than by pytensor.sparse.dot")
        places = {k: at for k, at in places.items() if not v.type.broadcastable[k]}
        if not places:
            return self._same_for_all(v)
        if self._is_constant(v) and not self._looks_through(v, places):
            return self._data(v, places)
        key = v, tuple((k, id(at)) for k, at in sorted(places.items()))
        if key not in self._known:
            self._known[key] = (yield from self._of_node(v, places)), places
        return self._known[key][0]

    def _of_node(self, v: Any, places: Places) -> Rule:
        rule = _rule_of(v)
        if (rule is None or len(places) == 1) and not self._has_data(v, places):
            return self._looked_up(v, places)  # a function of effects serves as an effect
        if rule is None:
            raise not_linear(v.owner)
        return (yield from rule(self, v.owner, places))

    # --- where a row ends -------------------------------------------------------------------------

    def _same_for_all(self, v: Any) -> TensorVariable:
        """Return an input that stands for what is the same for all rows, or its numbers."""
        if self._is_constant(v):
            return pt.constant(_real(evaluate(v)).astype(np.float64))
        if v not in self._stand_ins:
            stand_in = TensorType("float64", v.type.shape)()
            self._stand_ins[v], self.shared[stand_in] = stand_in, v.astype("float64")
        return self._stand_ins[v]

    def _input(
        self,
        shape: Sequence[int],
        places: Places,
        rows: Any,
        source: Any = None,
        origin: Hashable = None,
    ) -> TensorVariable:
        """Return a new input for a row of something of a given shape."""
        if rows.shape[0] != self.n_rows:
            raise ValueError(
                f"the linear predictor of {self.name!r} has {rows.shape[0]} rows, but "
                f"{self.n_rows} values are observed"
            )
        of_row = [1 if k in places else n for k, n in enumerate(shape)]
        variable: Any = TensorType("float64", of_row)()
        self.inputs[variable] = RowInput(variable, rows, source, origin)
        return variable

    def _data(self, v: Any, places: Places) -> TensorVariable:
        """Return a constant's row; a use of the same constant elsewhere has another input."""
        plain = isinstance(v, Constant) and all(at is None for at in places.values())
        origin = (v, *places) if plain else None
        numbers = _real(evaluate(v))  # its type may leave the number of columns open
        return self._input(numbers.shape, places, _rows_of(numbers, places), None, origin)

    def _looked_up(self, v: Any, places: Places) -> TensorVariable:
        """Return elements of a variable with a value for each row, or for each place."""
        if self.any_rows:
            raise NotReadableError(
                f"it has {v.name or v.owner.op}, a value for each row, whatever the rows"
            )
        front = v.dimshuffle(*places, *(k for k in range(v.type.ndim) if k not in places))
        rows = _rows_of(_order(front), dict(enumerate(places.values())))
        return self._input(v.type.shape, places, rows, front)

    def _looks_through(self, v: Any, places: Places) -> bool:
        """Return whether a step into a constant graph saves a copy of the data."""
        # Sums are evaluated, not traversed: a column that the model centres is meant to be centred.
        node = v.owner
        if node is None:
            return False
        kind, source = op_type(node), node.inputs[0]
        if kind is ps.Cast:
            return np.can_cast(source.type.dtype, v.type.dtype, "safe")
        if kind in (ps.Mul, ps.TrueDiv, ps.Neg) and "float" in v.type.dtype:
            several = [u for u in node.inputs if _varies(u, places)]
            return len(several) == 1 and (kind is ps.Mul or several == [source])
        return kind in _VIEWS

    def _has_data(self, v: Any, places: Places) -> bool:
        """Return whether a variable that has rows is constant, or is made from as many data."""
        lengths = [v.type.shape[k] for k in places]
        return self._is_constant(v) or any(n is None or is_of_data(v, n) for n in lengths)

    # --- operations -------------------------------------------------------------------------------

    def _elemwise(self, node: Apply, places: Places) -> Rule:
        inputs: Any = node.inputs
        kind, op = op_type(node), node.op
        free = [u for u in inputs if _varies(u, places) and not self._is_constant(u)]
        if kind is ps.Mul and len(free) > 1:
            raise NotReadableError(*PRODUCT)
        if kind is ps.TrueDiv and inputs[1] in free:
            raise NotReadableError(*QUOTIENT)
        if kind is ps.TrueDiv and _varies(inputs[1], places):
            product = inputs[0] * pt.reciprocal(inputs[1].astype("float64"))
            return (yield product, places)
        if kind is ps.Switch:
            if not self._is_constant(inputs[0]):
                raise NotReadableError(*CHANGE_POINT)
            condition, yes, no = inputs
            return (yield pt.neq(condition, 0) * yes + pt.eq(condition, 0) * no, places)
        if kind is ps.Second:
            row = yield inputs[1], places
            return _filled(row, node.outputs[0], places)
        if kind in (ps.Cast, ps.Identity):
            (source,), dtype = inputs, node.outputs[0].type.dtype
            if not self._is_constant(source) and "float" in source.type.dtype != dtype:
                if "float" not in dtype:
                    raise NotReadableError(f"it contains {op}, which rounds")
            return (yield source, places)
        if kind not in (ps.Add, ps.Sub, ps.Neg, ps.Mul, ps.TrueDiv):
            raise not_linear(node)
        rows = []
        several = kind is ps.Mul and sum(_varies(u, places) for u in inputs) > 1
        for u in inputs:
            if several and u not in free and not self.any_rows and _varies(u, places):
                # A factor that is the same in all rows, such as ones that only lend their shape.
                u = _as_same(u, places)
            rows.append((yield u, places))
        return op(*rows)

    def _view(self, node: Apply, places: Places) -> Rule:
        return (yield node.inputs[0], places)

    def _alloc(self, node: Apply, places: Places) -> Rule:
        (value, *lengths), out = node.inputs, node.outputs[0]
        missing = len(lengths) - value.type.ndim
        row = yield value, {k - missing: at for k, at in places.items() if k >= missing}
        return _filled(row, out, places)

    def _dimshuffle(self, node: Apply, places: Places) -> Rule:
        order = node.op.new_order
        row = yield node.inputs[0], {order[k]: at for k, at in places.items()}
        return row.dimshuffle(order)

    def _reshape(self, node: Apply, places: Places) -> Rule:
        """Pass reshapes that only add or drop axes of length 1, or flatten a table."""
        source, out = node.inputs[0], node.outputs[0]
        long_in, long_out = (
            [k for k in range(v.type.ndim) if not v.type.broadcastable[k]] for v in (source, out)
        )
        of = dict(zip(long_out, long_in, strict=False))
        lengths = {k: (source.type.shape[i], out.type.shape[k]) for k, i in of.items()}
        if len(long_in) == len(long_out) and all(
            n == m if k not in places else n == m or None in (n, m) for k, (n, m) in lengths.items()
        ):
            row = yield source, {of[k]: at for k, at in places.items()}
        elif out.type.ndim == 1 and None not in source.type.shape and not self.any_rows:
            at = np.arange(out.type.shape[0]) if places[0] is None else places[0]
            row = yield source, dict(enumerate(np.unravel_index(at, source.type.shape)))
        else:
            raise NotReadableError("it contains a reshape other than adding or dropping axes")
        return row.dimshuffle([of.get(k, "x") for k in range(out.type.ndim)])

    def _sum(self, node: Apply, places: Places) -> Rule:
        source = node.inputs[0]
        gone = [k % source.type.ndim for k in node.op.axis]
        left = [k for k in range(source.type.ndim) if k not in gone]
        row = yield source, {left[k]: at for k, at in places.items()}
        return row.sum(axis=gone)

    def _dot(self, node: Apply, places: Places) -> Rule:
        """Pass ``left (..., I, K) @ right (..., K, J)`` with rows along I, J or batch axes."""
        left, right = node.inputs
        n = node.outputs[0].type.ndim
        of_left = {k: at for k, at in places.items() if k != n - 1}
        of_right = {k: at for k, at in places.items() if k != n - 2}
        operands = (left, of_left), (right, of_right)
        if self.is_linear and all(
            _varies(v, own) and not self._is_constant(v) for v, own in operands
        ):
            raise NotReadableError(*PRODUCT)
        a = yield operands[0]
        b = yield operands[1]
        return (pt.expand_dims(a, n) * pt.expand_dims(b, n - 2)).sum(axis=n - 1)

    def _sparse_dot(self, node: Any, places: Places) -> Rule:
        """Read ``matrix @ right``, rows along the first axis, or ``left @ matrix``, the last."""
        by_left = isinstance(node.inputs[0].type, SparseTensorType)
        data, other = node.inputs if by_left else node.inputs[::-1]
        if isinstance(other.type, SparseTensorType) or free_inputs([data]):
            raise NotReadableError(f"it contains {node.op} of a sparse matrix that is not constant")
        ((axis, at),) = places.items()
        if (axis == 0) != by_left and node.outputs[0].type.ndim > 1:
            raise NotReadableError("it multiplies a sparse matrix by data")
        matrix = evaluate_sparse(data)
        rows = csr_array(matrix if by_left else matrix.T, dtype=np.float64)
        rows = rows if at is None else rows[at]
        shape = node.outputs[0].type.shape
        return self._input(shape, places, rows, other if by_left else other.T)
        yield  # a rule is a generator

    def _subtensor(self, node: Apply, places: Places) -> Rule:
        source, index = node.inputs[0], index_of(node, 1)
        kept = [k for k, each in enumerate(index) if isinstance(each, slice)]
        below = {kept[k]: self._through_slice(source, kept[k], index, places[k]) for k in places}
        row = yield source, below
        return row[tuple(slice(None) if k in below else each for k, each in enumerate(index))]

    def _through_slice(
        self, source: Any, axis: int, index: list[Any], at: np.ndarray | None
    ) -> np.ndarray | None:
        """Return positions before ``[start:stop]`` of positions after it."""
        if index[axis] == slice(None):
            return at
        length = source.type.shape[axis]
        own = [v for v in (index[axis].start, index[axis].stop) if isinstance(v, Variable)]
        if self.any_rows or length is None or free_inputs(own):
            raise NotReadableError(*TAKES_ROWS)
        numbers = np.arange(length)[numbers_of(index[axis])]
        return numbers if at is None else numbers[at]

    def _indexed(self, node: Apply, places: Places) -> Rule:
        """Take rows by arrays of positions: of rows of data, or else of effects."""
        source, index = node.inputs[0], index_of(node, 1)
        arrays = [k for k, each in enumerate(index) if not isinstance(each, slice)]
        n_new = max(index[k].type.ndim for k in arrays)
        # NumPy puts the axes of arrays at the first of them, or in front if they are apart.
        apart = arrays[-1] - arrays[0] >= len(arrays)
        first = 0 if apart else arrays[0]
        slices = [k for k in range(len(index)) if k not in arrays]
        axes: list[Any] = [*slices[:first], *[None] * n_new, *slices[first:]]
        of_slices = {
            axes[k]: self._through_slice(source, axes[k], index, at)
            for k, at in places.items()
            if axes[k] is not None
        }
        if len(of_slices) == len(places):
            row = yield source, of_slices
            return row[tuple(slice(None) if k in of_slices else v for k, v in enumerate(index))]
        return (yield from self._taken(node, places, of_slices, arrays, first))

    def _taken(
        self, node: Any, places: Places, of_slices: Places, arrays: list[int], first: int
    ) -> Rule:
        """Take rows, along the axes of `arrays`, by positions of data or of effects."""
        source, index, out = node.inputs[0], index_of(node, 1), node.outputs[0]
        n_new = max(index[k].type.ndim for k in arrays)
        slices = [k for k in range(len(index)) if k not in arrays]
        positions = self._positions(node)
        length = max(source.type.shape[k] for k in arrays)
        of_rows = is_of_data(source, length) and _are_distinct(positions)
        of_sum = n_new == 1 and not slices and _is_sum_of_effects(source)
        if (of_rows and not self.any_rows) or of_sum:
            if n_new > 1 or _rule_of(source) is None:
                raise NotReadableError(
                    *(TAKES_ROWS if n_new > 1 or len(arrays) == 1 else TAKES_ELEMENTS)
                )
            below = dict(of_slices)
            for k in arrays:
                numbers = np.asarray(evaluate(index[k]))
                if numbers.dtype == bool:
                    numbers = np.flatnonzero(numbers)
                numbers = np.broadcast_to(numbers, positions.shape[first]) % source.type.shape[k]
                below[k] = numbers if places[first] is None else numbers[places[first]]
            row = yield source, below
            return row.dimshuffle(*slices[:first], "x", *slices[first:])
        keys = (below_views(v) for v in node.inputs[1:])
        origin = node.op, source.type.shape, *places, *keys
        return self._input(out.type.shape, places, _rows_of(positions, places), source, origin)

    def _positions(self, node: Apply) -> np.ndarray:
        """Return which elements of the flat source a lookup takes, in the shape of its result."""
        source: Any = node.inputs[0]
        index = index_of(node, 1)
        if free_inputs(node.inputs[1:]):
            raise NotReadableError("it looks coefficients up by an index that is not constant")
        numbers = tuple(map(numbers_of, index))
        named = _names(source)
        below = [np.count_nonzero(i < 0) for i in numbers if isinstance(i, np.ndarray)]
        if any(below):
            warn(
                f"the linear predictor of {self.name!r} looks up {named} by an index that is "
                f"negative in {max(below):,} places, which takes elements from the end. In pandas "
                "-1 is the code of a missing category: drop these rows, or give them a category"
            )
        order = _order(source)
        try:
            return np.asarray(order[numbers])
        except IndexError as error:
            raise ValueError(
                f"the linear predictor of {self.name!r} looks up elements of {named}, of shape "
                f"{order.shape}, and {error}; number the groups from 0"
            ) from None

    def _join(self, node: Apply, places: Places) -> Rule:
        """Pass concatenated columns; rows of several terms are a sum, zero in place of others."""
        parts, n = node.inputs, node.outputs[0].type.ndim
        along = node.op.axis % n
        if along not in places:
            rows = []
            for part in parts:
                rows.append((yield part, places))
            return pt.join(along, *rows)
        lengths = [part.type.shape[along] for part in parts]
        if self.any_rows or None in lengths:
            raise NotReadableError(*JOINS_ROWS)
        at = places[along]
        at = np.arange(sum(lengths)) if at is None else at
        total: Any = 0.0
        for part, stop in zip(parts, np.cumsum(lengths), strict=True):
            start = stop - part.type.shape[along]
            own = (at >= start) & (at < stop)
            if own.any():
                mask = own.astype(np.float64).reshape(-1, *[1] * (n - 1))
                # A row of the term replaces other rows: one that is not taken may hold anything.
                numbers = np.where(own, at, at[own.argmax()]) - start
                row = yield part, {**places, along: numbers}
                total += self._input(mask.shape, {0: None}, mask) * row
        return total

    def _set(self, node: Apply, places: Places) -> Rule:
        """Pass columns that are set or incremented: ``set_subtensor(zeros[:, 1:], X @ B)``."""
        base, value, *inner = node.inputs
        index = index_of(node, 2)
        if any(index[k] != slice(None) for k in places) or not all(map(self._is_constant, inner)):
            raise not_linear(node)  # some rows are set
        kept = [k for k, each in enumerate(index) if isinstance(each, slice)]
        missing = len(kept) - value.type.ndim
        row = yield base, places
        new = yield (
            value,
            {kept.index(k) - missing: places[k] for k in places if kept.index(k) >= missing},
        )
        row = _filled(row, base, places)
        change = pt.set_subtensor if node.op.set_instead_of_inc else pt.inc_subtensor
        return change(row[tuple(index)], new)


RULES: dict[type, Callable[[OneRow, Any, Places], Rule]] = {
    ViewOp: OneRow._view,
    SpecifyShape: OneRow._view,
    Alloc: OneRow._alloc,
    DimShuffle: OneRow._dimshuffle,
    Reshape: OneRow._reshape,
    Sum: OneRow._sum,
    Dot: OneRow._dot,
    SparseDot: OneRow._sparse_dot,
    StructuredDot: OneRow._sparse_dot,
    Subtensor: OneRow._subtensor,
    AdvancedSubtensor: OneRow._indexed,
    Join: OneRow._join,
    IncSubtensor: OneRow._set,
}
#: Rows go through constant graphs of these, as they compute no data.
_VIEWS = frozenset({ViewOp, SpecifyShape, ps.Identity, ps.Second, DimShuffle, Alloc})


def _rule_of(v: Any) -> Callable[[OneRow, Any, Places], Rule] | None:
    if v.owner is None:
        return None
    return OneRow._elemwise if isinstance(v.owner.op, Elemwise) else RULES.get(op_type(v.owner))


def _rows_of(array: np.ndarray, places: Places) -> np.ndarray:
    """Return an array's rows, (N, ...): a view where rows are as they are."""
    front = np.moveaxis(array, list(places), range(len(places)))
    positions = tuple(at for at in places.values() if at is not None)
    return front[positions] if positions else front


def _filled(row: Any, like: Any, places: Places) -> Any:
    """Return a row that is broadcast to the shape that a variable's row has."""
    shape = tuple(1 if k in places else n for k, n in enumerate(like.type.shape))
    if row.type.shape == shape:
        return row
    if None in shape:
        raise NotReadableError("the length of a broadcast axis in it is unknown")
    return pt.alloc(row, *shape)


def _real(numbers: np.ndarray) -> np.ndarray:
    if numbers.dtype.kind not in "fiub":
        raise NotReadableError(f"its data are of dtype {numbers.dtype}, not real numbers")
    return numbers


def _as_same(v: Any, places: Places) -> Any:
    """Return a constant's first row if all are the same, or else the constant."""
    numbers = evaluate(v)
    first = numbers[tuple(slice(0, 1) if k in places else slice(None) for k in range(v.ndim))]
    return pt.constant(first) if np.all(numbers == first) else v


def _order(v: Any) -> np.ndarray:
    """Return the positions of a variable's elements, in its shape."""
    if None in v.type.shape:
        raise NotReadableError(f"it looks up elements of {_names(v)}, whose shape is unknown")
    return np.arange(known_size(v), dtype=np.int32).reshape(v.type.shape)


def _names(source: TensorVariable) -> str:
    """Return the name of a looked-up term, or of the variables that it is computed from."""
    names = [source.name] if source.name else [v.name for v in free_inputs([source])]
    return repr(names[0] if len(names) == 1 else names)


def _is_sum_of_effects(v: Any) -> bool:
    """Return whether a tensor is a sum of terms that have fewer axes."""
    # (a[:, None] + b)[g, h] is a[g] + b[h]: effects of two factors, not one effect per pair.
    todo = [v]
    while todo:
        node = below_views(todo.pop()).owner
        if v.type.ndim < 2 or node is None or op_type(node) not in (ps.Add, ps.Sub):
            return False
        todo += [u for u in node.inputs if u.type.broadcastable == v.type.broadcastable]
    return True


def _are_distinct(positions: np.ndarray) -> bool:
    """Return whether no element of a term is looked up more than once."""
    # This tells rows of a term of data from effects of groups that are functions of data.
    return int(np.bincount(positions.ravel()).max(initial=0)) <= 1


def is_of_data(var: TensorVariable, length: int) -> bool:
    """Return whether data are as long as a term, or as its parts that are indexed or joined."""
    todo: list[tuple[Any, int]] = [(var, length)]
    seen, checked = set(todo), set()
    while todo:
        v, n = todo.pop()
        if n not in checked:
            # Rows of what is repeated are as good as data, and so are the rows of a table.
            kinds = Alloc | Reshape
            given = (u for u in ancestors([v]) if u.owner is None or isinstance(u.owner.op, kinds))
            if any(n in u.type.shape for u in given if u.owner or isinstance(u, TensorConstant)):
                return True
            checked.add(n)
        if v.owner is None:
            continue
        parts = [u for u in v.owner.inputs if isinstance(u.type, TensorType)]
        if isinstance(v.owner.op, Join | Subtensor | AdvancedSubtensor):
            below = {(u, m) for u in parts for m in u.type.shape if m is not None and m > 1}
        else:
            below = {(u, n) for u in parts if n in u.type.shape}
        todo += below - seen
        seen |= below
    return False
