"""Digests of arrays."""

import numpy as np
import pytest

from pymc_flymc.graphs import digests
from pymc_flymc.graphs.digests import digest_of


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
