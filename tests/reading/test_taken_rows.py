"""Rows that are taken out of a term, or lie one below the other, are read as those of the data."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import ancestors

from pymc_flymc import UnsupportedModelError
from pymc_flymc.graphs.tools import free_inputs
from pymc_flymc.reading.predictor import read_predictor, split_predictor

N = 40
RNG = np.random.default_rng(5)
X = RNG.normal(size=(2 * N, 3))
x = RNG.normal(size=2 * N)
g, h = RNG.integers(0, 4, 2 * N), RNG.integers(0, 4, N)
BYTES = RNG.integers(90, 100, 2 * N).astype(np.int8)
some = RNG.permutation(2 * N)[:N]
keep = np.tile([True, False], N)
first = np.arange(N)

a, b, c = pt.vector("a", shape=(4,)), pt.vector("b", shape=(3,)), pt.scalar("c")
B = pt.matrix("B", shape=(3, 4))
VALUES = {v: RNG.normal(size=v.type.shape) for v in (a, b, c, B)}
every = c + X @ b + a[g] * x + c * x - (X * b).sum(axis=1) / 3.0
table = X @ B + a * x[:, None]

#: name: (predictor, number of its coefficients for each column)
TAKEN = {
    "mask": (lambda: every[keep], 12),
    "numbers": (lambda: every[some], 12),
    "numbers from the end": (lambda: every[-1 - some], 12),
    "slice": (lambda: every[:N], 12),
    "slice of a slice": (lambda: every[3 : 3 + 2 * N : 2][:30], 12),
    "backwards": (lambda: every[::-1], 12),
    "of a lookup": (lambda: a[g][some], 4),
    "of effects times data": (lambda: (a[g] * x)[keep], 4),
    "of rows that were taken": (lambda: (every[some] + c * x[:N])[::2], 12),
    "of columns side by side": (lambda: pt.stack([X @ b, c * x], axis=1)[keep].sum(1), 4),
    "of a quotient": (lambda: (every / (1.0 + x**2))[keep], 12),
    "of branches": (lambda: pt.switch(x > 0.0, every, c)[keep], 12),
    "of a table": (lambda: table[keep], 16),
    "of one column": (lambda: table[keep, 1], 4),
    "of one row": (lambda: (B.T @ X.T)[2, some], 3),
    "an element of each row": (lambda: (X[:N] @ B)[first, h], 12),
    "an element of some rows": (lambda: table[some, h], 16),
    "an element of each column": (lambda: (B.T @ X.T)[h, some], 12),
    "from the last column": (lambda: table[some, h - 4], 16),
    "of an element of each row": (lambda: table[np.arange(2 * N), g][some], 16),
    "blocks": (lambda: pt.concatenate([X[:9] @ b, c - X[9:N] @ (0.5 * b)]), 7),
    "blocks of the same coefficients": (
        lambda: pt.concatenate([X[:9] @ b + c, c - X[9:N] @ b]),
        7,
    ),
    "blocks of the same terms": (lambda: pt.concatenate([X[:9] @ b + c, X[9:N] @ b + c]), 4),
    "blocks of all kinds": (
        lambda: pt.concatenate([a[g[:9]], c * x[9:30], np.ones(2), a[g[32:N]] + X[32:N] @ b]),
        8,
    ),
    "rows of blocks": (lambda: pt.concatenate([X[:20] @ b + c, X[20:] @ b])[keep], 4),
    "rows of blocks, from the end": (
        lambda: pt.concatenate([X[:20] @ b + c, X[20:] @ b])[-1 - some],
        4,
    ),
    "blocks of blocks": (
        lambda: pt.concatenate([pt.concatenate([c * x[:5], x[5:7] * a[0]])[1:], X[:20] @ b]),
        5,
    ),
    "columns of truth values": (lambda: c * (x > 0.0) + c * (x > -1.0), 1),
    "columns of bytes": (lambda: c * BYTES + c * BYTES[::-1], 1),
    "table of blocks": (lambda: pt.concatenate([X[:9] @ B, x[9:N, None] * a]), 16),
}


@pytest.mark.filterwarnings("ignore:the linear predictor of .* by an index that is negative")
@pytest.mark.parametrize("name", TAKEN)
def test_rows_are_those_of_the_data(name):
    spelling, n_coefficients = TAKEN[name]
    eta = spelling()
    known = {v: VALUES[v] for v in free_inputs([eta])}
    expected = eta.eval(known)
    reading = read_predictor(eta, len(expected), "y", {})
    w = reading.coefficients.eval({v: known[v] for v in free_inputs([reading.coefficients])})
    columns = expected.reshape(len(expected), -1)
    np.testing.assert_allclose(reading.design.predictor(w), columns, rtol=1e-12, atol=1e-12)
    assert reading.design.width == n_coefficients
    # No coefficient is computed from what is as long as the data.
    lengths = {n for v in ancestors([reading.coefficients]) for n in getattr(v.type, "shape", ())}
    assert not lengths & {N, 2 * N}


def test_effects_that_are_functions_of_data_stay_effects():
    """One for each group, of which each has many rows: these are looked up, as ever."""
    of_groups = RNG.normal(size=(N, 3))
    group = np.repeat(np.arange(N), 5)
    design = read_predictor((of_groups @ b)[group], 5 * N, "y", {}).design
    assert design.n_sparse == N
    rows = RNG.permutation(5 * N)[: 4 * N]
    assert read_predictor((of_groups @ b)[group][rows], 4 * N, "y", {}).design.n_sparse == N


def test_missing_categories_of_columns_are_warned_of():
    with pytest.warns(UserWarning, match=r"looks up 'B' .* negative in 40 places.* pandas"):
        read_predictor((X[:N] @ B)[first, h - 4], N, "y", {})


def test_number_of_rows_that_there_are_not():
    with pytest.raises(ValueError, match=r"of shape \(80,\), and index 80 is out of bounds"):
        read_predictor(every[np.arange(N) + N + 1], N, "y", {})


REFUSED = {
    "rows and columns": lambda: table[np.ix_(some, [0, 2])].sum(axis=1),
    "of a cumulative sum": lambda: pt.cumsum(c * x)[keep],
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    way_out = (
        r"takes some rows out of a term, as in \(X @ b\)\[keep\](.*\n)+Instead: index the data"
    )
    with pytest.raises(UnsupportedModelError, match=way_out):
        read_predictor(REFUSED[name](), N, "y", {})


def test_an_element_of_each_row_through_what_is_not_read():
    with pytest.raises(
        UnsupportedModelError, match=r"an element of each row(.*\n)+Instead: \(X \* B"
    ):
        read_predictor(pt.cumsum(table, axis=0)[first, h], N, "y", {})


@pytest.mark.parametrize(
    ("eta", "match"),
    [
        (lambda X: (X @ b)[:N], "takes some rows out"),
        (lambda X: pt.concatenate([X @ b, X @ b]), "joins rows of several terms"),
    ],
    ids=["slice", "blocks"],
)
def test_of_rows_elsewhere_it_is_not_known_which_are_meant(eta, match):
    container = pytensor.shared(X, name="X")
    with pytest.raises(UnsupportedModelError, match=match):
        split_predictor(eta(container), 2 * N, "y", {}, {container: X})
