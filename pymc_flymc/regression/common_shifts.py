"""Common shifts: directions in the coefficients of sparse columns that leave all predictors alone.

Adding a number to all effects of one factor, and taking it from those of another, changes no
predictor: ``a[i] + b[j]``. If the factors are nested, or not connected, there is such a shift for
each component of the graph whose edges are the pairs of levels that meet in a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
from scipy.sparse import csr_array

from pymc_flymc.regression.matrices import SymmetricMatrix
from pymc_flymc.regression.sparse_columns import SparseColumns

#: A dense column is the same in all rows of a level if this share of its square, or less, is left.
LEFT = 1e-11


@dataclass(frozen=True)
class CommonShifts:
    """Shifts, each of which adds a number to some coefficients and takes it from others.

    Attributes
    ----------
    sources, targets : list of ndarray of int64
        Columns to whose coefficients each shift adds, and from whose it takes. They are in an order
        in which no later shift changes the sum over an earlier one's sources.
    factors : list of ndarray of int64
        Columns of which each row has exactly one, the largest sets first.
    """

    sources: list[np.ndarray]
    targets: list[np.ndarray]
    factors: list[np.ndarray]


@dataclass(frozen=True)
class _Block:
    """Columns that do not occur beside others in the same places of rows.

    Attributes
    ----------
    columns : ndarray of int64
    places : list of int
        Places among each row's codes.
    sums : ndarray, shape (N,)
        Of each row's numbers in these columns.
    """

    columns: np.ndarray
    places: list[int]
    sums: np.ndarray


def find_common_shifts(sparse: SparseColumns) -> CommonShifts:
    """Find the common shifts of sparse columns.

    Those of pairs of blocks with the same sums in all rows, and of single blocks whose sums are
    zero, as in ``a[home] - a[away]``. Numbers that are not kept as codes have none.
    """
    blocks = sorted(_blocks(sparse), key=lambda block: len(block.columns))
    sources: list[np.ndarray] = []
    targets: list[np.ndarray] = []
    for i, block in enumerate(blocks):
        others = [each for each in blocks[i + 1 :] if np.array_equal(each.sums, block.sums)]
        pairs = [(_components(sparse, block, other), len(other.columns)) for other in others]
        if not block.sums.any():
            pairs = [(_components(sparse, block, block), 0)]
        # Into the larger factor: of nested ones the coarser effects vanish altogether.
        components, _ = max(pairs, key=lambda pair: (len(pair[0]), pair[1]), default=([], 0))
        is_source = np.zeros(sparse.n_columns, bool)
        is_source[block.columns] = True
        for component in components:
            sources.append(component[is_source[component]])
            targets.append(component[~is_source[component]])
    factors = [block.columns for block in reversed(blocks) if len(block.places) == 1]
    return CommonShifts(sources, targets, factors)


def within_factors(
    information: SymmetricMatrix, factors: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return G, shape (Q, M), of dense columns that are the same in all rows of a level.

    The second result says which these are: the effects of one factor stand for them. Their own
    coefficient is a common shift, such as an intercept, whatever the prior of the effects is.
    """
    dense, diagonal = np.diag(information.dense), information.sparse.diagonal()
    within = np.zeros(information.cross.T.shape)
    spanned = np.zeros(len(dense), bool)
    for factor in factors:
        known = factor[diagonal[factor] > 0.0]
        means = information.cross[:, known] / diagonal[known]
        rest = dense - np.sum(information.cross[:, known] * means, axis=1)
        new = ~spanned & (dense > 0.0) & (rest <= LEFT * dense)
        within[np.ix_(known, new)] = means[new].T
        spanned |= new
    return within, spanned


def _blocks(sparse: SparseColumns) -> list[_Block]:
    """Return the places of codes in blocks: places that have columns in common are together."""
    n_places, q = sparse.codes.shape[1], sparse.n_columns
    if not len(sparse):
        return []
    used = [np.bincount(sparse.codes[:, j], minlength=q) > 0 for j in range(n_places)]
    taken = np.zeros(q, bool)
    taken[sparse.indices] = True
    groups: list[tuple[np.ndarray, list[int]]] = []
    for j, own in enumerate(used):
        meet = [group for group in groups if np.any(group[0] & own)]
        groups = [group for group in groups if not any(group is each for each in meet)]
        columns = np.logical_or.reduce([own, *(group[0] for group in meet)])
        groups.append((columns, [j, *(place for group in meet for place in group[1])]))
    return [
        _Block(np.flatnonzero(columns), places, reduce(add, (_numbers(sparse, j) for j in places)))
        for columns, places in groups
        if not np.any(columns & taken)
    ]


def _numbers(sparse: SparseColumns, place: int) -> np.ndarray:
    if place < sparse.n_ones:
        return np.broadcast_to(1.0, len(sparse))
    return sparse.values[:, place - sparse.n_ones]


def _components(sparse: SparseColumns, a: _Block, b: _Block) -> list[np.ndarray]:
    """Return the columns of each component of the graph of two blocks, in which rows are edges."""
    from scipy.sparse.csgraph import connected_components  # slow to import

    q, first = sparse.n_columns, sparse.codes[:, a.places[0]]
    edges, ones = csr_array((q, q), dtype=bool), np.ones(len(sparse), bool)
    for j in {*a.places, *b.places} - {a.places[0]}:
        edges = edges + csr_array((ones, (first, sparse.codes[:, j])), shape=(q, q))
    _, label = connected_components(edges, directed=False)
    columns = np.union1d(a.columns, b.columns)
    columns = columns[np.argsort(label[columns], kind="stable")]
    return np.split(columns, np.flatnonzero(np.diff(label[columns])) + 1)
