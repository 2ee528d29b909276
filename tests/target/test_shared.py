"""Arrays that travel as files."""

import os
import pickle
import tempfile
from contextlib import contextmanager

import numpy as np
import pytest

from pymc_flymc.target.data import SharedArray

OFFSET = 24


def mapped(tmp_path, dtype="float64", shape=(6, 4), order="C", mode="r+"):
    path = tmp_path / "values"
    size = int(np.prod(shape))
    with open(path, "wb") as file:
        file.write(bytes(OFFSET))
        np.arange(1.0, 2 * size + 2.0).astype(dtype).tofile(file)
    return np.memmap(path, dtype, mode, OFFSET, shape, order)


VIEWS = {
    "whole": lambda a: a,
    "rows": lambda a: a[2:5],
    "every second row": lambda a: a[::2],
    "backwards": lambda a: a[::-1],
    "columns": lambda a: a[:, 1:3],
    "a column": lambda a: a[:, 2],
    "a row": lambda a: a[3],
    "transposed": lambda a: a.T,
    "other shape": lambda a: a.reshape(3, 8)[1:],
    "repeated": lambda a: np.broadcast_to(a[1], (5, 4)),
    "one number": lambda a: a[1:2, 1:2],
    "no dimensions": lambda a: a[1, 2:3].reshape(()),
    "no rows": lambda a: a[3:3],
    "no array of maps": lambda a: np.asarray(a)[1:],
}


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f4", "int8"])
@pytest.mark.parametrize("view", VIEWS)
def test_values_of_a_map_come_back(tmp_path, view, dtype, order):
    array = VIEWS[view](mapped(tmp_path, dtype, order=order))
    shared = [SharedArray(array)]
    for _ in range(2):  # what came back is pickled, too
        shared.append(pickle.loads(pickle.dumps(shared[-1])))
        found = shared[-1].array
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("mode", ["r+", "r", "c"])
def test_a_map_travels_as_its_file_unless_it_may_differ(tmp_path, mode):
    array = mapped(tmp_path, mode=mode)
    if mode == "c":
        array[1] = -1.0
    shared = SharedArray(array[1:])
    found = pickle.loads(pickle.dumps(shared)).array
    np.testing.assert_array_equal(found, array[1:])
    assert os.path.samefile(found.filename, array.filename) == (mode != "c")


@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (2, 3)])
def test_arrays_in_memory_come_back_and_their_files_go(shape):
    array = np.random.default_rng(0).normal(size=shape)
    shared = SharedArray(array)
    found = pickle.loads(pickle.dumps(shared))
    np.testing.assert_array_equal(found.array, array)
    path = shared.__reduce__()[1][0]
    assert os.path.exists(path)
    del shared
    assert not os.path.exists(path)


@contextmanager
def full_disk(size):
    """No file can be longer than so many bytes."""
    resource = pytest.importorskip("resource")  # not on Windows
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("nbytes", [4_000, 4_000_000])  # written at the end, and on the way
def test_nothing_is_left_on_a_full_disk(tmp_path, monkeypatch, nbytes):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    shared = SharedArray(np.zeros(nbytes // 8))
    with full_disk(1_000), pytest.raises(OSError, match=rf"{nbytes:,} bytes .*TMPDIR.* cores=1"):
        pickle.dumps(shared)
    assert not list(tmp_path.iterdir())
    assert len(pickle.loads(pickle.dumps(shared)).array) == nbytes // 8  # once there is room


def test_a_temporary_folder_that_cannot_be_written_to(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(OSError, match=r"could not be written .*TMPDIR"):
        pickle.dumps(SharedArray(np.zeros(5)))
