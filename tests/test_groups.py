"""Effects of groups held as indices, and sparse matrices: reading, structure, exactness."""

import pickle
from collections import OrderedDict

import numpy as np
import pymc as pm
import pytensor
import pytensor.sparse as ps
import pytensor.tensor as pt
import pytest
from conftest import (
    assert_matches,
    drive,
    from_python,
    log_sigmoid,
    quadrature,
    reference_from_draws,
)
from scipy import sparse
from scipy.special import logsumexp

from pymc_flymc import FireflyHMC, FireflyMH, JaakkolaJordan, Tangent, Taylor, UnsupportedModelError
from pymc_flymc.anchor import effects, surrogate
from pymc_flymc.anchor.laplace import LaplaceFactor, wide_factor
from pymc_flymc.graphs import once
from pymc_flymc.graphs.tools import free_inputs, plain_function
from pymc_flymc.kernels.geometry import Geometry, unwhiten, whiten_gradient
from pymc_flymc.kernels.rows import add_rows, row_predictors
from pymc_flymc.reading.predictor import read_predictor
from pymc_flymc.regression import design, quadratic
from pymc_flymc.regression.block_matrix import BlockMatrix, SparseRows, block_form, block_size
from pymc_flymc.regression.design import Design, stack
from pymc_flymc.target.data import Data, make_rows

unwhiten, whiten_gradient, add_rows, row_predictors = map(
    from_python, (unwhiten, whiten_gradient, add_rows, row_predictors)
)

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
    "sparse scaled": (lambda: x1 * ps.dot(Ss, a * c) + a[g], x1 * (S @ va) * vc + va[g], 8),
}


def read(eta):
    return read_predictor(pt.as_tensor_variable(eta), N, "y", SHAPES)


def coefficients_of(reading):
    inputs = free_inputs([reading.coefficients])
    return plain_function(inputs, reading.coefficients)(*[THETA[v.name] for v in inputs])


@pytest.mark.parametrize("name", SPELLINGS)
def test_spelling(name):
    eta, expected, n_sparse = SPELLINGS[name]
    reading = read(eta())
    design, w = reading.design, coefficients_of(reading)
    assert design.n_sparse == n_sparse
    assert w.shape == (design.n_coefficients,)
    np.testing.assert_allclose(design.predictor(w)[:, 0], expected, rtol=1e-12, atol=1e-12)
    order = np.array([5, 0, 5, 39])
    np.testing.assert_allclose(design.predictor(w, order)[:, 0], expected[order], rtol=1e-12)


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
    design = read_predictor((slopes[group] * wide).sum(1), n, "y").design
    assert np.shares_memory(design.sparse.data, wide)
    assert design.X.nbytes == 0
    index = design.sparse.indices.nbytes + design.sparse.indptr.nbytes
    assert index <= 4 * (wide.size + n + 1)


REFUSED = {
    "open index": (lambda: a[pt.vector("i", dtype="int64")[g]], "by an index that is no constant"),
    "rows": (lambda: (X @ s)[np.argsort(x1)], "takes some rows out of a term"),
    "square": (lambda: pt.sqr(a[g]), "Sqr of data and variables is not linear"),
    "two lookups": (lambda: a[g] * b[h], "multiplies two terms that both hold data and"),
    "sparse variable": (lambda: ps.dot(Ss * a, pt.ones(4)), "a sparse matrix that is no constant"),
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


def test_stack(monkeypatch):
    monkeypatch.setattr("pymc_flymc.regression.design._BLOCK_BYTES", 200)
    parts = [sparse.csr_array(S), sparse.csr_array(S[:, :2] * 2.0), sparse.csr_array((N, 3))]
    stacked = stack(parts)
    np.testing.assert_array_equal(stacked.toarray(), np.hstack([part.toarray() for part in parts]))
    assert stacked.indices.dtype == np.int32


# --- kernels' view of the rows ------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("has_sparse", [True, False])
def test_rows_in_kernels(intercept, has_sparse):
    """The predictors are the design's, and their gradient is its transpose."""
    pairs = sparse.csr_array(S) if has_sparse else None
    design = Design(X, RNG.normal(size=(N, 2)), intercept, 1, pairs)
    rows = make_rows(design, np.zeros((N, 1)))
    w, out = RNG.normal(size=design.n_coefficients), np.empty((N, 2))
    order = RNG.permutation(N)
    row_predictors(rows, w, order, 0, N, out)
    np.testing.assert_allclose(out, design.predictor(w)[order], rtol=1e-13)
    parts = [X, np.ones((N, int(intercept)))] + has_sparse * [S.toarray()]
    full = np.hstack(parts)
    factors, gradient = RNG.normal(size=(N, 2)), np.zeros(len(w))
    expected = factors.T @ full[order]
    add_rows(rows, order, 0, N, factors, gradient)
    np.testing.assert_allclose(gradient[:-1], expected.ravel(), rtol=1e-12, atol=1e-14)
    assert gradient[-1] == 0.0


def test_rows_travel_as_files():
    """What another process gets is the same rows, and its pickle does not hold them."""
    design = Design(np.empty((N, 0)), np.empty((0, 1)), True, sparse=sparse.csr_array(S))
    rows = make_rows(design, np.zeros((N, 2)))
    data = Data(rows, None)
    arrived = pickle.loads(pickle.dumps(data)).rows
    for ours, theirs in zip(rows, arrived, strict=True):
        np.testing.assert_array_equal(theirs, ours)
    assert np.shares_memory(rows.values, design.sparse.data)
    assert len(pickle.dumps(data)) < 2000


# --- structure ----------------------------------------------------------------------------------


def random_factor(seed=0):
    """Precision matrix in blocks, its elements shuffled, and its factor."""
    rng = np.random.default_rng(seed)
    dense, wide = np.array([6, 0, 3]), np.array([5, 1, 2, 4])
    diagonal, cross = rng.uniform(1, 3, 4), rng.normal(size=(4, 3))
    root = rng.normal(size=(3, 3))
    block = root @ root.T + np.eye(3) + cross.T @ (cross / diagonal[:, None])
    precision = np.zeros((7, 7))
    precision[np.ix_(dense, dense)], precision[wide, wide] = block, diagonal
    precision[np.ix_(wide, dense)] = cross
    precision[np.ix_(dense, wide)] = cross.T
    return precision, wide_factor(dense, wide, block, diagonal, cross)


def test_laplace_factor():
    precision, laplace = random_factor()
    assert np.array_equal(laplace.factor, np.tril(laplace.factor))
    columns = np.stack([laplace.apply(v) for v in np.eye(7)], axis=1)
    np.testing.assert_allclose(columns @ columns.T, np.linalg.inv(precision), rtol=1e-10)
    v = np.random.default_rng(1).normal(size=7)
    np.testing.assert_allclose(laplace.solve(laplace.apply(v)), v, rtol=1e-12)
    np.testing.assert_allclose(laplace.apply_transposed(v), columns.T @ v, rtol=1e-12)


def test_improper_blocks_give_a_factor():
    """Blocks that no law has: the coupling is left out."""
    _, good = random_factor()
    laplace = wide_factor(
        good.dense, good.wide, 0.01 * np.eye(3), 1.0 / good.scale**2, np.ones((4, 3))
    )
    assert not laplace.coupling.any()
    np.testing.assert_allclose(laplace.factor, 10.0 * np.eye(3))


@pytest.mark.parametrize("all_dense", [True, False])
def test_geometry_in_kernels(all_dense):
    laplace = random_factor()[1]
    if all_dense:
        laplace = LaplaceFactor(
            np.arange(3), np.empty(0, np.int64), laplace.factor, np.empty(0), np.empty((0, 3))
        )
    rng = np.random.default_rng(4)
    centre, v, gradient = rng.normal(size=(3, 3 if all_dense else 7))
    geometry, theta, out = Geometry(centre, *laplace), np.empty_like(v), np.empty_like(v)
    unwhiten(geometry, v, theta)
    np.testing.assert_allclose(theta, centre + laplace.apply(v), rtol=1e-12)
    whiten_gradient(geometry, gradient.copy(), out)
    np.testing.assert_allclose(out, laplace.apply_transposed(gradient), rtol=1e-12)


def test_block_matrix():
    """Sums of squares, packed and unpacked, are those of the dense matrix."""
    x = SparseRows(X, sparse.csr_array(S))
    full, weights = np.hstack([X, S.toarray()]), np.arange(14.0).reshape(7, 2)
    np.testing.assert_allclose(x @ weights, full @ weights)
    np.testing.assert_allclose(X.T @ x, X.T @ full)
    matrix, q = BlockMatrix(9, 4, 2), RNG.random(N)
    matrix.add_squares(x, q)
    matrix.add_squares(x, q)
    matrix.dense[3:, 3:] = [[2.0, 0.5], [0.5, 1.0]]
    expected = np.zeros((9, 9))
    expected[:7, :7], expected[7:, 7:] = 2.0 * (full.T * q) @ full, matrix.dense[3:, 3:]
    u, packed = pt.dvector("u"), pt.dvector("packed")
    graphs = [block_form(u, packed, 9), block_size(packed, 9)]
    function = pytensor.function(
        [u, packed], [*graphs, pytensor.grad(graphs[0], u)], mode="FAST_COMPILE"
    )
    numbers, at = matrix.scaled(0.5).pack(), RNG.normal(size=9)
    value, size, slope = function(at, np.append(numbers, [1.0, 2.0]))
    np.testing.assert_allclose(value, 0.5 * at @ expected @ at, rtol=1e-12)
    np.testing.assert_allclose(slope, expected @ at, rtol=1e-11)
    assert size == len(numbers)


# --- targets ------------------------------------------------------------------------------------


@pytest.fixture
def structured(monkeypatch):
    """Small problems take the way of large ones."""
    monkeypatch.setattr(once, "_kept", OrderedDict())  # graphs of the same model differ
    for module in (design, quadratic, effects):
        monkeypatch.setattr(module, "STRUCTURED", 1)
    monkeypatch.setattr(surrogate, "MANY", 1)
    monkeypatch.setattr(effects, "WIDE", 1)


def simulated(n=400, n_groups=6, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, n_groups, n)
    group[:n_groups] = np.arange(n_groups)
    x = rng.normal(size=(n, 2))
    effects = rng.normal(size=(n_groups, 3)) * [0.8, 0.4, 0.4]
    eta = 0.3 + effects[group, 0] + np.sum((effects[group, 1:] + [0.5, -0.3]) * x, axis=1)
    return group, x, (rng.random(n) < np.exp(log_sigmoid(eta))).astype(int)


def slopes_model(way, family="logistic"):
    """Random intercepts and slopes, by index, as a sparse matrix, or written out."""
    group, x, y = simulated()
    indicators = np.eye(6)[group]
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1.0)
        beta = pm.Normal("beta", 0.0, 1.0, shape=2)
        z = pm.Normal("z", 0.0, 1.0, shape=6)
        slopes = pm.Normal("slopes", 0.0, 0.5, shape=(6, 2))
        if way == "index":
            eta = (0.7 * z)[group] + (slopes[group] * x).sum(axis=1)
        elif way == "sparse":
            eta = ps.dot(ps.as_sparse_variable(sparse.csr_matrix(indicators)), 0.7 * z)
            for j in range(2):
                column = sparse.csr_matrix(indicators * x[:, [j]])
                eta = eta + ps.dot(ps.as_sparse_variable(column), slopes[:, j])
        else:
            eta = indicators @ (0.7 * z)
            for j in range(2):
                eta = eta + (indicators * x[:, [j]]) @ slopes[:, j]
        eta = eta + mu + x @ beta
        if family == "logistic":
            pm.Bernoulli("y", logit_p=eta, observed=y)
        else:
            sigma = pm.HalfNormal("sigma", 1.0)
            pm.StudentT("y", nu=4.0, mu=eta, sigma=sigma, observed=y + x[:, 0])
    return model


AT = {"mu": 0.2, "beta": np.array([0.5, -0.2]), "z": np.linspace(-1, 1, 6), "slopes": 0.1}


@pytest.mark.parametrize(
    ("family", "bound"),
    [("logistic", JaakkolaJordan(slack=0.0)), ("student-t", Tangent(slack=0.0))],
)
def test_all_ways_to_write_a_model_are_one(family, bound, request):
    """Predictors and posterior density agree, in the format of few coefficients and of many."""
    anchor = AT | ({"sigma": 0.8} if family == "student-t" else {})
    steps = {}
    for way in ("dense", "index", "sparse structured"):
        if way == "sparse structured":
            request.getfixturevalue("structured")
        with slopes_model(way.split()[0], family):
            steps[way] = FireflyMH(bound=bound, anchor=anchor)
    rng = np.random.default_rng(5)
    theta = 0.5 * rng.standard_normal(len(steps["dense"].target.geometry.centre))
    values = {}
    for way, step in steps.items():
        target = step.target
        design_width = target.graph.n_coefficients
        w = np.empty(design_width)
        density = target.density(theta, target.statistics, w)
        rows, eta = target.data.rows, np.empty((400, 1))
        row_predictors(rows, w, np.arange(400), 0, 400, eta)
        odds = np.empty(400)
        nuisances = w[len(w) - len(target.parts[0].likelihood.nuisances) :].copy()
        target.parts[0].log_factor(eta, rows.constants, nuisances, odds)
        gaps = np.logaddexp(0.0, odds)
        # Where the tangent touches depends on the Laplace approximation, which integrates effects
        # out where it knows them; what the bounds leave is in the gaps.
        values[way] = density + gaps.sum(), eta
    for way in steps:
        assert (steps[way].target.data.rows.indptr.size > 0) == (way != "dense")
        np.testing.assert_allclose(values[way][0], values["dense"][0], rtol=1e-10)
        np.testing.assert_allclose(values[way][1], values["dense"][1], rtol=1e-10, atol=1e-10)


def collapsed_and_by_row(model, seed=1):
    """Collapsed sum of a step's log bounds at random parameters, and the sum over all rows."""
    with model:
        step = FireflyMH(bound=JaakkolaJordan())
    target = step.target
    rng = np.random.default_rng(seed)
    theta = target.geometry.centre + 0.3 * rng.standard_normal(len(target.geometry.centre))
    w = np.empty(target.graph.n_coefficients)
    density = target.density(theta, target.statistics, w)
    rows, n = target.data.rows, len(target.data.rows.X)
    eta = np.empty((n, 1))
    row_predictors(rows, w, np.arange(n), 0, n, eta)
    odds = np.empty(n)
    target.parts[0].log_factor(eta, rows.constants, np.empty(0), odds)
    point = step._layout.unravel(theta)
    prior = model.compile_logp(vars=model.free_RVs)(point)
    log_l = model.compile_logp(vars=model.observed_RVs)(point)
    return density - prior, log_l - np.logaddexp(0.0, odds).sum(), step


def test_collapsed_sum_is_the_sum_over_rows(structured):
    collapsed, by_row, step = collapsed_and_by_row(slopes_model("index"))
    assert collapsed == pytest.approx(by_row, rel=1e-10)
    assert len(step.target.geometry.wide) == 18  # z and slopes


def test_many_groups():
    """A thousand groups and slopes, free scales: no matrix of their size, and a sane anchor."""
    group, x, y = simulated(20_000, 1000, seed=2)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1.0)
        beta = pm.Normal("beta", 0.0, 1.0, shape=2)
        tau = pm.HalfNormal("tau", 1.0)
        sd = pm.HalfNormal("sd", 1.0, shape=2)
        a = pm.Normal("a", mu, tau, shape=1000)
        z = pm.Normal("z", 0.0, 1.0, shape=(1000, 2))
        eta = a[group] + x @ beta + ((z * sd)[group] * x).sum(axis=1)
        pm.Bernoulli("y", logit_p=eta, observed=y)
    collapsed, by_row, step = collapsed_and_by_row(model)
    assert collapsed == pytest.approx(by_row, rel=1e-10)
    target = step.target
    assert len(target.geometry.wide) == 3000
    held = [*target.geometry, target.statistics, *target.data.rows[:4]]
    assert sum(np.asarray(array).nbytes for array in held) < 3_000_000
    centre = step._layout.unravel(target.geometry.centre)
    # The scales behind the data are 0.8 and 0.4; posterior sds are about 0.03.
    assert np.exp(centre["tau_log__"]) == pytest.approx(0.8, abs=0.15)
    np.testing.assert_allclose(np.exp(centre["sd_log__"]), 0.4, atol=0.15)
    draws, stats = drive(step, model.initial_point(), tune=20, draws=5)
    assert np.all(np.isfinite(draws))
    assert np.all(stats["n_bright"] < 20_000)


def test_settings_that_do_not_work_are_explained(structured):
    model = slopes_model("index")
    with model, pytest.raises(ValueError, match="Taylor bound has one radius for all coeff"):
        FireflyMH(bound=Taylor())
    group, _, y = simulated()
    with pm.Model():
        effects = pm.Normal("effects", 0.0, 1.0, shape=6)
        pm.Poisson("y", mu=pm.math.exp(effects[group]), observed=y)
        with pytest.raises(ValueError, match="poisson-log likelihoods with more than 300 coeff"):
            FireflyMH()
    with pm.Model():
        effects = pm.Normal("effects", 0.0, 1.0, shape=(6, 3))
        pm.Categorical("y", logit_p=effects[group], observed=y)
        with pytest.raises(UnsupportedModelError, match="2 predictors of 'y' has 6 coefficients"):
            FireflyMH()


# --- exactness ----------------------------------------------------------------------------------

LOG_TAU = np.linspace(-12.0, 2.0, 561)
Z = np.linspace(-8.0, 8.0, 641)


def random_intercepts(centred, n_groups, n):
    rng = np.random.default_rng(7)
    group = np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, n - n_groups)])
    y = rng.random(n) < np.exp(log_sigmoid(1.2 * rng.normal(size=n_groups)[group]))
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1.0)
        if centred:
            effects = pm.Normal("a", 0.0, tau, shape=n_groups)
        else:
            effects = tau * pm.Normal("z", 0.0, 1.0, shape=n_groups)
        pm.Bernoulli("y", logit_p=effects[group], observed=y.astype(int))
    return model, group, y


def intercepts_reference(group, y):
    """References for (log tau, z) of each group: given tau the groups are independent."""
    ones, zeros = np.bincount(group, y), np.bincount(group, ~y)

    def log_terms(z, log_tau, k):
        effect = z * np.exp(log_tau)
        log_l = ones[k] * log_sigmoid(effect) + zeros[k] * log_sigmoid(-effect)
        return log_l - 0.5 * z**2

    log_z = [logsumexp(log_terms(Z[:, None], LOG_TAU, k), axis=0) for k in range(len(ones))]

    def make(k):
        others = np.sum([each for i, each in enumerate(log_z) if i != k], axis=0)

        def log_density(points):
            log_tau, z = points.T
            prior = log_tau - 0.5 * np.exp(2.0 * log_tau)  # half-normal, with the Jacobian
            return prior + log_terms(z, log_tau, k) + np.interp(log_tau, LOG_TAU, others)

        return log_density

    return [quadrature(make(k), [-12.0, -8.0], [2.0, 8.0]) for k in range(len(ones))]


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("centred", [True, False])
def test_random_intercepts_by_quadrature(centred, many, request):
    """Free scale; with the group effects in one dense factor, and wide."""
    if many:
        request.getfixturevalue("structured")
    model, group, y = random_intercepts(centred, 5, 150)
    with model:
        step = FireflyMH(transitions=200)
    assert len(step.target.geometry.wide) == 5 * many
    draws, _ = drive(step, model.initial_point(), tune=300, draws=4000, chains=2)
    log_tau, z = draws[..., :1], draws[..., 1:]
    if centred:
        z = z * np.exp(-log_tau)
    for k, reference in enumerate(intercepts_reference(group, y)):
        assert_matches(np.concatenate([log_tau, z[..., k : k + 1]], axis=2), reference)


@pytest.mark.slow
@pytest.mark.parametrize("centred", [True, False])
def test_many_random_intercepts_against_nuts(centred):
    """More groups than one dense factor holds, and slopes."""
    rng = np.random.default_rng(8)
    n_groups, n = 400, 8000
    group, x = rng.integers(0, n_groups, n), rng.normal(size=(n, 3))
    eta = 0.5 + rng.normal(size=n_groups)[group] + x @ [1.0, -0.5, 0.0]
    y = (rng.random(n) < np.exp(log_sigmoid(eta))).astype(int)
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0.0, 1.0), pm.HalfNormal("tau", 1.0)
        beta = pm.Normal("beta", 0.0, 1.0, shape=3)
        if centred:
            a = pm.Normal("a", mu, tau, shape=n_groups)
        else:
            z = pm.Normal("z", 0.0, 1.0, shape=n_groups)
            a = pm.Deterministic("a", mu + tau * z)
        pm.Bernoulli("y", logit_p=a[group] + x @ beta, observed=y)
        step = FireflyHMC()
    options = dict(model=model, chains=2, cores=2, progressbar=False, random_seed=3)
    ours = pm.sample(step=step, tune=1500, draws=15_000, **options)
    theirs = pm.sample(tune=1500, draws=6000, nuts_sampler="pymc", **options)

    def named(idata):
        parts = [idata.posterior[name].to_numpy() for name in ("mu", "tau", "beta", "a")]
        return np.concatenate([p.reshape(*p.shape[:2], -1) for p in parts], axis=2)

    assert_matches(named(ours), reference_from_draws(named(theirs)))
