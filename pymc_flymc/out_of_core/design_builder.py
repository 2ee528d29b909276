"""Builds rows of a design from rows of data containers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.model.core import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import Shapes, check_integers, evaluate, free_inputs, freeze
from pymc_flymc.likelihoods import LIKELIHOODS, NegativeBinomialFree, Normal
from pymc_flymc.likelihoods.checks import check_values, nothing_supported
from pymc_flymc.likelihoods.free_alpha import NegativeBinomialSmooth
from pymc_flymc.likelihoods.likelihood import (
    JointlySmoothLikelihood,
    Likelihood,
    RowParameters,
    SmoothLikelihood,
)
from pymc_flymc.likelihoods.weighted import weighted_family
from pymc_flymc.likelihoods.zero_inflated import without_hurdle
from pymc_flymc.out_of_core.source import Values
from pymc_flymc.reading.observed_rows import known_cutpoints, parameters_of
from pymc_flymc.reading.predictor import split_predictor
from pymc_flymc.reading.variables import observed_graph, outcomes_of
from pymc_flymc.reading.weights import read_weights, without_weights
from pymc_flymc.regression.design import Design


def cast_rows(array: np.ndarray, dtype: np.dtype, name: str) -> np.ndarray:
    """Return finite rows in the type of the container `name`; refuse values that it cannot hold."""
    # A float becomes a shorter float by rounding, as in PyMC. No other value changes.
    if array.dtype == dtype:
        return array
    with np.errstate(invalid="ignore", over="ignore"):
        found = array.astype(dtype)
        if array.dtype.kind == dtype.kind == "f":
            good = np.isfinite(found)
        else:
            # An integer that wraps around there and back compares equal, but its sign differs.
            good = (found.astype(array.dtype) == array) & ((found < 0) == (array < 0))
    if not good.all():
        raise ValueError(
            f"the data of {name!r} hold {array[~good].flat[0]}, which is no value of the model's "
            f"container, of {dtype}: write the model on rows in a type that holds all values "
            f'(as floats: pm.Data("{name}", rows.astype("float64"))), or number groups from 0'
        )
    return found


@dataclass(frozen=True)
class RowGraphs:
    """One regression on all rows, in graphs of value variables and containers.

    Attributes
    ----------
    name : str
    parameters : RowParameters
    observed : TensorVariable
        The observed values of the regression.
    weights : TensorVariable, optional
        Weights of the rows; zero for a row that has no part in the regression.
    chances : TensorVariable, optional
        Data: the probability of what each row is, zero or above zero, if psi of a hurdle is given.
        The posterior does not depend on it, but there is none where a row is impossible.
    """

    name: str
    parameters: RowParameters
    observed: TensorVariable
    weights: TensorVariable | None
    chances: TensorVariable | None = None

    @property
    def terms(self) -> TensorVariable | None:
        """Terms of each row's log-likelihood that its family does not have, or None."""
        rest = self.parameters.rest
        if rest is None:
            return None
        weights: Any = pt.ones_like(self.observed) if self.weights is None else self.weights
        return rest * weights


def row_graphs_of(
    model: Model,
    rv: TensorVariable,
    form: TensorVariable,
    owned: list[TensorVariable],
    shapes: Shapes,
) -> list[RowGraphs]:
    """Return the regressions of an observed variable: one, or two.

    A variable with a hurdle has one of its values above zero, and one of whether values are above
    zero. Ordered levels have one of comparisons with the cutpoints below them, and one of those
    with the cutpoints above them. Rows that have no part in a regression have a weight of zero
    there, because which rows these are is known only when they are read.

    Parameters
    ----------
    model : Model
    rv : TensorVariable
        The observed variable.
    form : TensorVariable
        What is read: the variable itself, or one of the same distribution.
    owned : list of TensorVariable
        Value variables that the step samples.
    shapes : mapping
        Shapes of all value variables.

    Raises
    ------
    UnsupportedModelError
        If the family is not one that independent proposals sample.
    """
    inner, weights = without_weights(form)
    inner, psi = without_hurdle(inner)
    name, families = str(rv.name), _families()
    if not any(family.matches(inner) for family in families):
        raise UnsupportedModelError(nothing_supported(model))
    if rv.ndim - rv.owner.op.ndim_supp != 1:
        raise UnsupportedModelError(
            f"rows given by data= have one observed value each, and {name!r} has {rv.ndim} "
            "dimensions. Write it with a row for each value, or without data="
        )
    observed: Any = observed_graph(model, rv)

    def read(inner: TensorVariable, values: TensorVariable | None = None) -> RowParameters:
        found = parameters_of(model, rv, inner, owned, shapes, values, families)
        _check_likelihood(found, name)
        return _with_unit_of_head(found)

    if psi is not None:
        # Values below zero stay what they are, and are refused where they are read.
        above: Any = pt.neq(observed, 0)
        filled: Any = pt.switch(above, observed, 1)
        parameters = read(inner, filled.astype(inner.dtype))
        given = None if free_inputs([psi]) else pt.switch(above, psi, 1.0 - psi)
        parts = [RowGraphs(name, parameters, filled, _only(above, weights), given)]
        if given is None:  # otherwise zeros have no information on the parameters
            logit: Any = pt.log(psi) - pt.log1p(-psi) + pt.zeros_like(observed, "float64")
            zeros = pm.Bernoulli.dist(**({"p": psi} if psi.ndim else {"logit_p": logit}))
            whether = read(zeros, above)
            parts.append(RowGraphs(f"{name} > 0", whether, above.astype("int8"), weights))
        return parts
    parameters = read(inner)
    if parameters.cutpoints is not None:
        return _comparisons(name, parameters, observed, weights, shapes)
    return [RowGraphs(name, parameters, observed, weights)]


def _comparisons(
    name: str,
    parameters: RowParameters,
    observed: Any,
    weights: TensorVariable | None,
    shapes: Shapes,
) -> list[RowGraphs]:
    """Return the comparisons of ordered levels with the cutpoints next to them.

    See `read_levels`, which has rows of both in one regression.
    """
    cutpoints: Any = parameters.cutpoints
    # Only their number is used: cutpoints with the current data would be those of the first rows.
    _, k = known_cutpoints(parameters, shapes, name)
    known = (observed >= 0) & (observed <= k) & pt.eq(observed, pt.floor(observed))
    level = observed.astype("int64")
    plain = replace(parameters, cutpoints=None)

    def compared(has: Any, place: Any, outcome: int, terms: Any = None) -> RowGraphs:
        predictors = plain.predictors - cutpoints[pt.clip(place, 0, k - 1)]
        # An impossible level stays what it is, and is refused where it is read.
        y = pt.switch(known, outcome, observed)
        own = replace(plain, predictors=predictors, rest=terms)
        return RowGraphs(name, own, y, _only(has | ~known, weights))

    terms: Any = None
    if k > 1 and free_inputs([cutpoints]):
        steps, zero = cutpoints[1:] - cutpoints[:-1], pt.zeros((1,))
        of_levels = pt.switch(steps > 0.0, pt.log1mexp(-steps), -pt.inf)
        terms = pt.join(0, zero, of_levels, zero)[pt.clip(level, 0, k)]
    return [compared(level > 0, level - 1, 1, terms), compared(level < k, level, 0)]


def _only(of_rows: Any, weights: TensorVariable | None) -> TensorVariable:
    """Return weights, by default ones, for some of the rows, and zero for the others."""
    own = of_rows.astype("float64")
    return own if weights is None else own * weights  # type: ignore[no-any-return]


def _with_unit_of_head(parameters: RowParameters) -> RowParameters:
    """Return parameters whose unit is a number if it is computed from the outcomes.

    Any number is valid. That of the model's own rows is close enough to that of all rows.
    """
    unit = parameters.unit
    if unit is None or unit.ndim:
        return parameters
    number: Any = pt.constant(evaluate(freeze(unit, {})))
    known: dict[Any, Any] = {unit: number}
    predictors: Any = graph_replace([parameters.predictors], known, strict=False)[0]
    return replace(parameters, predictors=predictors, unit=number)


def _check_likelihood(parameters: RowParameters, name: str) -> None:
    """Refuse likelihoods that independent proposals do not sample."""
    kinds = SmoothLikelihood | JointlySmoothLikelihood | Normal
    if not isinstance(parameters.likelihood, kinds):
        raise UnsupportedModelError(
            f"rows given by data= are sampled by joint moves, which are for normal noise and for "
            f"smooth likelihoods without nuisance parameters, and {name!r} is of the family "
            f"{parameters.likelihood.name}. Put the rows into the model, without data="
        )


def _families() -> list[Likelihood]:
    """Return the registered families, in forms for independent proposals where there are two."""
    return [
        NegativeBinomialSmooth() if isinstance(family, NegativeBinomialFree) else family
        for family in LIKELIHOODS
    ]


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
