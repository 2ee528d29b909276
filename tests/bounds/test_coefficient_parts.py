"""Half-widths of the parts of a row: none is exceeded."""

from types import SimpleNamespace

import numpy as np
from scipy.sparse import csr_array

from pymc_flymc.bounds.coefficient_parts import split_coefficients


def test_half_width_of_the_dense_part():
    """By Cauchy-Schwarz, which is an equality for one direction of each row."""
    rng, m, q, n = np.random.default_rng(0), 3, 4, 50
    root = rng.normal(size=(m + q, m + q))
    matrix = root @ root.T + 5.0 * np.eye(m + q)
    sparse = csr_array(np.diag(np.diag(matrix)[m:]))
    information = SimpleNamespace(dense=matrix[:m, :m], cross=matrix[:m, m:], sparse=sparse)
    expansion = SimpleNamespace(information=SimpleNamespace(arrow=lambda n_sparse: information))
    factor = np.linalg.inv(np.linalg.cholesky(matrix)).T
    parts = split_coefficients(SimpleNamespace(expansion=expansion, w_factor=factor), q)
    x = SimpleNamespace(dense=rng.normal(size=(n, m)), sparse=csr_array(rng.normal(size=(n, q))))
    half_widths = parts.dense_half_width(x)
    for row, dense, z in zip(half_widths, x.dense, x.sparse.toarray(), strict=True):
        # What effects move with the dense columns is taken off these.
        centred = dense - z @ parts.within
        precision = parts.precision.T @ parts.precision
        furthest = np.linalg.solve(precision, centred)
        for u in (furthest, rng.normal(size=m)):
            assert abs(centred @ u) <= row * np.linalg.norm(parts.precision @ u)
        exact = centred @ furthest / np.linalg.norm(parts.precision @ furthest)
        np.testing.assert_allclose(row, exact, rtol=1e-8)
