"""Rows and sums of their squares, in all formats."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import sparse

from pymc_flymc.graphs.collapsed_ops import Quadratic
from pymc_flymc.kernels.layout import quadratic_places
from pymc_flymc.regression import matrices
from pymc_flymc.regression.derivatives import Derivatives
from pymc_flymc.regression.design import Design, SparseColumns
from pymc_flymc.regression.expansion import quadratic_size
from pymc_flymc.regression.matrices import DenseRows, RowMatrix, SquareRows
from pymc_flymc.regression.passes import concave_border, flattened

N = 40
RNG = np.random.default_rng(2)
X = RNG.normal(size=(N, 2))
S = sparse.csr_array(
    sparse.random_array((N, 4), density=0.3, rng=np.random.default_rng(3), format="csr")
)
FULL, A = np.hstack([X, np.ones((N, 1)), S.toarray()]), RNG.random(N)
DESIGN = Design(X, np.empty((0, 1)), True, sparse=SparseColumns.of_matrix(S))
FORMATS = pytest.mark.parametrize("largest", [300, 1], ids=["dense", "split"])


@pytest.mark.parametrize(
    ("largest", "few", "format"),
    [(300, 32, DenseRows), (300, 3, SquareRows), (1, 3, RowMatrix)],
    ids=["dense", "square", "split"],
)
def test_rows(largest, few, format, monkeypatch):
    """What is done with rows is the same in all formats."""
    monkeypatch.setattr(matrices, "LARGEST_DENSE", largest)
    monkeypatch.setattr(matrices, "FEW_SPARSE", few)
    x = DESIGN.matrix(slice(None))
    assert type(x) is format
    np.testing.assert_array_equal(x.array, FULL)
    w, v = RNG.normal(size=(7, 2)), RNG.normal(size=(3, N))
    np.testing.assert_allclose(x @ w, FULL @ w)
    np.testing.assert_allclose(v @ x, v @ FULL)
    np.testing.assert_allclose(x.predictors(w[:, :1].T), w[:, :1].T @ FULL.T)
    np.testing.assert_allclose(x.taken(np.array([3, 5])) @ w, FULL[[3, 5]] @ w)
    square = x.sandwich(A).arrow(4)
    expected = (FULL.T * A) @ FULL
    np.testing.assert_allclose(square.dense, expected[:3, :3])
    np.testing.assert_allclose(square.cross, expected[:3, 3:])
    np.testing.assert_allclose(square.sparse.toarray(), expected[3:, 3:])


@pytest.mark.parametrize("few", [32, 3])
def test_squares_of_several_predictors(few, monkeypatch):
    monkeypatch.setattr(matrices, "FEW_SPARSE", few)
    signs = np.where(np.arange(N) % 3, 1.0, -1.0)
    a = np.array([[A, -A], [-A, signs * A]])
    found = DESIGN.matrix(slice(None)).sandwich(a).array
    expected = np.block([[(FULL.T * a[i, j]) @ FULL for j in range(2)] for i in range(2)])
    np.testing.assert_allclose(found, expected, atol=1e-13)


@FORMATS
def test_sums_packed_and_unpacked(largest, monkeypatch):
    """The quadratic of packed sums is that of the matrix that is written out."""
    for module in ("matrices", "expansion"):
        monkeypatch.setattr(f"pymc_flymc.regression.{module}.LARGEST_DENSE", largest)
    square, own = DESIGN.matrix(slice(None)).sandwich(A), np.array([[2.0, 0.5], [0.5, 1.0]])
    mixed = 0.1 * RNG.normal(size=(7, 2))
    matrix = (0.2 * square + 0.3 * square).bordered(mixed, own).concave()
    expected = np.block([[0.5 * (FULL.T * A) @ FULL, mixed], [mixed.T, own]])
    u, packed = pt.dvector("u"), pt.dvector("packed")
    before = quadratic_places(9).curvature
    statistics = pt.concatenate([np.zeros(before), packed])
    size = pt.as_tensor(quadratic_size(statistics, 9))
    form = Quadratic(largest == 1)(u, statistics)[1]
    function = pytensor.function(
        [u, packed], [form, size, pytensor.grad(form, u)], mode="FAST_COMPILE"
    )
    numbers, at = matrix.pack(), RNG.normal(size=9)
    value, length, slope = function(at, np.append(numbers, [1.0, 2.0]))
    np.testing.assert_allclose(value, at @ expected @ at, rtol=1e-12)
    np.testing.assert_allclose(slope, 2.0 * expected @ at, rtol=1e-11)
    assert length == before + len(numbers)


def test_what_arrows_refuse(monkeypatch):
    monkeypatch.setattr(matrices, "LARGEST_DENSE", 1)
    square = DESIGN.matrix(slice(None)).sandwich(A)
    with pytest.raises(ValueError, match=r"a matrix of 7 coefficients .* is not written out"):
        _ = square.array
    monkeypatch.setattr(matrices, "MAX_PAIRS", 2)
    with pytest.raises(ValueError, match="more than 2 pairs of columns"):
        _ = square + square


@pytest.mark.parametrize("k", [1, 2, 3])
def test_rows_that_are_not_concave_are_flattened(k):
    """Their convex directions have no curvature; the other directions, and rows, keep theirs."""
    information = RNG.normal(size=(k, k, 200))
    information += information.transpose(1, 0, 2) + 2.0 * np.eye(k)[:, :, None]
    places, more = flattened(information)
    after = information.copy()
    after[:, :, places] += more
    own, there = (np.linalg.eigvalsh(np.moveaxis(each, 2, 0)) for each in (information, after))
    assert 0 < len(places) < 200
    np.testing.assert_allclose(there, np.maximum(own, 0.0), atol=1e-12)


def test_columns_of_arrows_that_need_it_are_flattened():
    """Sums over the rows of a column that are concave stay as they are."""
    codes = np.arange(N)[:, None] % 2
    rows = RowMatrix(FULL[:, :1], SparseColumns.of_codes(codes, None, 2).csr())
    # The second column has no row that is concave.
    own = np.where(codes[:, 0] == 1, -A, np.where(np.arange(N) == 0, -0.1 * A, A))[None, None]
    places, more = flattened(own)
    exact, flattening = rows.sandwich(own), rows.taken(places).sandwich(more)
    found = exact.flattened(flattening)
    np.testing.assert_allclose(
        found.sparse.diagonal(), [exact.sparse.diagonal()[0], 0.0], atol=1e-12
    )
    np.testing.assert_allclose(found.cross[:, 0], exact.cross[:, 0])
    np.testing.assert_allclose(found.cross[:, 1], 0.0, atol=1e-12)
    # The column of ones is flattened by the rows of these columns alone.
    share = flattening.sparse.diagonal()[1] / flattening.sparse.diagonal().sum()
    assert 0.0 < share < 1.0
    np.testing.assert_allclose(found.dense, exact.dense + share * flattening.dense)


@pytest.mark.parametrize("spare", [1.5, 1.0, 0.5, 0.0])
def test_arrows_with_nuisance_parameters_are_concave(spare):
    """As a whole, with as much of mixed derivatives as that allows."""
    of_rows = RNG.normal(size=(2, N))
    of = Derivatives(*[np.empty(0)] * 2, -A[None, None], -of_rows[None], *[np.empty(0)] * 2)
    of = of._replace(first=np.empty((1, N)))
    explained = of.explained()
    whole_mixed = (of_rows @ FULL).T
    mixed, own = concave_border(whole_mixed, spare * explained, explained)
    np.testing.assert_allclose(own, spare * explained, atol=1e-12)
    np.testing.assert_allclose(mixed, np.sqrt(min(spare, 1.0)) * whole_mixed)
    found = RowMatrix(FULL[:, :3], S).sandwich(A).bordered(mixed, own)
    order = [0, 1, 2, 5, 6, 7, 8, 3, 4]  # nuisances are behind the sparse columns
    written = np.block([[found.dense, found.cross], [found.cross.T, found.sparse.toarray()]])
    written = written[np.ix_(order, order)]
    expected = np.block([[(FULL.T * A) @ FULL, mixed], [mixed.T, own]])
    np.testing.assert_allclose(written, expected, atol=1e-12)
    sizes = np.linalg.eigvalsh(written)
    assert sizes[0] > -1e-12 * sizes[-1]


def test_what_no_row_can_explain_is_left_out():
    """Rows without curvature, or several predictors, may explain any; own signs are lost."""
    one = Derivatives(
        *[np.empty(0), np.empty((1, 2))],
        *[np.array([[[-1.0, 0.0]]]), np.ones((1, 1, 2)), np.empty(0), np.empty(0)],
    )
    mixed, own = concave_border(np.ones((7, 1)), np.ones((1, 1)), one.explained())
    assert not mixed.any() and own == 1.0
    several = one._replace(first=np.empty((2, 2)))
    assert np.isinf(several.explained()).all()
    indefinite = np.array([[1.0, 3.0], [3.0, 1.0]])
    mixed, own = concave_border(np.ones((7, 2)), indefinite, np.eye(2))
    np.testing.assert_allclose(own, np.full((2, 2), 2.0))
    # The square root of what rounding leaves of an eigenvalue of zero, beside one of four.
    assert np.abs(mixed).max() < np.sqrt(4.0 * np.finfo(float).eps)
    assert not concave_border(np.ones((7, 2)), np.full((2, 2), np.nan), np.eye(2))[1].any()
