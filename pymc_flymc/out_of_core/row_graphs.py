"""Graphs of observed variables as regressions on all rows: some are two, with weights."""

from dataclasses import dataclass, replace
from typing import Any

import pymc as pm
import pytensor.tensor as pt
from pymc.model.core import Model
from pytensor.graph.replace import graph_replace
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import Shapes, evaluate, free_inputs, freeze
from pymc_flymc.likelihoods import LIKELIHOODS, NegativeBinomialFree, Normal
from pymc_flymc.likelihoods.free_alpha import NegativeBinomialSmooth
from pymc_flymc.likelihoods.likelihood import (
    JointlySmoothLikelihood,
    Likelihood,
    RowParameters,
    SmoothLikelihood,
)
from pymc_flymc.likelihoods.refusals import nothing_supported
from pymc_flymc.likelihoods.zeros import without_hurdle
from pymc_flymc.reading.levels import known_cutpoints
from pymc_flymc.reading.observed import observed_graph
from pymc_flymc.reading.observed_rows import parameters_of
from pymc_flymc.reading.weights import without_weights


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
