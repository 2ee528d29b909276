"""Mutants of how rows are read and added up."""

from tests.mutants.mutant import Rows

MUTANTS: Rows = {
    "kernels/factors.py": [
        (
            "factor of another likelihood",
            "_log_factors_of_one(part, log_factor[k], own,",
            "_log_factors_of_one(part, log_factor[0], own,",
            "two-likelihoods",
        ),
        (
            "coefficients of another likelihood",
            "_log_factors_of_one(part, log_factor[k], own,",
            "_log_factors_of_one(part, log_factor[k], w[: rows.place[1]],",
            "two-likelihoods-cycle",
        ),
        (
            "only the first run of a likelihood's rows read",
            "i = j + 1  # the row",
            "i = stop  # the row",
            "slice-two",
        ),
        (
            "slopes added to another likelihood's",
            "own, index, i, j, out, slope, scratch",
            "own, index, i, j, out, gradient[: rows.place[1]], scratch",
            "hamiltonian-two",
        ),
        (
            "constants of the first rows",
            "scratch.constants[i, r] = rows.constants[n, r]",
            "scratch.constants[i, r] = rows.constants[i, r]",
            "implicit-by-row",
        ),
        (
            "a likelihood that takes the next one's first row",
            "last = part.first + part.X.shape[0]",
            "last = part.first + part.X.shape[0] + 1",
            "two-likelihoods",
        ),
    ],
    "kernels/collapsed.py": [
        (
            "pairs on one side of the diagonal",
            "sparse_out[j] += values[k] * each",
            "pass",
            "tests/regression/test_matrices.py",
        ),
        (
            "cross terms in one direction",
            "dense_out[i] += total",
            "pass",
            "tests/regression/test_matrices.py",
        ),
        (
            "the diagonal subtracted",
            "sparse_out[j] += statistics[parts.diagonal + j] * sparse_u[j]",
            "sparse_out[j] -= statistics[parts.diagonal + j] * sparse_u[j]",
            "tests/regression/test_matrices.py",
        ),
        (
            "the linear part in the place of the anchor",
            "linear, first = statistics[of.linear], of.curvature",
            "linear, first = statistics[of.centre], of.curvature",
            "tests/kernels/test_quadratic.py",
        ),
        (
            "a header skipped that is not there",
            "if has_header:",
            "if True:",
            "tests/regression/test_matrices.py",
        ),
    ],
    "kernels/rows.py": [
        (
            "nuisance parameters taken for what rows share",
            "* width(rows) + rows.n_nuisances :]",
            "* width(rows) :]",
            "surrogate-walk",
        ),
        (
            "effects beyond their limits left out of rows",
            "            place = k * rows.n_sparse\n            add_effects(",
            "            place = k * rows.n_sparse\n            k or add_effects(",
            "parts",
        ),
        (
            "coefficients of the wrong predictor",
            "weights[j, k] = w[k * each + j]",
            "weights[j, k] = w[k * n_columns + j]",
            "tests/kernels/test_rows.py",
        ),
        (
            "one intercept for all predictors",
            "eta[i, k] += w[k * each + n_columns]",
            "eta[i, k] += w[n_columns]",
            "tests/kernels/test_rows.py",
        ),
        (
            "offsets of the first rows",
            "rows.offset[index[start + i] - rows.first, k]",
            "rows.offset[i, k]",
            "tests/kernels/test_rows.py",
        ),
        (
            "one row alone in the intercept's gradient",
            "gradient[k * each + n_columns] += factors[i, k]",
            "gradient[k * each + n_columns] = factors[i, k]",
            "tests/kernels/test_rows.py",
        ),
        (
            "the first column of coefficients in all",
            "start = np.uint64(start)\n    total = 0.0",
            "start = np.uint64(0)\n    total = 0.0",
            "tests/kernels/test_rows.py",
        ),
        (
            "the intercept taken for an effect",
            "place = k * each + n_columns + rows.intercept\n            add_effects(",
            "place = k * each + n_columns\n            add_effects(",
            "tests/kernels/test_rows.py",
        ),
    ],
}
