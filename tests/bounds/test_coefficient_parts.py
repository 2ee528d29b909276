"""The parts of a row: half-widths that are not exceeded, and no part of a common shift."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array

from pymc_flymc.bounds.taylor_parts import split_coefficients
from pymc_flymc.kernels.collapsed import radius_powers_kernel
from pymc_flymc.kernels.layout import HEADER, PARTS_SHARED, Header
from pymc_flymc.regression.design import SparseColumns, find_common_shifts, stack
from pymc_flymc.regression.matrices import RowMatrix, SymmetricMatrix


def test_half_width_of_the_dense_part():
    """By Cauchy-Schwarz, which is an equality for one direction of each row."""
    rng, m, q, n = np.random.default_rng(0), 3, 4, 50
    root = rng.normal(size=(m + q, m + q))
    matrix = root @ root.T + 5.0 * np.eye(m + q)
    sparse = csr_array(np.diag(np.diag(matrix)[m:]))
    information = SymmetricMatrix(matrix[:m, :m], matrix[:m, m:], sparse, m)
    expansion = SimpleNamespace(concave=lambda: information)
    factor = np.linalg.inv(np.linalg.cholesky(matrix)).T
    columns = SparseColumns.of_matrix(csr_array(rng.normal(size=(n, q))))
    anchor = SimpleNamespace(expansion=expansion, w_factor=factor)
    parts = split_coefficients(anchor, q, find_common_shifts(columns))
    x = SimpleNamespace(dense=rng.normal(size=(n, m)), sparse=columns.csr())
    (half_widths,) = parts.dense_half_width(x)
    for row, dense, z in zip(half_widths, x.dense, x.sparse.toarray(), strict=True):
        # What effects move with the dense columns is taken off these.
        centred = dense - z @ parts.within
        precision = parts.precision.T @ parts.precision
        furthest = np.linalg.solve(precision, centred)
        for u in (furthest, rng.normal(size=m)):
            assert abs(centred @ u) <= row * np.linalg.norm(parts.precision @ u)
        exact = centred @ furthest / np.linalg.norm(parts.precision @ furthest)
        np.testing.assert_allclose(row, exact, rtol=1e-8)


N = 300
RNG = np.random.default_rng(1)
G, K, H = (RNG.integers(0, levels, N) for levels in (12, 5, 3))
PAIR, T = RNG.integers(0, 8, (2, N)), RNG.normal(size=N)
APART = np.where(H > 0, G % 6 + 6, G % 6), np.where(H > 0, K % 2 + 2, K % 2)
SOME = csr_array(np.where(RNG.random((N, 5)) < 0.5, RNG.normal(size=(N, 5)), 0.0))


def effects(codes, values=None):
    codes = np.reshape(codes, (N, -1))
    if values is not None:
        values = np.broadcast_to(np.reshape(values, (-1, codes.shape[1])), codes.shape)
    return SparseColumns.of_codes(codes, values, int(codes.max()) + 1)


#: Sparse and dense columns, and how many directions change no predictor.
DESIGNS = {
    "one factor": ([effects(G)], [], 1),
    "crossed": ([effects(G), effects(K), effects(H)], [T], 3),
    "slopes": ([effects(G), effects(G, T), effects(K), effects(K, T)], [T], 4),
    "nested": ([effects(G // 4), effects(G // 2), effects(G)], [], 10),
    "interaction": ([effects(H), effects(K), effects(5 * H + K)], [T], 9),
    "covariate of a level": ([effects(G), effects(K)], [T, T[G]], 3),
    "not connected": ([effects(each) for each in APART], [T], 3),
    "paired": ([effects(PAIR.T, [1.0, -1.0])], [T], 1),
    "further numbers": ([effects(G), effects(K) + SparseColumns.of_matrix(SOME)], [], 1),
}
#: Designs of which not all such directions are found.
OTHERS = {"two of one factor": ([effects(PAIR.T), effects(K)], [T], 2)}


def split(design):
    """Parts of a design's coefficients, and its columns."""
    sparse, dense, n_null = {**DESIGNS, **OTHERS}[design]
    columns = stack(sparse)
    rows = RowMatrix(np.column_stack([np.ones(N), *dense]), columns.csr())
    information = rows.sandwich(RNG.uniform(0.5, 2.0, N))
    m = rows.dense.shape[1]
    matrix = np.block(
        [
            [information.dense, information.cross],
            [information.cross.T, information.sparse.toarray()],
        ]
    )
    factor = np.linalg.inv(np.linalg.cholesky(matrix + np.eye(len(matrix)))).T
    expansion = SimpleNamespace(concave=lambda: information)
    anchor = SimpleNamespace(expansion=expansion, w_factor=factor)
    parts = split_coefficients(anchor, columns.n_columns, find_common_shifts(columns))
    return parts, rows, m, n_null


def radii(parts, u, m):
    """Radius of the dense part, and sizes of the effects' numbers, as kernels compute them."""
    q, shared, shifts = len(u) - m, np.empty(2 + 2 * (len(u) - m)), parts.shifts
    header = np.zeros(len(HEADER))
    header[:] = Header(q, limit=1.0, scale=1.0, growth=0.0, n_shifts=len(shifts), n_predictors=1)
    packed = [np.concatenate(shift) for shift in shifts]
    starts = np.cumsum([0.0, *map(len, packed)])[:-1]
    matrices = parts.precision.ravel(), parts.within.T.ravel()
    ones = np.ones(q), np.ones(q), np.zeros(q)
    radius_powers_kernel(u, np.concatenate([header, *matrices, *ones, starts, *packed]), shared)
    near = np.append(shared[PARTS_SHARED.near], shared[PARTS_SHARED.effects :][:q])
    return np.cbrt(near)


@pytest.mark.parametrize("design", DESIGNS)
def test_no_part_grows_along_a_common_shift(design):
    """Directions that change no predictor change no effect's number, either.

    The dense part has a hundredth of a posterior sd, whose square counts for the radius.
    """
    parts, rows, m, n_null = split(design)
    columns = rows.array
    _, values, vectors = np.linalg.svd(columns)
    shifts = vectors[np.count_nonzero(values > 1e-9 * values[0]) :]
    used = columns[:, m:].any(axis=0)
    assert len(shifts) - np.count_nonzero(~used) == n_null
    for shift in shifts:
        radius, *sizes = radii(parts, shift, m)
        assert np.max(np.array(sizes)[used], initial=0.0) < 1e-12
        assert radius < 0.1


@pytest.mark.parametrize("design", [*DESIGNS, *OTHERS])
def test_parts_of_a_row_are_at_least_its_predictor(design):
    """Whatever the coefficients are: radii times half-widths, and sizes of effects."""
    parts, rows, m, _ = split(design)
    half_widths, sizes = parts.dense_half_width(rows), rows.sizes()
    for scale in 10.0 ** RNG.integers(-3, 4, 30):
        u = scale * RNG.normal(size=rows.array.shape[1])
        radius, *numbers = radii(parts, u, m)
        slack = 1e-13 * np.abs(rows.array) @ np.abs(u)
        assert np.all(np.abs(rows @ u) <= half_widths * radius + sizes @ numbers + slack)


def test_nested_effects_are_one_part_of_a_row():
    """Those of the coarser levels move to the finest, and rows have no part for them."""
    parts, *_ = split("nested")
    coarse, fine = np.split(parts.typicals, [9])
    assert coarse.max() < 1e-5 * fine.min()
