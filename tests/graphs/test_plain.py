"""Functions of graphs that run in Python give the values of PyTensor's own."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.builders import OpFromGraph
from pytensor.conditional.op import ifelse
from pytensor.graph.utils import MissingInputError
from pytensor.raise_op import Assert

from pymc_flymc.agreement.rounding import RoundedFunction
from pymc_flymc.graphs.tools import plain_function

RNG = np.random.default_rng(5)
PYTHON = pytensor.compile.Mode(linker="py", optimizer=None)
X, M = pt.dvector("x", shape=(4,)), pt.dmatrix("m", shape=(4, 3))
COUNTS = pt.vector("counts", dtype="int8", shape=(4,))
ANY, OTHER = pt.dvector("any"), pt.dvector("other")
VALUES = {
    X: np.array([-0.3, 0.7, 1.2, 2.0]),
    M: RNG.normal(size=(4, 3)),
    COUNTS: np.array([0, 3, 100, 7], np.int8),
    ANY: RNG.normal(size=5),
    OTHER: RNG.normal(size=5),
}
GRAPHS = {
    "arithmetic": pt.exp(X) * M.T + X / 3.0 - pt.switch(X > 0.5, X, 2.0),
    "many terms": pt.add(*[X * (i + 1.0) for i in range(30)]),
    "small integers": pt.log1p(COUNTS) + COUNTS / 2,
    "sum of integers": COUNTS + COUNTS + COUNTS + X,
    "casts": X.astype("int64") + COUNTS.astype("float64"),
    "constants filled in": pt.second(M, X[0]) + pt.second(X[:, None], 2),
    "no function of NumPy": pt.clip(X, 0.0, 1.0) + pt.softplus(X) + pt.gammaln(X + 2.0),
    "matrices": pt.dot(M.T, X)[::-1].cumsum() + M.sum(axis=0)[[0, 2, 1]],
    "unknown lengths": ANY * OTHER + ANY,
    "second derivatives": pytensor.gradient.hessian(pt.sum(pt.exp(X) * X[::-1]), X),
    "in an operation": OpFromGraph([X], [pt.exp(X), X + 1.0])(M[:, 0])[1],
    "a choice": ifelse(pt.sum(X) > 0.0, X, -X),
    "an argument": X,
    "its part": X[1:],
    "a constant": pt.constant(np.arange(3.0)),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_same_values_as_of_pytensor(name):
    """They are the same to the last bit, of the same types, and belong to the caller."""
    inputs, values = list(VALUES), [value.copy() for value in VALUES.values()]
    of_pytensor = pytensor.function(inputs, GRAPHS[name], mode=PYTHON, on_unused_input="ignore")
    wanted = of_pytensor(*values)
    for n_fixed in (0, 2):
        function = plain_function(inputs, GRAPHS[name], n_fixed)
        for _ in range(3):
            found = function(*values)
            np.testing.assert_array_equal(found, wanted)
            assert found.dtype == wanted.dtype
            found += 1  # of no consequence for the next call, or for the arguments
    assert all(np.array_equal(a, b) for a, b in zip(values, VALUES.values(), strict=True))


def test_what_fixed_arguments_determine_runs_once_for_each():
    """For the last few values of them, also if the caller writes to the array it gave."""
    v = pt.dvector("v", shape=(4,))
    function = plain_function([X, v], pt.exp(X) * v + X[0], 1)
    counted = [0]
    own = function._fixed[0]

    def counting():
        counted[0] += 1
        own()

    function._fixed[0] = counting
    at, v_at = np.zeros(4), np.ones(4)
    for x in (1.0, 2.0, 1.0, 2.0, 3.0):
        at[:] = x
        for scale in (1.0, 2.0):
            found = function(at, scale * v_at)
            np.testing.assert_allclose(found, scale * np.exp(x) + x, rtol=1e-15)
    assert counted == [3]


def test_shared_variables_have_their_present_values():
    shared = pytensor.shared(np.arange(3.0))
    function = plain_function([], shared * 2.0)
    shared.set_value(np.ones(3))
    np.testing.assert_array_equal(function(), 2.0)


def test_errors_are_raised_and_leave_nothing_behind():
    function = plain_function([X], Assert("no")(pt.log(X), pt.all(X > 0.0)), 1)
    with pytest.raises(AssertionError, match="no"):
        function(np.full(4, -1.0))
    np.testing.assert_array_equal(function(np.ones(4)), 0.0)
    with pytest.raises(TypeError):
        function(np.ones(3))
    with pytest.raises(ValueError, match="lengths"):
        plain_function([ANY, OTHER], ANY + OTHER)(np.ones(1), np.ones(5))
    with pytest.raises(MissingInputError):
        plain_function([ANY], ANY + OTHER)


def test_results_are_dropped_once_they_have_been_read():
    """A function of all rows holds no more of them than PyTensor's own does."""
    function = plain_function([ANY], pt.sum(pt.exp(ANY) + 1.0))
    function(np.zeros(100))
    held = [cell for _, last in function._steps for cell in last]
    assert len(held) > 1
    assert all(cell == [None] for cell in held)


def test_rounding_errors_of_sums_of_many_terms():
    """Otherwise a model of many terms would seem to have no density anywhere."""
    n = 70  # NumPy's functions have at most 32 operands
    terms = [pt.vector(dtype="float64") for _ in range(n)]
    function = RoundedFunction(terms, [pt.add(*terms)])
    values = np.random.default_rng(1).normal(size=(n, 3))
    found = [function(*values, seed=seed)[0] for seed in range(3)]
    rounding = n * np.finfo(float).eps * np.abs(values).sum(axis=0)
    assert np.all(np.abs(found - values.sum(axis=0)) <= rounding)
    assert np.ptp(found, axis=0).all()
