"""From rows of data containers to those of a design."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.graphs.integers import check_integers
from pymc_flymc.graphs.tools import evaluate, freeze
from pymc_flymc.likelihoods import RowParameters
from pymc_flymc.out_of_core.source import Values
from pymc_flymc.reading.casts import cast_rows
from pymc_flymc.reading.observed import outcomes_of
from pymc_flymc.reading.predictor import split_predictor
from pymc_flymc.regression.design import Design

__all__ = ["Containers", "DesignBuilder", "columns_of"]

#: The containers that a source has rows of, by name.
Containers = Mapping[str, SharedVariable]


@dataclass(frozen=True)
class DesignBuilder:
    """From rows of containers to those of a design: the model's own graphs, walked again.

    Attributes
    ----------
    name : str
        Of the observed variable.
    parameters : RowParameters
        Graphs of value variables and containers.
    observed : TensorVariable
        Graph of the observed values.
    containers, shapes : mapping
    like : tuple of int
        Columns of the design as it was read of the model's own rows: dense, with an intercept or
        not, sparse.
    narrow : tuple of str
        Containers that are the dense columns as they are, and nothing else: nothing is computed of
        them, so that float32 values stand for exact numbers and need not be converted before they
        are multiplied.
    """

    name: str
    parameters: RowParameters
    observed: TensorVariable
    containers: Containers
    shapes: Mapping[Variable, tuple[int, ...]]
    like: tuple[int, ...] = ()
    narrow: tuple[str, ...] = ()

    def __call__(self, rows: Values) -> tuple[Design, np.ndarray]:
        """Return a design of these rows, and their observed values.

        Raises
        ------
        ValueError
            If values are impossible, or if the rows are not of the form of the model's own.
        """
        n = len(next(iter(rows.values())))
        if n < 2:  # to PyTensor an axis of length one is no axis of rows
            design, y = self({name: np.repeat(each, 2, axis=0) for name, each in rows.items()})
            return design.rows(slice(0, n)), y[:n]
        values = self.values(rows)
        observed = self.observations(values)
        eta = self.parameters.predictors
        design = split_predictor(eta, n, self.name, self.shapes, values).design
        if columns_of(design) != self.like:
            raise ValueError(
                f"the rows of {self.name!r} have other columns, {columns_of(design)}, than those "
                f"of the model, {self.like}; please report this model"
            )
        return design, outcomes_of(self.parameters, observed, self.name, values)

    def values(self, rows: Values) -> dict[Variable, np.ndarray]:
        """Return rows by containers, in the types that these have.

        Raises
        ------
        ValueError
            If a value is none of its container's type.
        """
        found: dict[Variable, np.ndarray] = {}
        for name, container in self.containers.items():
            array, dtype = rows[name], np.dtype(container.type.dtype)
            if not (name in self.narrow and array.dtype == np.float32):
                array = cast_rows(array, dtype, name)
            # What came over a network may lie between the bytes.
            found[container] = np.require(array, None, ["C", "A"])
        return found

    def observations(self, values: Mapping[Variable, np.ndarray]) -> np.ndarray:
        """Return observed values as they are."""
        frozen = freeze(self.observed, {}, values)
        check_integers(frozen, f"the observed variable {self.name!r}")
        return evaluate(frozen)


def columns_of(design: Design) -> tuple[int, ...]:
    """Return what designs of the same predictor have in common."""
    return design.X.shape[1], int(design.intercept), design.n_sparse, design.n_predictors
