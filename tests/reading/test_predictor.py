"""Reading linear predictors: each way to write one, against NumPy."""

import tracemalloc

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import free_inputs, plain_function
from pymc_flymc.reading.predictor import read_predictor

N = 20
RNG = np.random.default_rng(1)
X = RNG.normal(size=(N, 3))
X32 = X.astype(np.float32)
X8 = RNG.integers(-4, 5, size=(N, 3)).astype(np.int8)
X_UP = np.ascontiguousarray(X.T)
OFFSET = RNG.normal(size=N)
x1, x2 = X[:, 0].copy(), X[:, 1].copy()

# Value variables: b and B leave their lengths open, as PyMC's do for variables with dims.
b, B, c, s = pt.vector("b"), pt.matrix("B"), pt.scalar("c"), pt.vector("s", shape=(1,))
SHAPES = {b: (3,), B: (3, 2)}
Xd = pytensor.shared(X, name="X")
Xd8 = pytensor.shared(X8, name="X8")
od = pytensor.shared(OFFSET, name="offset")

THETA = {
    "b": np.array([0.3, -1.2, 0.7]),
    "B": np.array([[0.1, 2.0], [-0.4, 0.5], [1.1, -0.3]]),
    "c": np.array(0.9),
    "s": np.array([-0.6]),
}
beta, mat, const, one = THETA["b"], THETA["B"], THETA["c"], THETA["s"]


def read(eta):
    return read_predictor(pt.as_tensor_variable(eta), N, "y", SHAPES)


def evaluate(reading):
    """Value of the reading at THETA, and its coefficients."""
    inputs = free_inputs([reading.coefficients])
    w = plain_function(inputs, reading.coefficients)(
        *[THETA[v.name].astype(v.dtype) for v in inputs]
    )
    assert w.shape == (reading.design.n_coefficients,)
    return reading.design.predictor(w)[:, 0], w


# name: (predictor, its value, rows of X are the user's memory)
SPELLINGS = {
    "matmul": (lambda: X @ b, X @ beta, True),
    "dot": (lambda: pt.dot(X, b), X @ beta, True),
    "dot of pm.Data": (lambda: pt.dot(Xd, b), X @ beta, True),
    "reversed dot": (lambda: pt.dot(b, Xd.T), X @ beta, True),
    "transposed constant": (lambda: b @ X.T, X @ beta, True),
    "tensordot": (lambda: pt.tensordot(Xd, b, [[1], [0]]), X @ beta, True),
    "einsum": (lambda: pt.einsum("ij,j->i", X, b), X @ beta, True),
    "einsum transposed": (lambda: pt.einsum("i,ji->j", b, Xd), X @ beta, True),
    "vecdot": (lambda: pt.vecdot(X, b), X @ beta, True),
    "matvec": (lambda: pt.matvec(Xd, b), X @ beta, True),
    "vecmat": (lambda: pt.vecmat(b, X.T), X @ beta, True),
    "batched matmul": (lambda: (X[None] @ b[None, :, None])[0, :, 0], X @ beta, True),
    "column squeezed": (lambda: (Xd @ b[:, None]).squeeze(), X @ beta, True),
    "column raveled": (lambda: (Xd @ b[:, None]).ravel(), X @ beta, True),
    "column reshaped": (lambda: (X @ b[:, None]).reshape((-1,)), X @ beta, True),
    "column indexed": (lambda: (X @ B)[:, 1], X @ mat[:, 1], True),
    "matrix of coefficients": (lambda: (X @ B) @ pt.exp(b[:2]), X @ mat @ np.exp(beta[:2]), True),
    "sum of products": (lambda: (X * b).sum(axis=1), X @ beta, True),
    "sum of products, last": (lambda: (b * Xd).sum(axis=-1), X @ beta, True),
    "sum of sums": (lambda: (X * b + c).sum(axis=1), X @ beta + 3 * const, True),
    "mean of products": (lambda: (X * b).mean(axis=1), X @ beta / 3, True),
    "transposed sum": (lambda: (b[:, None] * X_UP).sum(axis=0), X @ beta, False),
    "specify_shape": (lambda: pt.specify_shape(Xd @ b, (N,)), X @ beta, True),
    "signs": (lambda: -(-2 * (X @ b) / 4 - c * 3), X @ beta / 2 + 3 * const, True),
    "scaled data": (lambda: (2 * X) @ b, 2 * X @ beta, False),
    "scaled pm.Data": (lambda: (-2 * Xd) @ b, -2 * X @ beta, True),
    "scalar graph": (lambda: pt.exp(c) * (X @ b) / s, np.exp(const) * X @ beta / one, True),
    "intercepts": (lambda: c + X @ b - 1 + s, X @ beta + const - 1 + one, True),
    "alloc": (lambda: pt.full((N,), c) + X @ b, X @ beta + const, True),
    "ones_like": (lambda: pt.ones_like(Xd[:, 0]) * c + Xd @ b, X @ beta + const, True),
    "expand_dims": (lambda: (X @ b[:, None] + c)[:, 0], X @ beta + const, True),
    "broadcast_to": (lambda: pt.broadcast_to(s, (N,)), np.full(N, one[0]), False),
    "intercept alone": (lambda: c, np.full(N, const), False),
    "offset": (lambda: X @ b + OFFSET, X @ beta + OFFSET, True),
    "offsets": (lambda: od / 2 + X @ b + 3 - OFFSET, X @ beta - OFFSET / 2 + 3, True),
    "twice": (lambda: X @ b + X @ (c * b[::-1]), X @ (beta + const * beta[::-1]), True),
    "columns": (lambda: b[0] * x1 + x2 * b[1] - c, X[:, :2] @ beta[:2] - const, False),
    "columns of pm.Data": (
        lambda: Xd[:, 0] * b[2] + Xd[:, 1] * c,
        x1 * beta[2] + x2 * const,
        False,
    ),
    "stack": (lambda: pt.stack([x1 * b[0], x2 * c]).sum(0), x1 * beta[0] + x2 * const, False),
    "stack times": (
        lambda: pt.stack([x1 * b[0], x2 * c], axis=1) @ b[:2],
        x1 * beta[0] ** 2 + x2 * const * beta[1],
        False,
    ),
    "blocks": (lambda: X @ b + X8[:, :2] @ B[0], X @ beta + X8[:, :2] @ mat[0], False),
    "joined data": (
        lambda: pt.concatenate([Xd, od[:, None]], axis=1) @ pt.concatenate([b, s]),
        X @ beta + OFFSET * one,
        False,
    ),
    "sliced": (lambda: Xd[:, 1:] @ b[1:], X[:, 1:] @ beta[1:], False),
    "centred": (lambda: (Xd - Xd.mean(axis=0)) @ b, (X - X.mean(0)) @ beta, False),
    "scaled coefficients": (lambda: X @ (b / Xd.std(axis=0)), X @ (beta / X.std(0)), True),
    "columns set": (
        lambda: pt.set_subtensor(pt.zeros((N, 3))[:, 1:], X @ B) @ b,
        X @ mat @ beta[1:],
        True,
    ),
    "columns set among others": (
        lambda: pt.set_subtensor((X * b)[:, ::2], (x1 * c)[:, None]).sum(axis=1),
        x2 * beta[1] + 2 * x1 * const,
        False,
    ),
    "a column set": (
        lambda: pt.set_subtensor((x1[:, None] * (X @ B))[:, 1], x2 * c) @ b[:2],
        x1 * (X @ mat[:, 0]) * beta[0] + x2 * const * beta[1],
        False,
    ),
    "numbers set": (
        lambda: pt.set_subtensor((X @ B).T[-1], 2.0).T @ b[:2],
        X @ mat[:, 0] * beta[0] + 2.0 * beta[1],
        True,
    ),
    "columns incremented": (
        lambda: pt.inc_subtensor((X * b)[:, :2], x2[:, None] * b[1:]).sum(axis=1),
        X @ beta + x2 * beta[1:].sum(),
        False,
    ),
    "scaled, then set": (
        lambda: (X * pt.set_subtensor((X @ B)[:, :1], 1.0 + x2[:, None])[:, [0, 0, 0]]).sum(1) * c,
        X.sum(1) * (1.0 + x2) * const,
        False,
    ),
    "rows scaled": (lambda: x1 * (X @ b) + c, x1 * (X @ beta) + const, False),
    "rows divided": (lambda: (c + X @ b) / (2 + x1**2), (const + X @ beta) / (2 + x1**2), False),
    "interaction": (lambda: pt.mul(x1, x2, c), x1 * x2 * const, False),
    "wide interaction": (lambda: pt.mul(x1[:, None], X, b).sum(1), x1 * (X @ beta), False),
    "switch": (
        lambda: pt.switch(x1 > 0, x2 * b[0], c) + pt.switch(x2 > 0, 1.0, OFFSET),
        np.where(x1 > 0, x2 * beta[0], const) + np.where(x2 > 0, 1.0, OFFSET),
        False,
    ),
    "switched coefficients": (
        lambda: pt.switch((x1 > 0)[:, None], X @ B, c)[:, 1],
        np.where(x1 > 0, X @ mat[:, 1], const),
        False,
    ),
    "infinite where it is not taken": (
        lambda: pt.switch(x1 > 0, c * pt.log(pt.maximum(x1, 0.0)), b[0] * x2 / pt.minimum(x1, 0.0)),
        np.where(x1 > 0, const * np.log(np.abs(x1)), beta[0] * x2 / x1),
        False,
    ),
    "effects where they count": (
        lambda: pt.switch(x1 > 0, b[X8[:, 0] % 3] * pt.log(pt.maximum(x1, 0.0)), c),
        np.where(x1 > 0, beta[X8[:, 0] % 3] * np.log(np.abs(x1)), const),
        False,
    ),
    "nonlinear in data": (lambda: pt.log(Xd[:, 0] ** 2) * c, np.log(x1**2) * const, False),
    "int8 matrix": (lambda: X8 @ b, X8 @ beta, False),
    "int8 pm.Data": (lambda: Xd8.astype("float64") @ b, X8 @ beta, False),
    "Fortran order": (lambda: np.asfortranarray(X) @ b, X @ beta, False),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_spelling(name):
    eta, expected, shared = SPELLINGS[name]
    reading = read(eta())
    design = reading.design
    value, _ = evaluate(reading)
    np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-12)
    own = np.shares_memory(design.X, X) or np.shares_memory(design.X, Xd.get_value(borrow=True))
    assert own == shared
    assert design.X.flags.c_contiguous
    assert reading.coefficients.type.dtype == "float64"
    assert design.offset.shape in ((0, 1), (N, 1))


def test_pieces():
    reading = read(c + X @ b - 1 + s[0] + OFFSET)
    _, w = evaluate(reading)
    np.testing.assert_allclose(w, [*beta, const - 1 + one[0]], rtol=1e-14)
    np.testing.assert_array_equal(reading.design.offset, OFFSET[:, None])
    assert reading.design.intercept


def test_constant_intercept_is_an_offset():
    design = read(X @ b - 1.5).design
    assert not design.intercept
    np.testing.assert_array_equal(design.offset, np.full((N, 1), -1.5))


def test_coefficients_hold_no_data():
    w = read(X @ (b / Xd.std(axis=0) + Xd.mean(axis=0))).coefficients
    sizes = [v.data.size for v in pytensor.graph.traversal.ancestors([w]) if hasattr(v, "data")]
    assert max(sizes) <= 3


@pytest.mark.slow
def test_many_columns():
    eta = sum(X[:, j % 3] * (b[j % 3] * j) for j in range(600))
    value, _ = evaluate(read(eta))
    expected = sum(X[:, j % 3] * (beta[j % 3] * j) for j in range(600))
    np.testing.assert_allclose(value, expected, rtol=1e-11)


def test_data_are_frozen():
    data = pytensor.shared(X.copy(), name="X")
    reading = read(data @ b)
    data.set_value(np.zeros_like(X))
    value, _ = evaluate(reading)
    np.testing.assert_allclose(value, X @ beta)


def test_float32_rows_are_exact_numbers():
    reading = read(X32 @ b + c)
    assert np.shares_memory(reading.design.X, X32)
    value, _ = evaluate(reading)
    np.testing.assert_allclose(value, X32.astype(np.float64) @ beta + const, rtol=1e-14)


def test_float32_graph():
    small = pt.vector("b", dtype="float32", shape=(3,))
    reading = read_predictor(X32 @ small, N, "y", {})
    assert np.shares_memory(reading.design.X, X32)
    value, w = evaluate(reading)
    assert w.dtype == np.float64
    np.testing.assert_allclose(value, X32.astype(float) @ beta.astype(np.float32), rtol=1e-12)


@pytest.mark.parametrize(
    "eta",
    [
        lambda B: (X @ B)[:, 1:] - (X @ B)[:, :1],
        lambda B: (X @ B).sum(axis=1),
    ],
    ids=["differences", "sums"],
)
def test_float32_coefficients_of_float64_rows(eta):
    """They are put together in the precision of the rows, as the model does: 1e-9 is checked."""
    with pytensor.config.change_flags(floatX="float32"):
        read(eta(pt.matrix("B", shape=(3, 3))))


def test_memory_of_reading_float32():
    """No copy in double precision, but of some blocks at a time."""
    tall = np.ones((300_000, 30), np.float32)
    beta = pt.vector("beta", shape=(30,))
    tracemalloc.start()
    reading = read_predictor(tall @ beta + pt.dot(pt.constant(tall), beta), len(tall), "y", {})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.shares_memory(reading.design.X, tall)
    assert peak < 1.5 * tall.nbytes


per_row = pt.vector("u", shape=(N,))
group = np.arange(N) % 3

REFUSED = {
    "square": (lambda: pt.sqr(X @ b), "takes sqr of a term.*a basis of splines"),
    "exp": (lambda: pt.exp(X @ b), "takes exp of a term.*a basis of splines"),
    "power of data": (lambda: x1**c, "takes pow of a term.*a basis of splines"),
    "change point": (lambda: pt.switch(x1 > c, b[0], b[1]), "an unknown change point"),
    "Gaussian process": (
        lambda: pt.linalg.cholesky(pt.exp(-((x1[:, None] - x1) ** 2) / c**2)) @ per_row,
        "exact Gaussian process.*pm.gp.HSGP",
    ),
    "imputation": (
        lambda: pt.set_subtensor(pt.as_tensor(x1)[[2, 5]], b[:2]) * c,
        "impute missing values.*complete rows",
    ),
    "elements set": (
        lambda: pt.set_subtensor((X @ B)[np.arange(N), group % 2], c) @ b[:2],
        "puts variables among data",
    ),
    "unknown operation": (lambda: pt.sort(x1 * c), "not known to be linear.*Sort"),
    "product": (lambda: (X @ b) * (x1 * c), "product of two things that are both sampled"),
    "quotient": (lambda: c / (X @ b), "divides by a term that holds data and variables"),
    "mean over rows": (lambda: X @ b - (X @ b).mean(), "computed from all 20 rows"),
    "real reshape": (lambda: (X @ B).reshape((2, N))[0], "a reshape other than"),
    "matrix scale": (lambda: (X * (X8 @ B @ B.T)).sum(1), "multiplies term by term by a matrix"),
    "cast": (lambda: (X @ b).astype("int64"), "which rounds"),
    "no variables": (lambda: pt.as_tensor(x1) + 1, "depends on no free variable"),
    "complex": (lambda: (X * 1j) @ b, "complex128"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    eta, match = REFUSED[name]
    with pytest.raises(UnsupportedModelError, match="(?s)" + match) as caught:
        read(eta())
    assert "'y'" in str(caught.value)


def test_wrong_number_of_rows():
    with pytest.raises(ValueError, match="predictor of 'y' has 20 rows, but 15 values are obs"):
        read_predictor(X @ b, 15, "y", SHAPES)


def test_not_finite_data():
    bad = X.copy()
    bad[[3, 5, 5], [0, 1, 2]] = np.nan
    with pytest.raises(ValueError, match="the design of 'y' has NaN or infinite values in 2 of 20"):
        read(bad @ b)
    offset = OFFSET.copy()
    offset[7] = -np.inf
    with pytest.raises(ValueError, match="the offset of 'y' has NaN or infinite values in 1 of 20"):
        read(X @ b + offset)


def test_wrong_reading_is_caught(monkeypatch):
    from pymc_flymc.reading import terms

    monkeypatch.setattr(terms, "_times", lambda weight, factor: factor)
    with pytest.raises(UnsupportedModelError, match="predictor of 'y' was read wrongly"):
        read(X @ b - c)


def test_zero_by_zero():
    clicks, views = np.arange(N) // 2.0, np.arange(N) // 2.0
    with pytest.raises(
        ValueError, match=r"is NaN or infinite in 2 of 20 rows.*first in row 0; drop"
    ):
        read((c / views) * clicks + X @ b)


def test_coefficients_that_are_finite_for_positive_values():
    u = pt.vector("u", shape=(30,))
    design = read(np.ones((N, 30)) @ pt.log(u) + X @ b).design
    assert design.X.shape == (N, 33)


def test_unchecked_reading_is_refused():
    with pytest.raises(UnsupportedModelError, match="not finite at random values"):
        read(X @ b + pt.log(-pt.exp(c)))
