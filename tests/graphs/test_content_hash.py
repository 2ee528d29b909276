"""Digests of arrays."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymc_flymc.graphs import content_hash as hashing
from pymc_flymc.graphs.content_hash import content_hash

#: Values of few different bits, by types.
FEW = {
    "float64": [0.0, -0.0, 1.0, -1.0, 2.0, np.nan, -np.nan, np.inf],
    "float32": [0.0, -0.0, 1.0, -1.0, 2.0, np.nan, -np.nan, np.inf],
    "int64": [0, 1, -1, 2, -(2**63)],
    "int8": [0, 1, -128],
    "bool": [False, True],
}


@pytest.fixture(scope="module")
def tall():
    """Arrays count as large from 16 kB on, and those with gaps are read in pieces."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashing, "HASHED", 1 << 14)
        patch.setattr(hashing, "CHUNK", 1 << 15)
        yield


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
    before = content_hash(array)
    assert content_hash(array.copy(order="K")) == content_hash(array) == before
    for place in [(0, 0), (n_rows - 1, 6), *rng.integers(0, [n_rows, 7], size=(20, 2))]:
        array[tuple(place)] = 1 - array[tuple(place)]
        assert content_hash(array) != before
        array[tuple(place)] = 1 - array[tuple(place)]
    assert content_hash(array) == before
    assert content_hash(array[:-1]) != before
    assert content_hash(array.reshape(-1)) != before


@pytest.mark.parametrize("n", [1000, 100_000])
def test_values_that_change_places_are_seen(tall, n):
    y = np.random.default_rng(0).integers(0, 2, size=n)
    before = content_hash(y)
    np.random.default_rng(1).shuffle(y)
    assert content_hash(y) != before


@given(st.sampled_from(sorted(FEW)), st.integers(1, 7), st.sampled_from("CF"), st.randoms())
def test_unequal_parts_that_change_places_are_seen(tall, dtype, n_columns, order, random):
    """Values, rows, and runs of them, near each other and far apart."""
    rng = np.random.default_rng(random.getrandbits(32))
    n_rows = 3 * (1 << 14) // n_columns
    values = np.array(FEW[dtype], dtype)
    array = np.asarray(values[rng.integers(len(values), size=(n_rows, n_columns))], order=order)
    before = content_hash(array)
    for length in (0, 1, 2, 5, 1024):  # (of rows; the first one is a value's)
        i, j = rng.integers(n_rows - length, size=2)
        if rng.random() < 0.5:
            j = min(i + rng.integers(1, 9), n_rows - max(length, 1))
        column = slice(0, 1) if length == 0 else slice(None)
        one, other = (array[k : k + max(length, 1), column] for k in (i, j))
        changed = array.copy(order="K")
        changed[j : j + len(one), column], changed[i : i + len(one), column] = one, other
        same = changed.tobytes() == array.tobytes()
        assert (content_hash(changed) == before) is same


def test_shapes_types_and_orders_are_seen(tall):
    array = np.arange(128.0 * 128.0).reshape(128, 128)
    others = [array.T, array.reshape(64, 256), array.view(np.int64), array.astype(">f8")]
    assert len({content_hash(each) for each in [array, *others]}) == 5
    padded = np.zeros((128, 256))
    padded[:, ::2] = array
    assert content_hash(padded[:, ::2]) == content_hash(array)
    shifted = np.zeros(array.nbytes + 1, np.uint8)[1:].view(float).reshape(128, 128)
    shifted[:] = array
    assert not shifted.flags.aligned and content_hash(shifted) == content_hash(array)
    array.flags.writeable = False
    assert content_hash(array) == content_hash(array.copy())


def test_a_sample_of_rows_of_a_file_is_looked_at(tmp_path):
    X = np.memmap(tmp_path / "X", dtype=np.float32, mode="w+", shape=(100_000, 3))
    before = content_hash(X)
    X[1] = 1.0
    assert content_hash(X) == before
    X[:50_000] = 1.0
    assert content_hash(X) != before
