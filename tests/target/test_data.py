"""How rows travel to other processes."""

import pickle
import tracemalloc

import numpy as np
import pytensor.tensor as pt
from scipy import sparse

from pymc_flymc.reading.predictor import read_predictor
from pymc_flymc.regression.design import Design, SparseColumns
from pymc_flymc.target.data import Data, make_rows

N = 40
S = sparse.random_array((N, 4), density=0.3, rng=np.random.default_rng(3), format="csr")


def test_groups_take_four_bytes_for_each_row_and_factor():
    """So in the rows that kernels read, whatever the model's numbers of groups are kept in."""
    n = 50_000
    groups = np.random.default_rng(0).integers(0, 1000, (2, n))
    a, b = pt.vector("a", shape=(1000,)), pt.vector("b", shape=(1000,))
    tracemalloc.start()
    design = read_predictor(a[groups[0]] + b[groups[1]], n, "y", {}).design
    rows, (kept, _) = make_rows(design, np.empty((n, 0))), tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(np.asarray(each).nbytes for each in rows) < 8 * n + 200
    # PyTensor keeps a byte for each number of a constant that it has compared with others.
    assert kept < 11 * n + 500_000


def test_rows_travel_as_files():
    """What another process gets is the same rows, and its pickle does not hold them."""
    columns = SparseColumns.of_matrix(sparse.csr_array(S))
    design = Design(np.empty((N, 0)), np.empty((0, 1)), True, sparse=columns)
    rows = make_rows(design, np.zeros((N, 2)))
    data = Data(rows, None)
    arrived = pickle.loads(pickle.dumps(data)).rows
    for ours, theirs in zip(rows, arrived, strict=True):
        np.testing.assert_array_equal(theirs, ours)
    assert np.shares_memory(rows.numbers, columns.numbers)
    assert len(pickle.dumps(data)) < 2000
