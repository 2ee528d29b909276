"""Mutants of bounds in parts as kernels evaluate them, and of effects of groups."""

from tests.mutants.mutant import Rows

MUTANTS: Rows = {
    "kernels/collapsed.py": [
        (
            "growth of derivatives left out",
            "past * past * past * np.exp(growth * past) / (limit * limit)",
            "past * past * past / (limit * limit)",
            "parts",
        ),
        (
            "limits that set in too late",
            "past = x - limit\n    if past <= 0.0:\n        return near, 0.0",
            "past = x - 1.5 * limit\n    if past <= 0.0:\n        return near, 0.0",
            "parts",
        ),
        (
            "effects not measured within groups",
            "effects[j] += each * row[j]",
            "effects[j] += 0.0",
            "parts",
        ),
        (
            "means of common shifts kept by their sources",
            "effects[int(sources[k])] -= mean",
            "effects[int(sources[k])] -= 0.0",
            "parts-shifts",
        ),
        (
            "means of common shifts that do not reach their targets",
            "effects[int(targets[k])] += mean",
            "effects[int(targets[k])] += 0.0",
            "parts-shifts",
        ),
        (
            "common shifts left out of the slope",
            "slopes[int(sources[k])] -= weights[k] * along",
            "slopes[int(sources[k])] -= 0.0",
            "tests/bounds/test_taylor_parts.py::test_slope_within_and_beyond_limits",
        ),
        (
            "slopes of common shifts in the order of the shifts",
            "for i in range(int(packed[HEADER.n_shifts]) - 1, -1, -1):",
            "for i in range(int(packed[HEADER.n_shifts]) - 1 + 1):",
            "tests/bounds/test_taylor_parts.py::test_slope_within_and_beyond_limits",
        ),
        (
            "growth left out of the slope",
            "relative = (3.0 + growth * past) / (limit * limit)",
            "relative = 3.0 / (limit * limit)",
            "tests/bounds/test_taylor_parts.py::test_slope_within_and_beyond_limits",
        ),
        (
            "slopes of effects without their sign",
            "slopes[m + j] = -along if x < 0.0 else along",
            "slopes[m + j] = along",
            "tests/bounds/test_taylor_parts.py::test_slope_within_and_beyond_limits",
        ),
        (
            "coefficients of all predictors in their own order",
            "reorder(u, m // k, q, k, False, ordered)\n    image",
            "reorder(u, m, q, 1, False, ordered)\n    image",
            "tests/bounds/test_taylor_parts.py::test_slope_within_and_beyond_limits",
        ),
        (
            "the power in the slope one too low",
            "slope = near * 3.0 * x * x * scale",
            "slope = near * 2.0 * x * x * scale",
            "tests/bounds/test_taylor_parts.py::test_slope_within_and_beyond_limits",
        ),
    ],
    "regression/design.py": [
        (
            "common shifts of columns with other numbers",
            "if np.array_equal(each.sums, block.sums)]",
            "if len(each.sums) == len(block.sums)]",
            "tests/bounds/test_coefficient_parts.py",
        ),
        (
            "common shifts of a factor that is twice in a row",
            "meet = [group for group in groups if np.any(group[0] & own)]",
            "meet = [group for group in groups[:0] if np.any(group[0] & own)]",
            "tests/bounds/test_coefficient_parts.py",
        ),
        (
            "common shifts of columns that have further numbers",
            "if not np.any(columns & taken)",
            "if len(columns) == len(taken)",
            "tests/bounds/test_coefficient_parts.py",
        ),
    ],
    "kernels/rows.py": [
        (
            "signs of a row's numbers kept",
            "(abs(number) if sizes else number) * w[place + rows.indices[j]]",
            "number * w[place + rows.indices[j]]",
            "parts",
        ),
        (
            "numbers of codes taken for others'",
            "w[place + rows.codes[n, n_ones + j]]",
            "w[place + rows.codes[n, j]]",
            "tests/kernels/test_rows.py",
        ),
        (
            "effects of the first predictor in all",
            "total += w[place + rows.codes[n, j]]",
            "total += w[rows.codes[n, j]]",
            "tests/kernels/test_rows.py",
        ),
        (
            "the last number of each row left out",
            (
                "for j in range(rows.indptr[n], rows.indptr[n + 1]):\n                number = "
                "rows.numbers[j]"
            ),
            (
                "for j in range(rows.indptr[n], rows.indptr[n + 1] - 1):\n                "
                "number = rows.numbers[j]"
            ),
            "tests/kernels/test_rows.py",
        ),
        (
            "one row of each group alone in the gradient",
            "gradient[place + rows.codes[n, j]] += factor",
            "gradient[place + rows.codes[n, j]] = factor",
            "tests/kernels/test_rows.py",
        ),
        (
            "another row's numbers in the rates",
            "place = rows.indptr[i] + j - n_codes",
            "place = rows.indptr[0] + j - n_codes",
            "parts",
        ),
        (
            "sizes of numbers with their sign",
            "return rows.indices[place], abs(rows.numbers[place])",
            "return rows.indices[place], rows.numbers[place]",
            "parts",
        ),
    ],
}
