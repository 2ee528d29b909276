"""Reading effects of groups held as indices, and sparse matrices."""

import numpy as np
import pytensor
import pytensor.sparse as ps
import pytensor.tensor as pt
import pytest
from scipy import sparse

from pymc_flymc import UnsupportedModelError
from pymc_flymc.graphs.tools import free_inputs, plain_function
from pymc_flymc.reading.predictor import read_predictor

N = 40
RNG = np.random.default_rng(2)
X = RNG.normal(size=(N, 3))
x1 = X[:, 0].copy()
g, h = RNG.integers(0, 4, N), RNG.integers(0, 5, N)
g[:4], h[:5] = range(4), range(5)
county = np.array([0, 2, 1, 2])  # of each g
many = RNG.integers(0, 4, (N, 2))
S = sparse.random_array((N, 4), density=0.3, rng=np.random.default_rng(3), format="csr")
Ss = ps.as_sparse_variable(sparse.csr_matrix(S))
Sd = pytensor.shared(sparse.csr_matrix(S), name="S")
gd = pytensor.shared(g, name="g")

a, b, c = pt.vector("a", shape=(4,)), pt.vector("b"), pt.scalar("c")
B, s = pt.matrix("B", shape=(4, 3)), pt.vector("s", shape=(3,))
SHAPES = {b: (5,)}
THETA = {v.name: RNG.normal(size=n) for v, n in ((a, 4), (b, 5), (c, ()), (B, (4, 3)), (s, 3))}
va, vb, vc, vB, vs = (THETA[name] for name in "abcBs")
pair = np.arange(20).reshape(4, 5)[g, h]

# name: (predictor, its value, number of sparse columns)
SPELLINGS = {
    "intercepts": (lambda: a[g] + X @ s, va[g] + X @ vs, 4),
    "take": (lambda: pt.take(a, g), va[g], 4),
    "pm.Data": (lambda: a[gd] + c, va[g] + vc, 4),
    "negative index": (lambda: a[g - 4], va[g], 4),
    "same index twice": (lambda: a[g] + s[county][g], va[g] + vs[county[g]], 4),
    "open shape": (lambda: b[h], vb[h], 5),
    "crossed": (lambda: a[g] + b[h], va[g] + vb[h], 9),
    "crossed table": (lambda: (a[:, None] * b)[g, h], va[g] * vb[h], len(np.unique(pair))),
    "one variable twice": (lambda: a[g] - a[many[:, 0]], va[g] - va[many[:, 0]], 4),
    "slope": (lambda: a[g] * x1, va[g] * x1, 4),
    "slope divided": (lambda: -a[g] / (2 + x1**2), -va[g] / (2 + x1**2), 4),
    "two slopes": (lambda: B[g, 0] + B[g, 2] * x1, vB[g, 0] + vB[g, 2] * x1, 8),
    "slopes": (lambda: (B[g] * X).sum(axis=1), (vB[g] * X).sum(1), 12),
    "slopes of columns": (lambda: (B[g, :] * X).sum(-1), (vB[g] * X).sum(1), 12),
    "slopes transposed": (lambda: (B.T[:, g] * X.T).sum(axis=0), (vB[g] * X).sum(1), 12),
    "vecdot": (lambda: pt.vecdot(X, B[g]), (vB[g] * X).sum(1), 12),
    "einsum": (lambda: pt.einsum("nk,nk->n", X, B[g]), (vB[g] * X).sum(1), 12),
    "einsum with scales": (
        lambda: pt.einsum("nk,nk,k->n", X, B[g], s),
        (vB[g] * X * vs).sum(1),
        12,
    ),
    "both": (
        lambda: c + (a[g] + (B[g] * X).sum(-1)) * 2,
        vc + 2 * (va[g] + (vB[g] * X).sum(1)),
        16,
    ),
    "scaled": (lambda: c + pt.exp(c) * a[g], vc + np.exp(vc) * va[g], 4),
    "scaled slopes": (lambda: (B[g] * pt.exp(s) * X).sum(1), (vB[g] * np.exp(vs) * X).sum(1), 12),
    "product with a vector": (lambda: B[g] @ s, vB[g] @ vs, 12),
    "one column": (lambda: B[g][:, 1], vB[g, 1], 4),
    "nested": (lambda: a[g] * x1 + s[county][g], va[g] * x1 + vs[county[g]], 8),
    "group-level design": (lambda: (X[:4] @ s)[g], (X[:4] @ vs)[g], 4),
    "several groups a row": (lambda: a[many].sum(axis=1), va[many].sum(1), 4),
    "mean over groups": (lambda: (a[many] * s[:2]).sum(axis=1), va[many] @ vs[:2], 8),
    "interaction": (lambda: pt.mul(x1, x1 > 0, a[g]), x1 * (x1 > 0) * va[g], 4),
    "unused group": (lambda: a[g % 3], va[g % 3], 3),
    "mask": (lambda: a[np.array([1, 0, 1, 1], bool)][g % 3], va[[0, 2, 3]][g % 3], 3),
    "sparse": (lambda: ps.dot(Ss, a) + c, S @ va + vc, 4),
    "shared sparse": (lambda: ps.dot(Sd, a), S @ va, 4),
    "structured dot": (lambda: ps.structured_dot(Ss, a[:, None])[:, 0], S @ va, 4),
    "sparse times matrix": (lambda: ps.dot(Ss, B) @ s, S @ vB @ vs, 4),
    "sparse from the right": (lambda: ps.dot(a, Ss.T), S @ va, 4),
    "sparse from the right of a row": (lambda: ps.dot(a[None], Ss.T)[0], S @ va, 4),
    "sparse from the right of rows": (lambda: ps.dot(B.T, Ss.T).T @ s, S @ vB @ vs, 4),
    "sparse scaled": (lambda: x1 * ps.dot(Ss, a * c) + a[g], x1 * (S @ va) * vc + va[g], 8),
}


def read(eta):
    return read_predictor(pt.as_tensor_variable(eta), N, "y", SHAPES)


def coefficients_of(reading):
    inputs = free_inputs([reading.coefficients])
    return plain_function(inputs, reading.coefficients)(*[THETA[v.name] for v in inputs])


@pytest.mark.filterwarnings("ignore:the linear predictor of .* by an index that is negative")
@pytest.mark.parametrize("name", SPELLINGS)
def test_spelling(name):
    eta, expected, n_sparse = SPELLINGS[name]
    reading = read(eta())
    design, w = reading.design, coefficients_of(reading)
    assert design.n_sparse == n_sparse
    assert w.shape == (design.n_coefficients,)
    np.testing.assert_allclose(design.predictor(w)[:, 0], expected, rtol=1e-12, atol=1e-12)
    order = np.array([5, 0, 5, 39])
    some = design.rows(order).predictor(w)[:, 0]
    np.testing.assert_allclose(some, expected[order], rtol=1e-12)


def test_several_predictors_share_their_columns():
    eta = pt.stack([a[g] + c, pt.zeros(N), c * a[g] + X @ s], axis=1)
    reading = read(eta)
    assert reading.design.n_sparse == 4
    expected = np.stack([va[g] + vc, np.zeros(N), vc * va[g] + X @ vs], axis=1)
    value = reading.design.predictor(coefficients_of(reading))
    np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-12)
    reading = read(B[g])
    assert reading.design.n_sparse == 4
    np.testing.assert_allclose(reading.design.predictor(coefficients_of(reading)), vB[g])


def test_lookups_are_not_written_out():
    """Nothing of rows times groups, and no copy of a matrix that has slopes."""
    n, n_groups = 100_000, 5000
    rng = np.random.default_rng(0)
    wide, group = rng.normal(size=(n, 3)), rng.integers(0, n_groups, n)
    group[:n_groups] = np.arange(n_groups)
    slopes = pt.matrix("slopes", shape=(n_groups, 3))
    design = read_predictor((slopes[group] * wide).sum(1), n, "y", {}).design
    assert np.shares_memory(design.sparse.values, wide)
    assert design.X.nbytes == 0
    assert design.sparse.nbytes == wide.nbytes + 4 * wide.size


REFUSED = {
    "open index": (lambda: a[pt.vector("i", dtype="int64")[g]], "by an index that is not constant"),
    "square": (lambda: pt.sqr(a[g]), "takes sqr of a term"),
    "two lookups": (lambda: a[g] * b[h], "product of two things that are both sampled"),
    "sparse variable": (lambda: ps.dot(Ss * a, pt.ones(4)), "a sparse matrix that is not constant"),
    "matmul": (lambda: Ss @ a, "other than by pytensor.sparse.dot"),
    "matrix scale": (
        lambda: (ps.dot(Ss, pt.ones((4, 3)) * c) * X).sum(1),
        "SparseDot term by term",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    eta, match = REFUSED[name]
    with pytest.raises(UnsupportedModelError, match=match):
        read(eta())


def test_missing_categories_are_warned_of():
    """Of which pandas has -1 as the code; elements from the end are mostly not meant."""
    codes = np.where(np.arange(N) < 3, -1, g).astype(np.int8)
    with pytest.warns(UserWarning, match=r"looks up 'a' .* negative in 3 places.* pandas"):
        read_predictor(a[codes], N, "y", SHAPES)


def test_bad_data():
    match = r"'y' looks up elements of 'a', of shape \(4,\), and index 4 is out of bounds"
    with pytest.raises(ValueError, match=match):
        read(a[g + 1])
    with pytest.raises(ValueError, match=r"looks up elements of \['a', 'c'\]"):
        read((c * a)[g + 1])
    with pytest.raises(ValueError, match="has 39 rows, but 40 values are observed"):
        read(a[g[1:]] + c)
    bad = sparse.csr_matrix(S, copy=True)
    bad.data[:2] = np.nan
    rows = len({int(np.searchsorted(bad.indptr, i, "right")) for i in (0, 1)})
    with pytest.raises(ValueError, match=f"sparse design of 'y' has NaN .* in {rows} of 40 rows"):
        read(ps.dot(ps.as_sparse_variable(bad), a))
    with pytest.raises(ValueError, match="design of 'y' has NaN or infinite values in 1 of 40"):
        read(a[g] * np.where(np.arange(N) == 3, np.inf, x1))
