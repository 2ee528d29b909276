"""Rows in every layout that NumPy, Zarr and data frames have: the same weights of proposals."""

import numpy as np
import pytest

from pymc_flymc.out_of_core import source as sources
from tests.support.out_of_core import logistic, step_elsewhere, written_on_head

N = 600


@pytest.fixture(autouse=True)
def partitions(monkeypatch):
    """Some partitions, cut into some chunks."""
    monkeypatch.setattr(sources, "SINGLE", 100)
    monkeypatch.setattr(sources, "CHUNK", 64)


@pytest.fixture(scope="module")
def rows():
    """Numbers that have a place in all types."""
    rng = np.random.default_rng(0)
    X = np.round(4 * rng.normal(size=(N, 3))) / 4
    return {"X": X, "y": (rng.random(N) < 1 / (1 + np.exp(-X.sum(axis=1)))).astype(np.int8)}


def weights(rows, data, seed=5):
    """Log weights of a few given parameters, and their bright rows."""
    step = step_elsewhere(written_on_head(rows, logistic), data)
    return step.target.weigh((seed,), np.random.default_rng(seed).normal(size=(50, 3)))


@pytest.fixture(scope="module")
def expected(rows):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "SINGLE", 100)
        patch.setattr(sources, "CHUNK", 64)
        return weights(rows, rows)


def assert_same(found, expected):
    """Compare log weights but for the order of sums: chunks are of whole chunks."""
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
    np.testing.assert_array_equal(found[1], expected[1])


def strided(values):
    wide = np.zeros((2 * N, *values.shape[1:]), values.dtype)
    wide[::2] = values
    return wide[::2]


def columns_of_more(values):
    wide = np.ones((N, 7))
    wide[:, 2:5] = values
    return wide[:, 2:5]


def mapped(values, folder, offset=0):
    name = folder / "values.bin"
    with open(name, "wb") as file:
        file.write(bytes(offset))
        file.write(np.ascontiguousarray(values).tobytes())
    return np.memmap(name, values.dtype, mode="r", offset=offset, shape=values.shape)


def in_zarr(values, folder, **settings):
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(
        store=str(folder / "a.zarr"),
        shape=values.shape,
        dtype=values.dtype,
        config={"write_empty_chunks": True},
        **settings,
    )
    array[:] = values
    return zarr.open(str(folder / "a.zarr"), mode="r")


LAYOUTS = {
    "float16": lambda X, y, to: (X.astype(np.float16), y.astype(bool)),
    "float32": lambda X, y, to: (X.astype(np.float32), y.astype(np.uint8)),
    "big-endian": lambda X, y, to: (X.astype(">f8"), y.astype(">i4")),
    "Fortran": lambda X, y, to: (np.asfortranarray(X), y.astype(np.float64)),
    "strided": lambda X, y, to: (strided(X), strided(y)),
    "reversed": lambda X, y, to: (X[::-1].copy()[::-1], y[::-1].copy()[::-1]),
    "columns of more": lambda X, y, to: (columns_of_more(X), y.astype(np.int64)),
    "lists": lambda X, y, to: (X.tolist(), y.tolist()),
    "map with an offset": lambda X, y, to: (mapped(X, to, 4096 + 24), y),
    "big-endian map": lambda X, y, to: (mapped(X.astype(">f8"), to), y),
    "strided map": lambda X, y, to: (mapped(strided(X).base, to, 8)[::2], y),
    "rows of a map": lambda X, y, to: (mapped(np.concatenate([X, X]), to)[N:], y),
    "Zarr": lambda X, y, to: (in_zarr(X, to, chunks=(70, 3)), y),
    "chunks of columns": lambda X, y, to: (in_zarr(X, to, chunks=(70, 2)), y),
    "sharded": lambda X, y, to: (in_zarr(X, to, chunks=(20, 3), shards=(100, 3)), y),
}


#: What is not in the quick suite.
RARE = ("reversed", "columns of more", "lists", "rows of a map", "big-endian map")


@pytest.mark.parametrize(
    "layout",
    [
        pytest.param(layout, id=name, marks=[pytest.mark.slow] * (name in RARE))
        for name, layout in LAYOUTS.items()
    ],
)
def test_layouts(layout, rows, expected, tmp_path, monkeypatch):
    X, y = layout(rows["X"], rows["y"], tmp_path)
    # Partitions are those of the rows, whatever chunks are.
    monkeypatch.setattr(sources, "partition_bounds", lambda n, chunk: [0, 150, 300, 450, N])
    assert_same(weights(rows, {"X": X, "y": y}), expected)


def test_frames(rows, expected):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows["X"]).assign(y=pandas.array(rows["y"], "Int8"))
    data = {"X": frame[[0, 1, 2]].astype("Float64"), "y": frame["y"]}
    assert_same(weights(rows, data), expected)
