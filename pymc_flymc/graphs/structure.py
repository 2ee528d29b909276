"""Names of what graphs compute, without the arrays that they hold."""

import re
from collections.abc import Sequence
from hashlib import blake2b

from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import toposort

from pymc_flymc.graphs.content_hash import arrays_of


def structure_of(graphs: Sequence[Variable]) -> str:
    """Return a name of graphs' operations, names, types, and scalar constants, for any process."""
    return blake2b("\n".join(_lines(graphs)).encode(), digest_size=16).hexdigest()


def without_addresses(text: str) -> str:
    """Return Python's text for an object without its address, which differs from run to run."""
    return re.sub("( at )?0x[0-9a-fA-F]+", "", text)


def _lines(graphs: Sequence[Variable]) -> list[str]:
    lines: list[str] = []
    numbers: dict[Variable, int] = {}

    def number(variable: Variable) -> int:
        if variable not in numbers:
            numbers[variable] = len(numbers)
            value = ""
            if isinstance(variable, Constant) and not any(a.ndim for a in arrays_of(variable)):
                value = str(variable.data)
            lines.append(without_addresses(f"{variable.name} {variable.type} {value}"))
        return numbers[variable]

    for node in toposort(graphs):
        lines.append(f"{[number(each) for each in node.inputs]}")
        # The names of some operations that index do not contain the index.
        op = f"{node.op} {getattr(node.op, 'idx_list', '')}"
        lines.append(without_addresses(f"{op} {[number(each) for each in node.outputs]}"))
        inner = getattr(node.op, "inner_outputs", None)
        if inner is not None:
            lines += _lines(inner)
    return [*lines, f"{[number(each) for each in graphs]}"]
