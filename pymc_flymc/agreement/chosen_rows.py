"""Rows on which a reading is compared with its model: the extreme ones, and some at random."""

from collections.abc import Sequence

import numpy as np

from pymc_flymc.anchor.anchor import AnchorPart
from pymc_flymc.regression.matrices import RowMatrix
from pymc_flymc.regression.passes import map_rows
from pymc_flymc.regression.regression import Regression

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
