"""Mutants of bounds in parts as kernels evaluate them, and of effects of groups."""

from tests.mutants.mutant import Rows

MUTANTS: Rows = {
    "kernels/radius_powers.py": [
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
            "growth left out of the slope",
            "relative = (3.0 + growth * past) / (limit * limit)",
            "relative = 3.0 / (limit * limit)",
            "tests/bounds/test_taylor_parts.py::test_slope_within_and_beyond_limits",
        ),
        (
            "slopes of effects without their sign",
            "out[m + j] = -along if x < 0.0 else along",
            "out[m + j] = along",
            "tests/bounds/test_taylor_parts.py::test_slope_within_and_beyond_limits",
        ),
        (
            "the power in the slope one too low",
            "slope = near * 3.0 * x * x * scale",
            "slope = near * 2.0 * x * x * scale",
            "tests/bounds/test_taylor_parts.py::test_slope_within_and_beyond_limits",
        ),
    ],
    "kernels/sparse_effects.py": [
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
