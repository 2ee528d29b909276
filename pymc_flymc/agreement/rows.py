"""Rows on which a reading is compared with its model: the extreme ones, and some at random."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pymc_flymc.anchor.anchor import AnchorPart
from pymc_flymc.regression.design import Design, blocks
from pymc_flymc.regression.regression import Regression

__all__ = ["ROWS", "choose_rows"]

#: Observed values that are compared; all if there are no more.
ROWS = 1024
#: At either end of what is the same for all rows: predictors, outcomes, offsets, log-likelihoods.
ENDS = 16
#: Columns of a design, at most, of each of which the largest value counts.
COLUMNS = 128


def choose_rows(
    regressions: Sequence[Regression],
    members: Sequence[np.ndarray],
    anchors: Sequence[AnchorPart],
    n_values: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return numbers of observed values, sorted, shape (m,).

    Parameters
    ----------
    regressions : sequence of Regression
    members : sequence of ndarray of int
        Numbers of the observed values that the rows of each belong to.
    anchors : sequence of AnchorPart
        Coefficients at which predictors and log-likelihoods are large or small.
    n_values : int
        How many values are observed.
    """
    if n_values <= ROWS:
        return np.arange(n_values)
    found = [np.empty(0, np.int64)]
    for regression, own, anchor in zip(regressions, members, anchors, strict=True):
        found += [own[rows] for rows in _extremes(regression, anchor.w, rng)]
    extreme = np.unique(np.concatenate(found))
    if len(extreme) > ROWS // 2:
        extreme = rng.choice(extreme, ROWS // 2, replace=False)
    others = np.setdiff1d(rng.choice(n_values, ROWS, replace=False), extreme)
    return np.sort(np.concatenate([extreme, others[: ROWS - len(extreme)]]))


def _extremes(
    regression: Regression, w: np.ndarray, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    design, y = regression.design, regression.y
    eta = design.predictor(w)
    yield from (_ends(column) for column in eta.T)
    yield from (_ends(column) for column in np.atleast_2d(y.T))
    yield from (_ends(column) for column in design.offset.T if len(column))
    arguments = np.concatenate([eta.T, *(np.full((1, len(eta)), v) for v in _nuisances(design, w))])
    yield _ends(regression.derivatives(arguments, y).value)
    yield _largest(design.X)
    if design.sparse is not None and design.sparse.nnz:
        # Groups of few rows: random rows are of the others.
        counts = np.bincount(design.sparse.indices, minlength=design.n_sparse)
        counts = np.where(counts == 0, design.n_rows + 1, counts)
        rare = np.argsort(counts, kind="stable")[:COLUMNS]
        columns = np.concatenate([rare, rng.integers(0, design.n_sparse, COLUMNS)])
        wanted = np.zeros(design.n_sparse, bool)
        wanted[columns] = True
        places = np.flatnonzero(wanted[design.sparse.indices])
        places = places[np.unique(design.sparse.indices[places], return_index=True)[1]]
        yield np.searchsorted(design.sparse.indptr, places, side="right") - 1


def _nuisances(design: Design, w: np.ndarray) -> np.ndarray:
    return w[design.n_predictors * design.width :]


def _ends(values: np.ndarray) -> np.ndarray:
    """Return the rows of the smallest and the largest values."""
    k = min(ENDS, len(values) // 2)
    order = np.argpartition(values, [k, len(values) - 1 - k]) if k else np.arange(len(values))
    return np.concatenate([order[: k or None], order[len(values) - k :]])


def _largest(X: np.ndarray) -> np.ndarray:
    """Return the rows of the largest number, in size, in each of some columns."""
    X = X[:, :COLUMNS]
    best = np.zeros(X.shape[1])
    rows = np.zeros(X.shape[1], np.int64)
    for block in blocks(X) if X.size else ():
        sizes = np.abs(X[block])
        place = np.argmax(sizes, axis=0)
        largest = sizes[place, np.arange(X.shape[1])]
        better = largest > best
        rows[better] = block.start + place[better]
        best = np.maximum(best, largest)
    return rows
