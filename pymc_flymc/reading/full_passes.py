"""Parts of a model that read all rows at each update, whatever the step does."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytensor.tensor as pt
from pymc.model.core import Model
from pytensor.graph.traversal import toposort
from pytensor.scan.op import Scan
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import warn
from pymc_flymc.graphs.tools import ConstantParts, Shapes, evaluate, freeze, known_size

#: A part that is evaluated in full at each update is reported above this share of the rows,
_NOTABLE_SHARE = 0.1
#: and above this many numbers per parameter: a prior of many parameters is not a pass over data.
_PER_PARAMETER = 2
#: ... and if that takes as long as some hundred rows in turn.
_FEWEST_MILLISECONDS = 0.05


@dataclass(frozen=True)
class FullPass:
    """A part of a model that is evaluated in full at each update."""

    what: str  #: The part, with its name.
    size: int  #: Number of elements of its largest array.
    reason: str = ""  #: Why its rows are not subsampled, or empty.

    def __str__(self) -> str:
        reason = f"; {self.reason}" if self.reason else ""
        return f"{self.what} ({self.size:,} numbers{reason})"


def find_full_passes(
    model: Model,
    taken: Mapping[TensorVariable, TensorVariable],
    terms: Mapping[TensorVariable, TensorVariable],
    shapes: Shapes,
    refused: Mapping[str, str],
) -> tuple[FullPass, ...]:
    """Return the parts of a model that evaluate arrays of the size of the data at each update."""
    n_parameters = sum(math.prod(shapes[v]) for v in model.value_vars)
    n_rows = max(evaluate(model.rvs_to_values[rv]).size for rv in taken)
    notable = _NOTABLE_SHARE * n_rows
    graphs: Any = [*terms.values(), *(w.sum() for w in taken.values())]
    # They are copied as one graph, so that common subgraphs are copied once.
    together: Any = freeze(pt.add(0.0, *graphs), shapes)
    found = []
    for v, graph in zip([*terms, *taken], together.owner.inputs[1:], strict=True):
        is_observed = v in model.observed_RVs and v not in taken
        rows = evaluate(model.rvs_to_values[v]).size if is_observed else 0
        size = max(_sizes(graph), default=0)
        if rows > notable or size > max(notable, _PER_PARAMETER * n_parameters):
            what = f"the coefficients of {v.name!r}" if v in taken else _describe(model, v)
            found.append(FullPass(what, max(rows, size), refused.get(str(v.name), "")))
    return tuple(found)


def _sizes(graph: TensorVariable) -> Iterator[int]:
    """Yield the known sizes of the arrays of a graph that change with a variable."""
    is_constant = ConstantParts([graph])
    for node in toposort([graph]):
        if not is_constant(node.outputs[0]):
            # A loop reads its inputs element by element.
            read = node.inputs if isinstance(node.op, Scan) else []
            yield from map(known_size, [*node.outputs, *read])


def _describe(model: Model, v: TensorVariable) -> str:
    if v in model.potentials:
        return f"the potential {v.name!r}"
    if v in model.free_RVs:
        return f"the prior of {v.name!r}"
    return f"the observed variable {v.name!r}"


def per_row(model: Model, rows: Sequence[int], shapes: Shapes) -> dict[str, int]:
    """Return deterministic variables with a value for each row of a likelihood, and that number."""
    graphs = model.replace_rvs_by_values(model.deterministics)
    return {
        str(v.name): max(found)
        for v, graph in zip(model.deterministics, graphs, strict=True)
        if (found := set(rows) & _lengths(freeze(graph, shapes)))
    }


def _lengths(variable: TensorVariable) -> set[int | None]:
    """Return the lengths of an array's axes, and the number of its elements."""
    return {*variable.type.shape, known_size(variable)}


def warn_of_full_passes(
    passes: Sequence[FullPass], names: Sequence[str], seconds: Callable[[], float]
) -> None:
    """Warn of parts of the model that are evaluated in full, and of the seconds that this takes."""
    milliseconds = 1e3 * seconds() if passes else 0.0
    if milliseconds < _FEWEST_MILLISECONDS:
        return
    listed = " and ".join(str(each) for each in passes)
    warn(
        f"Firefly subsamples the rows of {' and '.join(map(repr, names))} only. Evaluated in full "
        f"at each update of the parameters, in about {milliseconds:.2g} ms that likelihood_queries "
        f"does not count: {listed}. Compute before the model "
        "what no variable changes, and write what rows say as an observed variable of a supported "
        "likelihood, or one of your own"
    )
