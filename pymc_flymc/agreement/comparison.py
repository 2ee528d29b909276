"""Refuse a model if what was read of it differs from the model itself."""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.model.core import Model
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.agreement.compared import ComparedRest, ComparedRows, Points
from pymc_flymc.agreement.guarded_rows import check_guards
from pymc_flymc.agreement.rounding import Values, confirmed_disagreement, disagreement
from pymc_flymc.agreement.undefined import check_defined, check_possible, points_around
from pymc_flymc.anchor.anchor import Anchor, AnchorPart
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import fold_constants, freeze
from pymc_flymc.likelihoods.links import guards_of
from pymc_flymc.reading.flat import LONG, DensityGraph, Layout
from pymc_flymc.reading.model import ModelReading
from pymc_flymc.reading.variables import size_of, value_shapes
from pymc_flymc.regression.matrices import RowMatrix
from pymc_flymc.regression.passes import map_rows
from pymc_flymc.regression.regression import Regression
from pymc_flymc.reporting import doing

#: Number of observed values that are compared; all, if there are no more.
ROWS = 1024
#: So many of the largest and of the smallest predictors, outcomes, offsets and log-likelihoods are
#: compared: at most one from each piece of `PIECE` rows.
ENDS, PIECE = 16, 512
#: Number of columns of a design, at most, whose largest value is compared.
COLUMNS = 128


def choose_rows(
    regressions: Sequence[Regression],
    members: Sequence[np.ndarray],
    anchors: Sequence[AnchorPart],
    n_values: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return numbers of observed values, sorted, shape (m,).

    `members` are those that the rows of each regression belong to; at the anchors predictors and
    log-likelihoods are large or small.
    """
    if n_values <= ROWS:
        return np.arange(n_values)
    found = [np.empty(0, np.int64)]
    for regression, own, anchor in zip(regressions, members, anchors, strict=True):
        found += [own[_extremes(regression, anchor.w)], own[_rows_of_groups(regression, rng)]]
    extreme = np.unique(np.concatenate(found))
    if len(extreme) > ROWS // 2:
        extreme = rng.choice(extreme, ROWS // 2, replace=False)
    others = rng.choice(n_values, ROWS, replace=False)  # in random order
    others = others[~np.isin(others, extreme)]
    return np.sort(np.concatenate([extreme, others[: ROWS - len(extreme)]]))


def _extremes(regression: Regression, w: np.ndarray) -> np.ndarray:
    """Return the rows of the largest and the smallest numbers, in one pass over the data."""
    design = regression.design

    def peaks(
        rows: slice, _: RowMatrix, arguments: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        columns = [*arguments[: design.n_predictors], *np.atleast_2d(y.T)]
        columns.append(regression.derivatives(arguments, y).value)
        if design.offset.size:
            columns += [*design.offset[rows].T]
        both = np.stack([*columns, *map(np.negative, columns)], dtype=np.float64)
        sizes = np.abs(design.X[rows, :COLUMNS]).T
        return *_peaks(both, rows.start), *_peaks(sizes, rows.start)

    found = zip(*map_rows(design, regression.y, w, peaks), strict=True)
    values, places, sizes, of_sizes = (np.concatenate(each, axis=1) for each in found)
    return np.concatenate([_largest(values, places, ENDS), _largest(sizes, of_sizes, 1)])


def _peaks(columns: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest number of each column in each piece, and its row: arrays (C, pieces)."""
    n = columns.shape[1]
    pieces = np.pad(columns, ((0, 0), (0, -n % PIECE)), mode="edge")
    pieces = pieces.reshape(len(columns), pieces.shape[1] // PIECE, PIECE)
    at = pieces.argmax(axis=2)
    values = np.take_along_axis(pieces, at[:, :, None], axis=2)[:, :, 0]
    rows = np.minimum(at + PIECE * np.arange(at.shape[1]), n - 1)
    return values, first + rows


def _largest(values: np.ndarray, rows: np.ndarray, k: int) -> np.ndarray:
    """Return the rows of the k largest values of each column."""
    k = min(k, values.shape[1])
    order = np.argpartition(-values, k - 1, axis=1)[:, :k]
    return np.take_along_axis(rows, order, axis=1).ravel()


def _rows_of_groups(regression: Regression, rng: np.random.Generator) -> np.ndarray:
    """Return a row of each of the smallest groups, which random rows miss, and of some others."""
    sparse = regression.design.sparse
    counts, n_groups = sparse.counts(), sparse.n_columns
    rare = np.argsort(np.where(counts, counts, len(sparse) + 1), kind="stable")[:COLUMNS]
    others = rng.integers(0, n_groups, COLUMNS) if n_groups else rare
    return sparse.first_rows(np.concatenate([rare, others]))


#: Distances from the anchor, in units of the Laplace approximation.
SCALES = (0.0, 1.0, 1.0, 3.0)


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
    """Refuse a model of which something else was read than it says.

    Compared are its `layouts`, of the step's variables and of others', and the density `graph` that
    the step made, around the anchor and near `start`, where other steps' variables are `others`.
    """
    rng = np.random.default_rng(20261123)
    layout, n = layouts[0], len(start)
    thetas = [anchor.geometry.unstandardise(s * rng.standard_normal(n)) for s in SCALES]
    thetas.append(start + rng.uniform(-1.0, 1.0, n))
    flat = [(layout.round(theta), others) for theta in thetas]
    points = Points(*layouts, graph, flat)
    rows, rest = _compared_parts(model, reading, anchor, rng)
    parts: list[ComparedRows | ComparedRest] = [*rows, rest]
    for part in parts:
        _compare(part, points)
    around = points_around(anchor, points, rng)
    check_defined(around, parts)
    check_possible(around, rows)
    first = 0
    for rv, read in reading.taken.items():
        own = slice(first, first + len(read.parts))
        members = [each.rows for each in read.parts]
        check_guards(rv, reading.regressions[own], members, anchor.parts[own])
        first = own.stop


def _compared_parts(
    model: Model, reading: ModelReading, anchor: Anchor, rng: np.random.Generator
) -> tuple[list[ComparedRows], ComparedRest]:
    """Return the parts of the log density: rows of each likelihood, and all else."""
    shapes, first, compared = value_shapes(model), 0, []
    all_terms: list[TensorVariable] = []
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
        which = f"the log-likelihood of {str(rv.name)!r}", chosen, numbers[chosen], len(numbers)
        guarded = bool(guards_of(rv))
        compared.append(ComparedRows(*which, regressions, members, first, logp, terms, guarded))
        first = part.stop
    others: list[Any] = [pt.as_tensor(v, allow_xtensor_conversion=True) for v in logps.values()]
    total = reduce(add, (v.astype("float64").sum() for v in others), pt.constant(0.0))
    rest = fold_constants(freeze(total, shapes), LONG)
    return compared, ComparedRest(rest, all_terms, all_sums)


def _compare(part: ComparedRows | ComparedRest, points: Points) -> None:
    def evaluate(draws: int) -> tuple[Values, Values]:
        own, expected = part.evaluate(points, draws)
        if draws and disagreement(own, expected):  # the few rows were a guess: of all of them
            _, whole = part.evaluate(points, 0, True)
            expected = Values(whole.values, expected.errors)
        return own, expected

    found = confirmed_disagreement(
        evaluate, f"{part.what} could not be compared with the model's own"
    )
    if found is None:
        return
    own, expected, (t, base, i) = found
    where = f" in row {part.numbers[i]:,}" if isinstance(part, ComparedRows) else ""
    at, base_at = points.describe(t), points.describe(base)
    raise UnsupportedModelError(
        f"{part.what}, as Firefly reads it, is not the model's own{where}. At "
        f"({at}) the model's is {expected.values[t, i]:.12g}, and Firefly reads "
        f"{own.values[t, i]:.12g}; at ({base_at}) they are {expected.values[base, i]:.12g} and "
        f"{own.values[base, i]:.12g}, and both must change by the same. If the likelihood is close "
        "to one of a supported family and not of it, write it as one of your own, see "
        "register_likelihood; else please report this model"
    )
