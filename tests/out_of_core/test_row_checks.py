"""What is read is what was declared: lengths of blocks, masks, numbers."""

import numpy as np
import pytest

from pymc_flymc.out_of_core.columns import as_column
from pymc_flymc.out_of_core.data_setting import source_of
from pymc_flymc.out_of_core.source import LocalSource

dask = pytest.importorskip("dask")
dask_array = pytest.importorskip("dask.array")


def of_blocks(blocks, declared):
    """A Dask array of blocks that may not be as long as they are said to be."""
    row, dtype = blocks[0].shape[1:], blocks[0].dtype
    parts = [
        dask_array.from_delayed(dask.delayed(block, pure=False), (n, *row), dtype)
        for block, n in zip(blocks, declared, strict=True)
    ]
    return dask_array.concatenate(parts)


def read_all(data):
    source = source_of(data)
    return [values for p in source.partitions for values in [p.read(slice(None))]]


@pytest.mark.parametrize("lengths", [(30, 25, 30), (30, 35, 30), (30, 25, 35)])
@pytest.mark.parametrize("row", [(), (2,)])
def test_every_block_is_as_long_as_declared(lengths, row):
    """Also where what one has lost another has too many."""
    blocks = [np.ones((n, *row)) for n in lengths]
    good = np.arange(90.0)
    with pytest.raises(ValueError, match=r"'X': the block of rows .* was declared"):
        read_all({"X": of_blocks(blocks, (30, 30, 30)), "y": good})
    with pytest.raises(ValueError, match="'y': the block of rows"):
        read_all({"X": good, "y": of_blocks(blocks, (30, 30, 30))})
    assert len(read_all({"X": of_blocks(blocks, lengths)})[0]["X"]) == sum(lengths)


class Shorter:
    """What has fewer rows than it says."""

    shape, dtype = (100,), np.dtype(float)

    def __getitem__(self, rows):
        return np.ones(100)[:95][rows]


def test_what_was_read_is_as_long_as_was_asked_for():
    source = LocalSource({"y": as_column("y", np.ones(100)), "X": as_column("X", Shorter())})
    with pytest.raises(ValueError, match=r"'X': what was read in partition 0 .*\(100,\).*\(95,\)"):
        source.partitions[0].read(slice(None))
    with pytest.raises(ValueError, match=r"'X': what was read in partition 0 .*\(4,\).*\(2,\)"):
        source.partitions[0].read(slice(92, 99, 2))


def test_masks_are_not_dropped():
    values = np.ma.array(np.arange(60.0), mask=np.zeros(60, bool))
    np.testing.assert_array_equal(as_column("y", values).read(slice(3, 5)), [3.0, 4.0])
    blocks = dask_array.from_array(values, chunks=20)
    np.testing.assert_array_equal(as_column("y", blocks).read(slice(3, 5)), [3.0, 4.0])
    values = values.copy()
    values[33] = np.ma.masked
    with pytest.raises(ValueError, match="'y': the array has 1 masked"):
        as_column("y", values)
    with pytest.raises(ValueError, match="'y': the block of rows 20 to 40 has 1 masked"):
        as_column("y", dask_array.from_array(values, chunks=20)).read(slice(25, 50))


def test_blocks_are_numbers():
    blocks = [np.ones(3), np.array(["a", "b"], object)]
    with pytest.raises(ValueError, match="'y': the block of rows 3 to 5 is of dtype object"):
        as_column("y", of_blocks(blocks, (3, 2))).read(slice(0, 5))


def test_sparse_matrices_are_refused():
    from scipy.sparse import csr_array, csr_matrix

    for kind in (csr_array, csr_matrix):
        with pytest.raises(ValueError, match="'X' is a sparse matrix"):
            as_column("X", kind(np.eye(3)))
