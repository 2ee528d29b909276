"""Builds rows of a design from rows of data containers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.graphs.integers import check_integers
from pymc_flymc.graphs.tools import Shapes, evaluate, freeze
from pymc_flymc.likelihoods.likelihood import Likelihood
from pymc_flymc.likelihoods.value_checks import check_values
from pymc_flymc.likelihoods.weighted import weighted_family
from pymc_flymc.out_of_core.row_graphs import RowGraphs
from pymc_flymc.out_of_core.source import Values
from pymc_flymc.reading.casts import cast_rows
from pymc_flymc.reading.observed import outcomes_of
from pymc_flymc.reading.predictor import split_predictor
from pymc_flymc.reading.weights import read_weights
from pymc_flymc.regression.design import Design

#: The containers that a source has rows of, by name.
Containers = Mapping[str, SharedVariable]


@dataclass(frozen=True)
class DesignBuilder:
    """Builds rows of a design from rows of containers, by traversing the model's own graphs again.

    Attributes
    ----------
    graphs : RowGraphs
    containers, shapes : mapping
    like : tuple of int
        `columns_of` the design that was read from the model's own rows.
    narrow : tuple of str
        Containers that are used as dense columns as they are, and nowhere else. Nothing is computed
        from them, so that their float32 values are exact and need not be converted before they are
        multiplied.
    """

    graphs: RowGraphs
    containers: Containers
    shapes: Shapes
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
        graphs, values = self.graphs, self.values(rows)
        self._check_chances(n, values)
        observed = self.observations(values)
        design = self._split(graphs.parameters.predictors, n, values)
        design = replace(design, n_nuisances=len(graphs.parameters.nuisances))
        if columns_of(design) != self.like:
            raise ValueError(
                f"the rows of {graphs.name!r} have other columns, {columns_of(design)}, than those "
                f"of the model, {self.like}; please report this model"
            )
        y = outcomes_of(graphs.parameters, observed, graphs.name, values)
        if graphs.weights is not None:
            y = weighted_family(graphs.parameters.likelihood, y, self._weights(n, values))[1]
        return design, y

    @property
    def likelihood(self) -> Likelihood:
        """The family of the rows, with weights if they have some."""
        family, none = self.graphs.parameters.likelihood, np.empty(0)
        return family if self.graphs.weights is None else weighted_family(family, none, none)[0]

    def sum_of_rest(self, rows: Values) -> tuple[np.ndarray, np.ndarray]:
        """Return sums of columns, and of the offset, for terms beside the family's likelihood."""
        n, rest = len(next(iter(rows.values()))), self.graphs.parameters.rest
        assert rest is not None
        if n < 2:  # as above
            both = self.sum_of_rest(
                {name: np.repeat(each, 2, axis=0) for name, each in rows.items()}
            )
            return 0.5 * n * both[0], 0.5 * n * both[1]
        values = self.values(rows)
        design = self._split(rest, n, values)
        weights = self._weights(n, values)
        offset = weights @ design.offset if design.offset.size else np.zeros(1)
        return design.sum_rows(weights), offset

    def _split(
        self, graph: TensorVariable, n: int, values: Mapping[Variable, np.ndarray]
    ) -> Design:
        name = self.graphs.name
        design = split_predictor(graph, n, name, self.shapes, values).design
        # Of what the model computes from data only the first rows have been looked at.
        for what, bad in design.count_bad_rows().items():
            if bad:
                raise ValueError(
                    f"the {what} of {name!r} has NaN or infinite values in {bad} of {n} rows, "
                    "though the data have none: a scale or an exposure that is not positive and "
                    "finite, the logarithm of zero; drop or impute these rows"
                )
        return design

    def _check_chances(self, n: int, values: Mapping[Variable, np.ndarray]) -> None:
        """Refuse rows that are impossible by a psi that is given."""
        if self.graphs.chances is None:
            return
        chances = np.broadcast_to(evaluate(freeze(self.graphs.chances, {}, values)), (n,))
        good, expected = (chances > 0.0) & (chances <= 1.0), "above 0 and at most 1"
        check_values(good, chances, f"the probability of {self.graphs.name}, by psi,", expected)

    def _weights(self, n: int, values: Mapping[Variable, np.ndarray]) -> np.ndarray:
        if self.graphs.weights is None:
            return np.ones(n)
        return read_weights(freeze(self.graphs.weights, {}, values), (n,), self.graphs.name)

    def values(self, rows: Values) -> dict[Variable, np.ndarray]:
        """Return rows by containers, in the types that these have.

        Raises
        ------
        ValueError
            If a value does not have its container's type.
        """
        found: dict[Variable, np.ndarray] = {}
        for name, container in self.containers.items():
            array, dtype = rows[name], np.dtype(container.type.dtype)
            if not (name in self.narrow and array.dtype == np.float32):
                array = cast_rows(array, dtype, name)
            # Arrays that came over a network may be unaligned.
            found[container] = np.require(array, None, ["C", "A"])
        return found

    def observations(self, values: Mapping[Variable, np.ndarray]) -> np.ndarray:
        """Return observed values as they are."""
        frozen = freeze(self.graphs.observed, {}, values)
        check_integers(frozen, f"the observed variable {self.graphs.name!r}")
        return evaluate(frozen)


def columns_of(design: Design) -> tuple[int, ...]:
    """Return the numbers of columns that all designs of the same predictor have in common."""
    return design.X.shape[1], int(design.intercept), design.n_sparse, design.n_predictors
