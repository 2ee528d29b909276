"""Refuse a model if what was read of it differs from the model itself.

The check does not depend on how a model is read. At a thousand rows and some points it compares
log-likelihoods of rows, as a step computes them, with those of the model's own graph. The rest is
compared, too: priors, Jacobians, potentials. A difference beyond the rounding errors of both sides
is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pymc.model.core import Model
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.agreement.all_of_graph import AllOfGraph
from pymc_flymc.agreement.chosen_rows import ROWS, choose_rows
from pymc_flymc.agreement.compared_points import Points
from pymc_flymc.agreement.compared_rows import ComparedRows
from pymc_flymc.agreement.evaluation import of_graph, of_rows
from pymc_flymc.agreement.gathering import NotGatheredError
from pymc_flymc.agreement.undefined import (
    Expected,
    check_defined,
    check_possible,
    points_around,
)
from pymc_flymc.agreement.values import (
    Evaluate,
    NotKnownError,
    Values,
    confirmed_disagreement,
)
from pymc_flymc.anchor.anchor import Anchor
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import fold_constants, freeze
from pymc_flymc.reading.flat import LONG, DensityGraph, Layout
from pymc_flymc.reading.model import ModelReading
from pymc_flymc.reading.observed import size_of
from pymc_flymc.reading.variables import value_shapes
from pymc_flymc.regression.regression import Regression
from pymc_flymc.reporting import doing, log

#: Distances from the anchor, in units of the Laplace approximation.
SCALES = (0.0, 1.0, 1.0, 3.0, 10.0)
#: Number of points at which terms of all rows are added up, each in a pass over the rows.
OF_ALL_ROWS = 4


class Comparison(NamedTuple):
    """A part of the log density that is compared.

    Attributes
    ----------
    what : str
    evaluate : callable
    expected : callable
        The model's own side.
    rows : ComparedRows, optional
        If the part is the log-likelihood of some rows.
    numbers : ndarray of int, optional
        Numbers of these rows, for messages.
    """

    what: str
    evaluate: Evaluate
    expected: Expected
    rows: ComparedRows | None = None
    numbers: np.ndarray | None = None


@doing("comparing what was read with the model itself")
def check_agreement(
    model: Model,
    reading: ModelReading,
    graph: DensityGraph,
    anchor: Anchor,
    layouts: tuple[Layout, Layout],
    start: np.ndarray,
    others: np.ndarray,
) -> None:
    """Compare what was read of a model with the model itself.

    Parameters
    ----------
    model : Model
    reading : ModelReading
    graph : DensityGraph
        The density that the step made from it.
    anchor : Anchor
    layouts : (Layout, Layout)
        Layouts of the step's variables, and of those of other steps.
    start, others : ndarray, shapes (D,) and (F,)
        Values of both at the initial point.

    Raises
    ------
    UnsupportedModelError
        If they differ by more than rounding.
    """
    rng = np.random.default_rng(20261123)
    layout, n = layouts[0], len(start)
    thetas = [anchor.geometry.unwhiten(s * rng.standard_normal(n)) for s in SCALES]
    thetas += [start, start + rng.uniform(-1.0, 1.0, n)]
    flat = [(layout.round(theta), others) for theta in thetas]
    points = Points(*layouts, graph, flat)
    compared = []
    for each in _comparisons(model, reading, anchor, points, rng):
        compared.append(each)
        try:
            _compare(each, points)
        except NotGatheredError as error:
            log.info(f"{each.what} could not be compared with the model's own: {error}")
        except NotKnownError as error:
            log.warning(f"{each.what} could not be compared with the model's own: {error}")
    around = points_around(anchor, points, rng)
    check_defined(around, [each.expected for each in compared])
    check_possible(around, [each.rows for each in compared if each.rows is not None])


def _comparisons(
    model: Model,
    reading: ModelReading,
    anchor: Anchor,
    points: Points,
    rng: np.random.Generator,
) -> Iterator[Comparison]:
    shapes, first, all_terms = value_shapes(model), 0, []
    all_sums: list[TensorVariable] = []
    logps = dict(zip([*model.basic_RVs, *model.potentials], model.logp(sum=False), strict=True))
    for rv, read in reading.taken.items():
        part = slice(first, first + len(read.parts))
        regressions: Sequence[Regression] = reading.regressions[part]
        members, terms, logp = [each.rows for each in read.parts], None, logps.pop(rv)
        stored = regressions[0].design.stored
        if stored is None:
            numbers, logp = np.arange(size_of(model, rv)), freeze(logp, shapes)
            if read.terms is not None:
                terms = freeze(read.terms, shapes)
                all_terms.append(terms)
        else:  # out of core: a sample of the rows, in the model's own containers
            stride = max(1, stored.n_rows // (2 * ROWS))
            samples = [
                each.design.stored.sample(stride) for each in regressions if each.design.stored
            ]
            values = samples[0].containers()
            numbers, logp = samples[0].numbers, freeze(logp, shapes, values)
            if read.terms is not None:  # for all rows only their sum is known
                terms = freeze(read.terms, shapes, values)
                all_sums.append(fold_constants(freeze(read.rest, shapes), LONG))
            regressions = [
                replace(each, design=own.design, y=own.y)
                for each, own in zip(regressions, samples, strict=True)
            ]
            members = [np.arange(len(numbers))] * len(regressions)
        chosen = choose_rows(regressions, members, anchor.parts[part], len(numbers), rng)
        rows = ComparedRows(chosen, len(numbers), regressions, members, first, logp, terms)
        yield Comparison(
            f"the log-likelihood of {rv.name!r}",
            partial(rows.evaluate, points),
            rows.expected,
            rows,
            numbers[chosen],
        )
        first = part.stop
    others: list[Any] = [pt.as_tensor(v, allow_xtensor_conversion=True) for v in logps.values()]
    total = reduce(add, (v.astype("float64").sum() for v in others), pt.constant(0.0))
    rest = fold_constants(freeze(total, shapes), LONG)
    # Terms of all rows are added up at few points, since each takes a pass over the rows.
    few = slice(OF_ALL_ROWS if all_terms else None)

    def of_all_else(draws: int) -> tuple[Values, Values]:
        own = points.read(draws)[0].at(few)
        for terms in all_terms:
            every = AllOfGraph(np.arange(terms.type.shape[0]))
            # Errors are drawn for the sum alone: terms that cancel here also cancel in it.
            own = own + -of_rows(terms, every, points.named[few], 0).sums()
        for of_stored in all_sums:
            own = own + -of_graph(of_stored, points.named[few], 0)
        return own, of_graph(rest, points.named[few], draws)

    def expected(points: Points, with_checks: bool) -> Values:
        return of_graph(rest, points.named, 0)

    what = "the log density of priors, potentials and small observed variables"
    yield Comparison(what, of_all_else, expected)


def _compare(part: Comparison, points: Points) -> None:
    found = confirmed_disagreement(part.evaluate)
    if found is None:
        return
    own, expected, (t, base, i) = found
    at, base_at = points.describe(t), points.describe(base)
    row = "" if part.numbers is None else f" in row {part.numbers[i]:,}"
    raise UnsupportedModelError(
        f"{part.what}, as Firefly reads it, is not the model's own{row}. At "
        f"({at}) the model's is {expected.values[t, i]:.12g}, and Firefly reads "
        f"{own.values[t, i]:.12g}; at ({base_at}) they are {expected.values[base, i]:.12g} and "
        f"{own.values[base, i]:.12g}, and both must change by the same. If the likelihood is close "
        "to one of a supported family and not of it, write it as one of your own, see "
        "register_likelihood; else please report this model"
    )
