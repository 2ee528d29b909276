"""Labels of groups: the coordinates of the effects that a model's containers index."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pymc.model.core import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import toposort
from pytensor.scalar.basic import Cast
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor, indices_from_subtensor

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
    """

    indexed: Mapping[Index, Sequence[Any]] = field(default_factory=dict)
    coords: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def of_index(self, container: str, place: int) -> Sequence[Any] | None:
        """Return the coordinates that a column of a container indexes."""
        return self.indexed.get((container, place), self.indexed.get((container, None)))

    def of_name(self, container: str, column: Any) -> Sequence[Any] | None:
        """Return the coordinates that have the name of a container or of a column."""
        return self.coords.get(container, self.coords.get(str(column)))


def labels_of(model: Model) -> Labels:
    """Return the labels of groups that a model has.

    In ``pm.Normal("effect", dims="carrier")[number]`` the container `number` holds places among the
    coordinates of `carrier`.

    Raises
    ------
    ValueError
        If a container indexes effects of different coordinates.
    """
    coords = {name: list(each) for name, each in model.coords.items() if each is not None}
    found: dict[Index, str] = {}
    for node in toposort([*model.basic_RVs, *model.potentials, *model.deterministics]):
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
    return Labels({of: coords[dim] for of, dim in found.items()}, coords)


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
