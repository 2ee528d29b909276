"""What a graph does with the axis of rows, told without a look at values."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.reading.rows_alone import check_rows_alone

N = 12


@pytest.fixture(scope="module")
def data():
    """Containers of rows, and variables that have none."""
    with pm.Model():
        made = {
            "X": pm.Data("X", np.ones((N, 3)), dims=("row", "column")),
            "k": pm.Data("k", np.arange(N)),
            "g": pm.Data("g", np.zeros((N, 2), int)),
            "cube": pm.Data("cube", np.ones((N, 2, 3))),
        }
        fixed = {"scale": pm.Data("scale", np.ones(3)), "a": pm.Normal("a", shape=4)}
        fixed |= {
            "b": pm.Normal("b", shape=3),
            "c": pm.Normal("c"),
            "W": pm.Normal("W", shape=(4, 2)),
        }
    return made, fixed


def check(graph, data, shared=()):
    check_rows_alone([graph], shared, data[0], "y")


ALONE = {
    "product": lambda X, b, **_: X @ b,
    "einsum": lambda X, b, **_: pt.einsum("ij,j->i", X, b),
    "tensordot": lambda X, b, **_: pt.tensordot(X, b, 1),
    "terms": lambda X, k, b, c, **_: c + (X * b).sum(axis=1) - k * c + pt.log1p(pt.exp(k)),
    "scaled": lambda X, b, scale, **_: (X / scale[None, :]) @ b,
    "transposed": lambda X, b, **_: b @ X.T,
    "columns": lambda X, b, **_: X[:, 0] * b[0] + X[:, 1:] @ b[1:] + X[..., -1],
    "by number": lambda X, b, **_: X[:, np.array([2, 0])] @ b[:2],
    "a mean of columns": lambda X, c, **_: c * X.mean(axis=1) + X.max(axis=1),
    "order of columns": lambda X, b, **_: pt.sort(X, axis=1) @ b + pt.cumsum(X, axis=1)[:, 0],
    "lookup": lambda k, a, **_: a[k],
    "lookup of several": lambda g, a, **_: a[g].sum(axis=1),
    "lookup of columns": lambda k, W, **_: W[k, 1] + W[k].sum(-1) + W[:, 0][k],
    "one hot": lambda k, a, **_: pt.eye(4)[k] @ a,
    "slopes": lambda X, k, W, **_: (W[k] * X[:, :2]).sum(axis=1),
    "inner products": lambda X, k, b, W, **_: pt.vecdot(X[:, :2], W[k]),
    "ones": lambda X, b, **_: pt.concatenate([pt.ones((X.shape[0], 1)), X[:, :2]], axis=1) @ b,
    "zeros": lambda X, k, b, **_: pt.zeros_like(k) + pt.zeros(X.shape[0]) + pt.full_like(k, 2),
    "broadcast": lambda X, c, **_: pt.broadcast_to(c, (X.shape[0],)) + c,
    "stacked": lambda X, k, b, **_: pt.stack([k, X[:, 0], k], axis=1) @ b,
    "reshaped": lambda X, k, b, **_: k.reshape((-1, 1))[:, 0] + k.flatten() + k[:, None].squeeze(1),
    "more axes": lambda cube, b, **_: (cube * b).sum((1, 2)) + (cube @ b)[:, 0],
    "flat rows": lambda cube, b, **_: cube.reshape((cube.shape[0], -1)).sum(1),
    "set": lambda X, k, b, **_: pt.set_subtensor(pt.inc_subtensor(X[:, 0], 1.0)[:, 1], k) @ b,
    "switch": lambda X, k, c, **_: pt.switch(k > 0, c, 2 * c) * pt.clip(X[:, 0], 0, 1),
    "softmax": lambda X, b, **_: pt.special.softmax(X * b, axis=1)[:, 0],
    "no rows": lambda c, **_: c,
    "norms": lambda X, **_: pt.linalg.norm(X, axis=1),
    "matrix": lambda X, W, **_: X[:, :2] @ W[:2],
    "sums of rows of no data": lambda X, a, b, **_: X @ b + a.sum() + a.mean() * a.shape[0],
}


@pytest.mark.parametrize("build", ALONE.values(), ids=ALONE.keys())
def test_rows_alone(build, data):
    check(build(**data[0], **data[1]), data)


DEPENDENT = {
    "sum": (lambda X, b, **_: X @ b - (X.mean(0) * b).sum(), "a sum, mean or variance over rows"),
    "sd": (lambda X, b, **_: X @ (b / X.std(0)), "a sum, mean or variance over rows"),
    "sd of columns": (lambda X, b, **_: (X / X.std(0)) @ b, "a sum, mean or variance over rows"),
    "largest": (lambda X, b, **_: X @ b / X.max(), "a maximum or minimum over rows"),
    "smallest": (lambda k, c, **_: c * (k - pt.min(k)), "a maximum or minimum over rows"),
    "place": (lambda k, c, **_: c * (k - pt.argmax(k)), "a reduction over rows"),
    "any": (lambda k, c, **_: c * pt.any(k > 3), r"any\(\) over rows"),
    "number": (lambda X, c, **_: X[:, 0] * c * X.shape[0], "the number of rows"),
    "number alone": (lambda X, c, **_: X[:, 0] + c * X.shape[0], "the number of rows"),
    "size": (lambda X, c, **_: X[:, 0] + c * X.size, "the number of rows"),
    "threshold": (lambda k, c, **_: c * (k > k.mean()), "a sum, mean or variance over rows"),
    "product": (lambda X, b, **_: X @ (X.T @ (X @ b)), "summed over rows"),
    "pairs": (lambda X, k, b, **_: (X @ X.T)[:, 0], "over rows"),
    "differences": (
        lambda k, c, **_: c * (k[:, None] - k[None, :]).sum(1),
        "a sum, mean or variance over rows",
    ),
    "sorted": (lambda k, c, **_: c * pt.sort(k), "SortOp.* along rows"),
    "ranks": (lambda k, c, **_: c * pt.argsort(k), "ArgSortOp.* along rows"),
    "cumulated": (lambda k, c, **_: c * pt.cumsum(k), "Cumsum.* along rows"),
    "reversed": (lambda X, b, **_: (X @ b)[::-1], "each row alone"),
    "lagged": (lambda k, c, **_: c * pt.concatenate([pt.zeros(1), k[:-1]]), "each row alone"),
    "differenced": (lambda k, c, **_: c * pt.diff(k), "each row alone"),
    "joined": (lambda X, b, **_: pt.concatenate([X, X]) @ b, "each row alone"),
    "first": (lambda X, b, **_: X @ b + X[0, 0], "Subtensor.* of all rows together"),
    "numbers": (lambda X, k, c, **_: c * pt.arange(X.shape[0]), "ARange"),
    "permuted": (lambda X, b, **_: X[np.arange(N)[::-1]] @ b, "no container of data="),
    "by rows": (lambda X, k, b, **_: X[k] @ b, "over rows"),
    "flat": (lambda X, c, **_: c * X.flatten(), "each row alone"),
    "two of each row": (
        lambda cube, b, **_: cube.reshape((2 * cube.shape[0], -1)).sum(1),
        "each row alone",
    ),
    "set": (lambda X, b, **_: pt.set_subtensor(X[0], 1.0) @ b, "each row alone"),
    "other rows alone": (lambda c, **_: c * np.arange(float(N)), "no container of data= holds"),
    "other rows": (lambda X, b, **_: X @ b + np.arange(float(N)), "no container of data= holds"),
    "lookups of other rows": (lambda k, W, **_: W[k, np.zeros(N, int)], "no container of data="),
    "median": (lambda k, c, **_: c * (k > pt.median(k)), "."),
    "unknown": (lambda k, c, **_: c * pt.bincount(k, minlength=N), "."),
}


@pytest.mark.parametrize(("build", "said"), DEPENDENT.values(), ids=DEPENDENT.keys())
def test_rows_that_depend_on_others(build, said, data):
    graph = build(**data[0], **data[1])
    with pytest.raises(UnsupportedModelError, match=rf"'y'.*model contains .*{said}"):
        check(graph, data)


def test_conditions_of_checks_are_no_part_of_a_row(data):
    from pytensor.raise_op import Assert

    made, fixed = data
    check(Assert()(made["X"] @ fixed["b"], pt.all(made["X"] > 0)), data)


def test_nuisance_parameters_have_no_rows(data):
    made, fixed = data
    with pytest.raises(UnsupportedModelError, match="'k'"):
        check(fixed["c"], data, [made["k"] * fixed["c"]])
