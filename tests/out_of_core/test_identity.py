"""Rows that have changed are told from those that were read."""

import os
import pickle
import time
from pathlib import Path

import numpy as np
import pytest

from pymc_flymc.out_of_core.columns import as_column
from pymc_flymc.out_of_core.data_setting import source_of
from pymc_flymc.out_of_core.source import LocalSource
from tests.out_of_core.test_source import KINDS, stored

VALUES = np.arange(1500.0).reshape(500, 3)


def rewrite(kind, kept, folder):
    """Change a value where it lies."""
    if kind == "array":
        kept[1, 0] = -1.0
    elif kind == "memmap":
        written = np.load(folder / "values.npy", mmap_mode="r+")
        written[1, 0] = -1.0
        written.flush()
    elif kind == "zarr":
        zarr = pytest.importorskip("zarr")
        zarr.open(str(folder / "values.zarr"), mode="r+")[1] = -1.0
    elif kind == "parquet":
        pandas = pytest.importorskip("pandas")
        changed = pandas.read_parquet(folder / "0.parquet")
        changed.iloc[1, 0] = -1.0
        changed.to_parquet(folder / "0.parquet")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("frame", "dask")])
@pytest.mark.parametrize("by_dask", [False, True])
def test_a_value_that_changes(kind, by_dask, tmp_path):
    kept = stored(kind, VALUES.copy(), tmp_path)
    given = kept
    if by_dask and kind != "parquet":
        given = pytest.importorskip("dask.array").from_array(kept, chunks=(100, 3))
    column = as_column("a", given)
    before = column.identity()
    assert column.identity() == before
    assert as_column("a", given).identity() == before
    rewrite(kind, kept, tmp_path)
    changed = column.read(slice(0, 500)).ravel()[3] == -1.0
    assert changed or by_dask  # which may have taken a copy
    if changed and kind != "array":  # while it is sampled from
        with pytest.raises(ValueError, match="has been written to while it was sampled from"):
            column.check_unchanged()
    assert (column.identity() != before) == changed
    column.check_unchanged()


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_map_that_is_written_to_again(order, tmp_path):
    """The system notes the time of the first of several changes, until they are on disk."""
    kept = np.memmap(tmp_path / "values", float, "w+", shape=(5000, 3), order=order)
    kept[:] = 1.0
    column = as_column("a", kept)
    before = column.identity()
    time.sleep(0.05)  # of the system's clock a few ticks
    kept[1, 0] = -1.0  # no row of a sample
    with pytest.raises(ValueError, match="has been written to while it was sampled from"):
        column.check_unchanged()
    assert column.identity() != before


def test_zarr_through_dask_and_by_its_name(tmp_path):
    stored("zarr", VALUES, tmp_path)
    column = as_column(
        "a", pytest.importorskip("dask.array").from_zarr(str(tmp_path / "values.zarr"))
    )
    before = column.identity()
    rewrite("zarr", None, tmp_path)
    assert column.identity() != before


def test_zarr_in_memory():
    """All of it is compared, as of NumPy's arrays."""
    zarr = pytest.importorskip("zarr")
    in_memory = zarr.create_array(store={}, shape=(200,), chunks=(30,), dtype="f8")
    in_memory[:] = 1.0
    column = as_column("a", in_memory)
    before = column.identity()
    assert column.identity() == before
    in_memory[17] = 2.0
    assert column.identity() != before


class Other:
    """An array of no known kind."""

    shape, dtype = (200,), np.dtype(float)

    def __init__(self):
        self.values = np.ones(200)

    def __getitem__(self, rows):
        return self.values[rows]


def test_arrays_of_other_kinds():
    array = Other()
    column = as_column("a", array)
    before = column.identity()
    assert column.identity() == before
    array.values[:100] = 2.0
    assert column.identity() != before


def test_a_map_whose_changes_are_not_written(tmp_path):
    """Copy-on-write: its file says nothing of them."""
    np.save(tmp_path / "values.npy", np.ones(5000))
    kept = np.load(tmp_path / "values.npy", mmap_mode="c")
    column = as_column("a", kept)
    before = column.identity()
    kept[3] = -1.0  # no row of a sample
    assert column.read(slice(3, 4))[0] == -1.0
    assert column.identity() != before


@pytest.mark.parametrize("kind", [str, Path, lambda path: path.name])
def test_files_that_tasks_of_dask_name(kind, tmp_path, monkeypatch):
    """Absolutely, as a path, or by a name in the current folder."""
    delayed, from_delayed = (
        pytest.importorskip("dask").delayed,
        pytest.importorskip("dask.array").from_delayed,
    )
    monkeypatch.chdir(tmp_path)
    np.save(tmp_path / "values.npy", VALUES)
    block = delayed(np.load)(kind(tmp_path / "values.npy"))
    column = as_column("a", from_delayed(block, VALUES.shape, float))
    before = column.identity()
    rewrite("memmap", None, tmp_path)
    with pytest.raises(ValueError, match="has been written to while it was sampled from"):
        column.check_unchanged()
    assert column.identity() != before


def test_maps_of_files_that_are_replaced(tmp_path):
    column = as_column("a", stored("memmap", VALUES, tmp_path))
    column.identity()
    column.check_unchanged()
    again = pickle.loads(pickle.dumps(column))
    again.check_unchanged()
    rewrite("memmap", None, tmp_path)
    for each in (column, again):
        with pytest.raises(ValueError, match=r"values\.npy has been written to"):
            each.check_unchanged()
    column.identity()
    column.check_unchanged()
    os.rename(tmp_path / "values.npy", tmp_path / "old.npy")
    with pytest.raises(ValueError, match=r"values\.npy is no longer the file"):
        column.identity()
    np.save(tmp_path / "values.npy", VALUES)
    with pytest.raises(ValueError, match=r"values\.npy is no longer the file"):
        column.identity()


@pytest.mark.parametrize("kind", ["memmap", "zarr"])
def test_files_that_change_during_a_pass(kind, tmp_path):
    """Its sums would be of old rows and new ones."""
    source = LocalSource({"a": as_column("a", stored(kind, VALUES, tmp_path))}, [0, 100, 500])
    source.identity()
    time.sleep(0.05)  # of the system's clock a few ticks
    found = source.map(lambda partition: partition.read(slice(None))["a"].sum())
    next(found)
    rewrite(kind, None, tmp_path)
    with pytest.raises(ValueError, match="has been written to while it was sampled from"):
        list(found)
    source.identity()
    assert sum(source.map(lambda partition: partition.n_rows)) == 500


def test_maps_of_files_that_are_cut(tmp_path):
    column = as_column("a", stored("memmap", VALUES, tmp_path))
    os.truncate(tmp_path / "values.npy", 5000)
    with pytest.raises(ValueError, match=r"values\.npy is shorter"):
        column.identity()


def test_a_source_is_all_of_its_columns():
    data = {"a": np.arange(500.0), "b": np.arange(500)}
    source = source_of(data)
    before = source.identity()
    data["b"][17] = 3
    assert source.identity() != before


@pytest.mark.parametrize("by_dask", [False, True])
def test_missing_chunks_are_no_zeros(by_dask, tmp_path):
    zarr = pytest.importorskip("zarr")
    for name, settings in {"a": {}, "b": {"shards": (40, 3)}}.items():
        folder = str(tmp_path / name)
        made = zarr.create_array(
            store=folder, shape=(200, 3), chunks=(20, 3), dtype="f8", **settings
        )
        made[:160] = 1.0
        given = zarr.open(folder, mode="r")
        if by_dask:
            given = pytest.importorskip("dask.array").from_zarr(folder)
        with pytest.raises(ValueError, match=r"'X': \d of the 10 chunks .* are missing"):
            as_column("X", given)
        made[160:] = 2.0
        assert as_column("X", zarr.open(folder, mode="r")).shape == (200, 3)


@pytest.mark.parametrize("location", ["start", "end"])
def test_missing_chunks_of_shards_are_no_zeros(location, tmp_path):
    """Of shards that reach beyond the array, in both directions."""
    zarr = pytest.importorskip("zarr")
    shards = {"shape": (12, 4), "index_location": location}
    made = zarr.create_array(
        store=tmp_path, shape=(50, 6), chunks=(3, 2), shards=shards, dtype="f8"
    )
    made[:] = 1.0
    column = as_column("X", zarr.open(tmp_path, mode="r"))
    column.identity()
    made[21:24, 2:4] = 0.0  # which is not written
    with pytest.raises(ValueError, match="have been deleted"):
        column.identity()
    with pytest.raises(ValueError, match=r"'X': 1 of the 51 chunks .* are missing"):
        as_column("X", zarr.open(tmp_path, mode="r"))
    with zarr.config.set({"array.write_empty_chunks": True}):
        zarr.open(tmp_path, mode="r+")[21:24, 2:4] = 0.0
    assert as_column("X", zarr.open(tmp_path, mode="r")).shape == (50, 6)
    # So many chunks are behind the array's end that Zarr's own count makes up for these.
    for shard in ("c/0/1", "c/4/0"):
        (tmp_path / shard).unlink()
    with pytest.raises(ValueError, match=r"'X': 6 of the 51 chunks .* are missing"):
        as_column("X", zarr.open(tmp_path, mode="r"))


@pytest.mark.parametrize("by_dask", [False, True])
@pytest.mark.parametrize("shape", [(700, 3), (420, 3), (490, 3), (501, 3), (500, 4)])
def test_a_zarr_array_that_is_resized(shape, by_dask, tmp_path):
    zarr = pytest.importorskip("zarr")
    given = stored("zarr", VALUES, tmp_path)
    if by_dask:
        given = pytest.importorskip("dask.array").from_array(given)
    column = as_column("a", given)
    column.identity()
    there = zarr.open(str(tmp_path / "values.zarr"), mode="r+")
    there.resize(shape)
    there[:] = 1.0
    with pytest.raises(ValueError, match="has been resized or written again: it was of the shape"):
        column.identity()
    with pytest.raises(ValueError, match="has been resized"):  # in a new step, too
        as_column("a", given)
    assert as_column("a", there).shape == shape


def test_values_that_are_others_each_time():
    dask, dask_array = pytest.importorskip("dask"), pytest.importorskip("dask.array")
    rng = np.random.default_rng(0)
    block = dask.delayed(lambda: rng.normal(size=50))
    drawn = dask_array.concatenate(
        [dask_array.from_delayed(block(), (n,), float) for n in (0, 50, 50)][1:]
    )
    with pytest.raises(ValueError, match="of 'y': the first 50 rows had other values when"):
        source_of({"X": VALUES[:100], "y": drawn})
    seeded = dask_array.random.default_rng(1).normal(size=100, chunks=50)
    unseeded = dask_array.random.normal(size=100, chunks=50)  # its seeds are in its graph
    assert source_of({"X": seeded, "y": unseeded, "z": drawn.persist()}).n_rows == 100


def test_chunks_that_are_deleted_are_no_zeros(tmp_path):
    column = as_column("a", stored("zarr", VALUES, tmp_path))
    column.identity()
    next(path for path in (tmp_path / "values.zarr" / "c").rglob("*") if path.is_file()).unlink()
    with pytest.raises(ValueError, match=r"chunks of the Zarr array at .* have been deleted"):
        column.identity()


@pytest.mark.parametrize("kind", KINDS)
def test_where_rows_are(kind, tmp_path):
    place = as_column("a", stored(kind, VALUES, tmp_path)).place
    expected = {
        "memmap": str(tmp_path / "values.npy"),
        "zarr": f"file://{tmp_path / 'values.zarr'}",
        "parquet": f"{tmp_path / '0.parquet'} and 2 more",
    }
    assert place == expected.get(kind, "memory")


def test_later_rows_that_change_when_computed_again():
    """As by random numbers in the place of missing ones, of which the first block has none."""
    dask_array = pytest.importorskip("dask.array")

    def impute(block):
        return np.where(np.isnan(block), np.random.random(len(block)), block)

    values = np.where(np.arange(200) < 120, 1.0, np.nan)
    given = dask_array.from_array(values, chunks=50).map_blocks(impute, dtype=float)
    source = source_of({"x": given})
    passes = [lambda: list(source.map(lambda p: p.read(slice(0, 100)).keys()))] * 2
    passes += [lambda: list(source.map(lambda p: p.read(slice(100, 200)).keys()))] * 2
    for each in passes[:3]:
        each()
    with pytest.raises(ValueError, match="rows 100 to 199 had other values when") as raised:
        passes[3]()
    assert any("data= of 'x'" in note for note in raised.value.__notes__)
    source.identity()  # a new run reads them as they are then
    passes[3]()
