"""Whether a change of a model's data is seen."""

import time

import numpy as np
import pymc as pm
import pytensor
import pytensor.sparse as ps
import pytensor.tensor as pt
import pytest
from pymc.distributions.transforms import Interval
from pytensor.compile.builders import OpFromGraph
from scipy import sparse

from pymc_flymc import weighted
from pymc_flymc.reading.fingerprint import Fingerprint


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
    assert (
        Fingerprint.of(model).content_hash
        != taken.content_hash
        == Fingerprint.of(model_of(X, y)).content_hash
    )
    taken = Fingerprint.of(model)
    with model:
        pm.set_data({"observed": y})  # the same values: it might as well be others
    assert not taken.matches(in_place=False)
    taken = Fingerprint.of(model)
    with model:
        pm.Potential("more", -(model["beta"] ** 2).sum())
    assert not taken.matches(in_place=False)


@pytest.mark.parametrize("mode", ["r+", "c"])
def test_a_memory_map_that_is_written_into(mode, tmp_path):
    np.ones((5000, 3)).tofile(tmp_path / "X")
    X = np.memmap(tmp_path / "X", dtype=float, mode=mode, shape=(5000, 3))
    model = model_of(X, np.zeros(5000, dtype=int))
    taken = Fingerprint.of(model)
    assert taken.matches(in_place=True)
    X[1, 2] = 2.0  # no row of a sample
    assert not taken.matches(in_place=True)


def test_a_file_that_is_written_into(tmp_path):
    """Of a map that is opened for reading a sample of rows is hashed."""
    np.save(tmp_path / "X.npy", np.ones((5000, 3)))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    taken = Fingerprint.of(model_of(X, np.zeros(5000, dtype=int)))
    assert taken.matches(in_place=True)
    time.sleep(0.05)  # of the system's clock a few ticks
    np.load(tmp_path / "X.npy", mmap_mode="r+")[1, 2] = 2.0  # no row of a sample
    assert X[1, 2] == 2.0 and not taken.matches(in_place=True)


def test_the_content_hash_is_of_a_whole_file(tmp_path):
    """In another process nothing else tells of rows that are in no sample."""

    def content_hash(value=1.0):
        X = np.ones((5000, 3))
        X[1, 2] = value
        np.save(tmp_path / "X.npy", X)
        model = model_of(np.load(tmp_path / "X.npy", mmap_mode="r"), np.zeros(5000, dtype=int))
        return Fingerprint.of(model).content_hash

    first = content_hash()
    time.sleep(0.05)  # another time of change, of the same content
    assert first == content_hash() != content_hash(2.0)


def test_containers_that_change_places():
    def content_hash(dose, weight):
        with pm.Model() as model:
            beta = pm.Normal("beta")
            eta = beta * pm.Data("dose", dose) + pm.Data("weight", weight)
            pm.Bernoulli("y", logit_p=eta, observed=np.zeros(6))
        return Fingerprint.of(model).content_hash

    one, other = np.arange(6.0), np.ones(6)
    assert content_hash(one, other) == content_hash(one, other) != content_hash(other, one)


def test_a_sparse_constant_that_is_written_into():
    model = model_of(np.ones((6, 3)), np.zeros(6, dtype=int))
    taken = Fingerprint.of(model)
    (matrix,) = (leaf.data for leaf in taken.data if sparse.issparse(getattr(leaf, "data", None)))
    matrix.data[1] = 2.0
    assert not taken.matches(in_place=True)


def test_weights_which_the_density_alone_holds():
    array = np.ones(6)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1.0)
        weights = pm.Data("weights", np.ones(6))
        weighted("y", pm.Normal.dist(mu, 1.0), weights, observed=np.zeros(6))
        weighted("z", pm.Normal.dist(mu, 1.0), array, observed=np.zeros(6))
    taken = Fingerprint.of(model)
    assert taken.matches(in_place=True)
    with model:
        pm.set_data({"weights": np.full(6, 2.0)})
    assert not taken.matches(in_place=False)
    taken = Fingerprint.of(model)
    assert taken.matches(in_place=True)
    array[3] = 2.0
    assert not taken.matches(in_place=True)


def test_arrays_inside_an_operation():
    """Of a loop, and of one that is made of a graph."""

    def taken(array):
        x = pt.dvector()
        times = OpFromGraph([x], [x * pt.constant(array)])
        with pm.Model() as model:
            b = pm.Normal("b", shape=3)
            looped = pytensor.scan(
                lambda e: e * pt.constant(array), sequences=[b], return_updates=False
            )
            pm.Potential("p", -(looped**2).sum() - (times(b) ** 2).sum())
            pm.Bernoulli("y", logit_p=np.ones((6, 3)) @ b, observed=np.zeros(6))
        return Fingerprint.of(model)

    array = np.arange(3.0)
    found = taken(array)
    assert found.content_hash == taken(array.copy()).content_hash != taken(array + 1.0).content_hash
    array[1] = 7.0
    assert not found.matches(in_place=True)


def test_limits_of_a_variable():
    with pm.Model() as model:
        largest = pm.Data("largest", 2.0)
        b = pm.Normal("b", transform=Interval(bounds_fn=lambda *_: (None, largest)))
        pm.Bernoulli("y", logit_p=b * np.ones(6), observed=np.zeros(6))
    taken = Fingerprint.of(model)
    assert taken.matches(in_place=True)
    with model:
        pm.set_data({"largest": 3.0})
    assert not taken.matches(in_place=False)
