"""Of rows that lie elsewhere nothing is read by their values: the same columns for any rows."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pymc_flymc.graphs.tools import plain_function
from pymc_flymc.out_of_core.design_builder import columns_of
from pymc_flymc.reading.predictor import split_predictor

N = 12
rng = np.random.default_rng(0)


def containers():
    arrays = {
        "X": rng.normal(size=(N, 2)),
        "x": np.zeros(N),
        "g": np.zeros(N, np.int32),
        "h": np.zeros(N, np.int32),
        "codes": np.zeros((N, 2), np.int32),
        "u": np.ones(N, np.uint8),
    }
    return {name: pytensor.shared(values, name) for name, values in arrays.items()}


def one_of_any(name):
    """Rows of which a branch by their values would take another way each."""
    every = {
        "as read": {},
        "one group": {"g": np.full(N, 1), "h": np.full(N, 1)},
        "other groups": {"g": np.arange(N) % 3, "h": np.arange(N)[::-1] % 3},
        "an offset": {"x": np.arange(N) - 5.0},
        "ones": {"x": np.ones(N), "X": np.ones((N, 2))},
        "codes of one level each": {"codes": np.array([[0, 1]] * N)},
        "codes of all": {"codes": rng.integers(0, 3, (N, 2))},
        "large counts": {"u": np.full(N, 250)},
        "equal columns": {"X": np.repeat(np.arange(N), 2).reshape(N, 2)},
    }
    return every[name]


ROWS = ["as read", "one group", "other groups", "an offset", "ones", "codes of one level each"]
ROWS += ["codes of all", "equal columns", "large counts"]

a, b = (pt.vector(name, shape=(3,)) for name in "ab")
W, w, c = pt.matrix("W", shape=(3, 2)), pt.vector("w", shape=(2,)), pt.scalar("c")
PREDICTORS = {
    "two effects": lambda d: a[d["g"]] + b[d["h"]],
    "difference": lambda d: a[d["g"]] - a[d["h"]],
    "the same twice": lambda d: a[d["g"]] + b[d["g"]],
    "codes with weights": lambda d: (a[d["codes"]] * w).sum(1),
    "slopes": lambda d: a[d["g"]] * d["x"] + c * d["x"] + d["x"],
    "two matrices": lambda d: d["X"] @ w + d["X"] @ w[::-1] + c * d["x"],
    "counts": lambda d: c * d["u"] * d["u"] + c * d["x"] * d["u"],
    "scaled": lambda d: (d["X"] * d["x"][:, None]) @ w + c,
    "classes": lambda d: W[d["g"]] + d["X"] * c,
    "classes of two": lambda d: pt.stack([a[d["g"]], b[d["h"]] + d["x"]], axis=1),
    "ratios": lambda d: c * d["X"][:, 0] / (1 + d["x"] ** 2) + 2.0,
}


@pytest.mark.parametrize("build", PREDICTORS.values(), ids=PREDICTORS.keys())
def test_columns_do_not_depend_on_values(build):
    own = containers()
    eta = build(own)
    head = {v: v.get_value() for v in own.values()}
    first = split_predictor(eta, N, "y", {}, head)
    inputs = [a, b, W, w, c]
    value = plain_function(inputs, first.coefficients)
    point = [rng.normal(size=[n or 1 for n in v.type.shape]) for v in inputs]
    for name in ROWS:
        rows = {v: np.asarray(one_of_any(name).get(key, v.get_value())) for key, v in own.items()}
        rows = {v: values.astype(v.type.dtype) for v, values in rows.items()}
        found = split_predictor(eta, N, "y", {}, rows)
        assert columns_of(found.design) == columns_of(first.design)
        assert found.design.offset.shape[1:] == first.design.offset.shape[1:]
        assert bool(found.design.offset.size) == bool(first.design.offset.size)
        # With the coefficients of the first rows, as a step has them.
        for v, values in rows.items():
            v.set_value(values)
        expected = plain_function(inputs, eta)(*point)
        read = found.design.predictor(value(*point))
        np.testing.assert_allclose(read, expected.reshape(read.shape), rtol=1e-12, atol=1e-12)


def test_equal_columns_are_one():
    """Though not by their values."""
    d = containers()
    head = {v: v.get_value() for v in d.values()}
    for eta, n_dense, n_sparse in (
        (PREDICTORS["two matrices"](d), 3, 0),
        (PREDICTORS["the same twice"](d), 0, 3),
        (PREDICTORS["two effects"](d), 0, 6),
    ):
        design = split_predictor(eta, N, "y", {}, head).design
        assert (design.X.shape[1], design.n_sparse) == (n_dense, n_sparse)


def test_what_is_not_finite_stays_so():
    """Zero by zero is no number in the model: of rows at hand a check of its predictor says so."""
    data = containers()
    eta = (c / data["x"]) * data["X"][:, 0]
    design = split_predictor(eta, N, "y", {}, {data["X"]: np.zeros((N, 2))}).design
    assert design.count_bad_rows()["design"] == N
