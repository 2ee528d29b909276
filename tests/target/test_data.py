"""How rows travel to other processes."""

import pickle

import numpy as np
from scipy import sparse

from pymc_flymc.regression.design import Design
from pymc_flymc.regression.sparse_columns import SparseColumns
from pymc_flymc.target.data import Data, make_rows

N = 40
S = sparse.random_array((N, 4), density=0.3, rng=np.random.default_rng(3), format="csr")


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
