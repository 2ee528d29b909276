"""Whether a change of a model's data is seen, and what is compiled for equal graphs."""

import numpy as np
import pymc as pm
import pytensor.sparse as ps
import pytensor.tensor as pt
import pytest
from scipy import sparse

from pymc_flymc.graphs import digests
from pymc_flymc.graphs.digests import digest_of
from pymc_flymc.graphs.once import once
from pymc_flymc.reading.fingerprint import Fingerprint


@pytest.fixture
def tall(monkeypatch):
    """Arrays count as large from 64 kB on, and are read in pieces of three blocks."""
    monkeypatch.setattr(digests, "HASHED", 1 << 16)
    monkeypatch.setattr(digests, "CHUNK", 3 * digests.BLOCK)


@pytest.mark.parametrize("n_rows", [5, 20_011], ids=["hashed", "summed"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "bool"])
@pytest.mark.parametrize("layout", ["rows", "columns", "with gaps"])
def test_any_value_that_changes_is_seen(tall, n_rows, dtype, layout):
    rng = np.random.default_rng(0)
    array = rng.integers(0, 2, size=(n_rows, 7)).astype(dtype)
    if layout == "columns":
        array = np.asfortranarray(array)
    elif layout == "with gaps":
        array = np.repeat(array, 2, axis=1)[:, ::2]
    before = digest_of(array)
    assert digest_of(array.copy(order="K")) == digest_of(array) == before
    for place in [(0, 0), (n_rows - 1, 6), *rng.integers(0, [n_rows, 7], size=(20, 2))]:
        array[tuple(place)] = 1 - array[tuple(place)]
        assert digest_of(array) != before
        array[tuple(place)] = 1 - array[tuple(place)]
    assert digest_of(array) == before
    assert digest_of(array[:-1]) != before
    assert digest_of(array.reshape(-1)) != before


@pytest.mark.parametrize("n", [1000, 100_000])
def test_values_that_change_places_are_seen(tall, n):
    y = np.random.default_rng(0).integers(0, 2, size=n)
    before = digest_of(y)
    np.random.default_rng(1).shuffle(y)
    assert digest_of(y) != before


def test_a_sample_of_rows_of_a_file_is_looked_at(tmp_path):
    X = np.memmap(tmp_path / "X", dtype=np.float32, mode="w+", shape=(100_000, 3))
    before = digest_of(X)
    X[1] = 1.0
    assert digest_of(X) == before
    X[:50_000] = 1.0
    assert digest_of(X) != before


def model_of(X, y):
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=X.shape[1])
        dose = pm.Data("dose", np.arange(len(y), dtype=float))
        design = ps.as_sparse_variable(sparse.csr_matrix(np.eye(len(y), 2)))
        eta = pt.as_tensor(X) @ beta + dose + ps.dot(design, beta[:2])
        pm.Bernoulli("y", logit_p=eta, observed=pm.Data("observed", y))
    return model


def test_data_containers_constants_and_variables():
    X, y = np.ones((6, 3)), np.zeros(6, dtype=int)
    model = model_of(X, y)
    taken = Fingerprint.of(model)
    assert taken.matches(in_place=True)
    X[2, 1] = 3.0
    assert taken.matches(in_place=False) and not taken.matches(in_place=True)
    X[2, 1] = 1.0
    assert taken.matches(in_place=True)
    model["dose"].get_value(borrow=True)[0] = 7.0
    assert not taken.matches(in_place=True)
    assert Fingerprint.of(model).digest != taken.digest == Fingerprint.of(model_of(X, y)).digest
    taken = Fingerprint.of(model)
    with model:
        pm.set_data({"observed": y})  # the same values: it might as well be others
    assert not taken.matches(in_place=False)
    taken = Fingerprint.of(model)
    with model:
        pm.Potential("more", -(model["beta"] ** 2).sum())
    assert not taken.matches(in_place=False)


def test_a_sparse_constant_that_is_written_into():
    model = model_of(np.ones((6, 3)), np.zeros(6, dtype=int))
    taken = Fingerprint.of(model)
    (matrix,) = (leaf.data for leaf in taken.data if sparse.issparse(getattr(leaf, "data", None)))
    matrix.data[1] = 2.0
    assert not taken.matches(in_place=True)


def test_equal_graphs_are_made_once():
    made = []

    def graph(factor):
        x = pt.dvector("x")
        return {"inputs": [x], "outputs": [pt.exp(x * factor)]}

    def make(name):
        made.append(name)
        return name

    weights = np.ones(3)
    assert once(make, "a", **graph(weights)) == "a"
    assert once(make, "b", **graph(np.ones(3))) == "a"
    assert once(make, "c", **graph(weights), also=1) == "c"
    constant = graph(weights)
    assert once(make, "d", **constant) == "a"
    weights[0] = 2.0  # the memory of the constant, which PyTensor takes for the same as before
    assert once(make, "e", **constant) == "e"
    assert made == ["a", "c", "e"]


def test_large_constants_do_not_outlive_their_model():
    made = []

    def make():
        made.append(None)

    x = pt.dvector("x")
    graph = {"inputs": [x], "outputs": [x * np.ones(200_000)]}
    once(make, **graph)
    once(make, **graph)
    assert len(made) == 2
