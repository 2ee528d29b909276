"""Rows of arrays, maps of files, Zarr and Dask: the same numbers, by ranges and by number."""

import pickle
import resource

import numpy as np
import pytest

from pymc_flymc.out_of_core import source as sources
from pymc_flymc.out_of_core.columns import as_column
from pymc_flymc.out_of_core.data_setting import MANY, merged, source_of
from pymc_flymc.out_of_core.source import PARTITION, LocalSource, partition_bounds

KINDS = ["array", "memmap", "zarr", "dask", "frame", "parquet"]


def stored(kind, values, folder):
    """The values as a user may have them."""
    if kind == "array":
        return values
    if kind == "frame":
        pandas = pytest.importorskip("pandas")
        return pandas.DataFrame(values) if values.ndim > 1 else pandas.Series(values)
    if kind == "memmap":
        np.save(folder / "values.npy", values)
        return np.load(folder / "values.npy", mmap_mode="r")
    if kind == "zarr":
        zarr = pytest.importorskip("zarr")
        chunks = (70, *values.shape[1:])
        array = zarr.create_array(
            store=str(folder / "values.zarr"), shape=values.shape, chunks=chunks, dtype=values.dtype
        )
        array[:] = values
        return zarr.open(str(folder / "values.zarr"), mode="r")
    if kind == "parquet":
        pandas, dask = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
        columns = [f"c{i}" for i in range(values.reshape(len(values), -1).shape[1])]
        frame = pandas.DataFrame(values.reshape(len(values), -1), columns=columns)
        for i in range(3):
            part = frame.iloc[i * len(frame) // 3 : (i + 1) * len(frame) // 3]
            part.to_parquet(folder / f"{i}.parquet")
        read = dask.read_parquet(str(folder / "*.parquet"))
        return read[columns] if values.ndim > 1 else read["c0"]
    dask = pytest.importorskip("dask.array")
    return dask.from_array(values, chunks=(70, *values.shape[1:]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(500,), (500, 3)])
def test_rows_are_those_of_the_array(kind, shape, tmp_path):
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    column = as_column("a", stored(kind, values, tmp_path))
    assert column.shape == shape and column.dtype == np.float32
    for rows in (slice(0, 500), slice(13, 402), slice(7, 450, 9), np.array([0, 69, 70, 71, 499])):
        np.testing.assert_array_equal(column.read(rows), values[rows])


def test_maps_travel_as_files(tmp_path):
    values = np.random.default_rng(0).normal(size=(50_000, 3))
    mapped = stored("memmap", values, tmp_path)
    for each in (mapped, mapped[100:]):
        pickled = pickle.dumps(as_column("a", each))
        np.testing.assert_array_equal(pickle.loads(pickled).read(slice(0, 60)), each[:60])
    assert len(pickle.dumps(as_column("a", mapped[100:]))) < 1000


def test_maps_do_not_stay_in_memory(tmp_path):
    np.save(tmp_path / "values.npy", np.ones((20_000_000,)))
    column = as_column("a", np.load(tmp_path / "values.npy", mmap_mode="r"))
    assert column.read(np.arange(0, 20_000_000, 1000)).sum() == 20_000
    before = resident()
    for start in range(0, 20_000_000, 1_000_000):
        assert column.read(slice(start, start + 1_000_000)).sum() == 1_000_000
    assert resident() - before < 80e6  # of 160 MB


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@pytest.mark.parametrize("n_rows", [1, 10, 1 << 20, (1 << 20) + 1, 10**7, 10**8, 10**8 + 7])
@pytest.mark.parametrize("chunk", [1, 1000, 123_456])
def test_partitions_are_all_rows(n_rows, chunk):
    bounds = partition_bounds(n_rows, chunk)
    sizes = np.diff(bounds)
    assert bounds[0] == 0 and bounds[-1] == n_rows and np.all(sizes > 0)
    assert sizes.max() <= sources.PARTITION + chunk
    assert np.all(np.array(bounds[:-1]) % chunk == 0)


def test_many_chunks_are_put_together(caplog):
    with caplog.at_level("INFO", "pymc.flymc"):
        assert merged((5, 0, 7)) == (5, 0, 7)
        small = merged((50_000,) * 2000)
        assert sum(small) == 10**8 and 200 < len(small) <= 2 * MANY
        assert "2,000 chunks of data= are read as" in caplog.text and "larger" not in caplog.text
        large = (PARTITION,) * 1000
        assert merged(large) == large and "larger chunks" in caplog.text
        uneven = tuple(np.random.default_rng(0).integers(0, 1000, 5000).tolist())
        bounds = set(np.cumsum(merged(uneven)).tolist())
        assert bounds <= set(np.cumsum(uneven).tolist()) and len(bounds) <= 2 * MANY


def test_stretches_of_partitions_are_all_rows(monkeypatch):
    monkeypatch.setattr(sources, "CHUNK", 64)
    values = np.arange(1000)
    source = LocalSource({"a": as_column("a", values)}, [0, 130, 131, 1000])
    found = [p.read(each)["a"] for p in source.partitions for each in p.chunks()]
    np.testing.assert_array_equal(np.concatenate(found), values)
    again = [p.read(np.arange(p.n_rows))["a"] for p in source.partitions]
    np.testing.assert_array_equal(np.concatenate(again), values)
    assert sum(source.map(lambda p, chunks: len(chunks), by_chunk=True)) == 3 + 1 + 14


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "a dict of arrays"),
        (np.ones(3), "a dict of arrays"),
        ({"X": np.ones((4, 2)), "y": np.ones(3)}, "4 of 'X', 3 of 'y'"),
        ({"X": np.array(["a", "b"])}, "'X' is of dtype"),
        ({"X": 3.0}, "'X' must be an array"),
        ({"X": np.ones((0, 2))}, "no rows"),
    ],
)
def test_what_is_no_data_is_refused(data, message):
    with pytest.raises(ValueError, match=message):
        source_of(data)
