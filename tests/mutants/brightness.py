"""Mutants of what z is kept in, drawn by and summed up over."""

from tests.mutants.mutant import Rows

PASS = "tests/bounds/test_validity.py::test_bounds_of_the_package_pass"
MUTANTS: Rows = {
    "kernels/brightness.py": [
        (
            "the place of a row off by one",
            "bright.slot[n] = i + 1",
            "bright.slot[n] = i",
            "implicit-single-q",
        ),
        (
            "the row that is moved keeps its old place",
            "bright.slot[moved] = i + 1",
            "pass",
            "implicit-single-q",
        ),
        (
            "the row that is moved takes another's factor",
            "bright.log_factor[i] = bright.log_factor[last]",
            "pass",
            "implicit-single-q",
        ),
        (
            "a darkened row keeps its place in the table",
            "bright.slot[bright.index[i]] = 0",
            "pass",
            "implicit-single-q",
        ),
        (
            "the last but one bright row is lost",
            "if i != last:",
            "if i + 1 < last:",
            "implicit-single-q",
        ),
        (
            "the first bright row taken for dark",
            "return bright.slot[n] != 0",
            "return bright.slot[n] > 1",
            "implicit-single-q",
        ),
        (
            "a row's factor stored at its own number",
            "bright.log_factor[i] = log_factor",
            "bright.log_factor[n] = log_factor",
            "implicit-single-q",
        ),
    ],
    "kernels/dark_rates.py": [
        (
            "bright rows left among the dark",
            "for k in range(bright.count[0]):\n        i = bright.index[k]",
            "for k in range(1, bright.count[0]):\n        i = bright.index[k]",
            "parts",
        ),
        (
            "rates beyond the limit left out",
            "return near + _times(rows.constants[i, ROW.beyond], shared[POWERS.beyond])",
            "return near",
            "independent",
        ),
        (
            "effects beyond their limits left out of the sum",
            "_subtract(sums, low, place, beyond * size)",
            "pass",
            "parts",
        ),
        (
            "dense part beyond its limit left out of the sum",
            "_subtract(sums, low, PARTS_SHARED.beyond, beyond * half_width)",
            "pass",
            "parts",
        ),
        (
            "only the first effect of a row counted",
            "column, size = effect_at(rows, i, j)\n            size *= weight\n            _sub",
            "column, size = effect_at(rows, i, 0)\n            size *= weight\n            _sub",
            "parts",
        ),
        (
            "sizes of a row's numbers left out of the sum",
            "_subtract(sums, low, first + column, near * size)",
            "_subtract(sums, low, first + column, near)",
            "parts",
        ),
        (
            "effects on further predictors left out of the sum",
            "range(n_predictors):\n        weight, first = weight_of_effects(rows, i, k), PARTS",
            "range(1):\n        weight, first = weight_of_effects(rows, i, k), PARTS",
            "tests/kernels/test_dark_rates.py::test_sums_over_the_dark_rows",
        ),
        (
            "effects on all predictors with one weight",
            "weight, first = weight_of_effects(rows, i, k), k * rows.n_sparse",
            "weight, first = 1.0, k * rows.n_sparse",
            "tests/kernels/test_dark_rates.py::test_sums_over_the_dark_rows",
        ),
        (
            "half-width of the dense part left out of the sum",
            "_subtract(sums, low, PARTS_SHARED.near, near * half_width)",
            "_subtract(sums, low, PARTS_SHARED.near, near)",
            "parts",
        ),
        (
            "a row that is kept bright may darken",
            "        return np.inf\n",
            "        return 0.0\n",
            "parts-kept",
        ),
        (
            "a row that is kept bright counted among the dark",
            "    if rows.constants[i, ROW.near] == np.inf:\n        return\n",
            "",
            "parts-kept",
        ),
    ],
    "kernels/fresh_brightness.py": [
        (
            "rate of the Poisson draws halved",
            "rng.random() < -np.expm1(-times * rate)",
            "rng.random() < -np.expm1(-0.5 * times * rate)",
            "independent",
        ),
        (
            "rows with a rate that is NaN dark",
            "return rate != rate or rng.random()",
            "return rng.random()",
            "tests/kernels/test_fresh_brightness.py::test_rows_with_a_rate_that_is_nan_are_bright",
        ),
        (
            "a move by another step with z as proposed",
            "    if given_theta:\n",
            "    if False:\n",
            "joint-moved",
        ),
        (
            "candidates after a move at their rates",
            "2.0 if given_theta else 1.0",
            "1.0",
            "joint-moved",
        ),
        (
            "candidates kept with the chance of a proposal",
            "bright = 1.0 / (1.0 + np.exp(-rate - log_factor[i]))",
            "bright = -np.expm1(-rate)",
            "surrogate-moved",
        ),
        (
            "probability of having been drawn left out",
            "- np.log(-np.expm1(-rate_of(rows, w, index[i])))",
            "",
            "independent",
        ),
        (
            "factors of the old brightness kept",
            "bright.log_factor[i] = log_factor[i]",
            "pass",
            "independent",
        ),
        (
            "a row drawn twice bright twice",
            "if i == light or drawn[i] != drawn[count - 1]:",
            "if True:",
            "tests/kernels/test_fresh_brightness.py",
        ),
        (
            "one bright row lost on acceptance",
            "bright.count[0] = count",
            "bright.count[0] = max(count - 1, 0)",
            "independent",
        ),
    ],
    "kernels/layout.py": [
        (
            "constants of the two powers swapped",
            "near: int = 0\n    beyond: int = 1\n    outcome: int = 2\n    anchor: int = 3\n\n",
            "near: int = 1\n    beyond: int = 0\n    outcome: int = 2\n    anchor: int = 3\n\n",
            "independent",
        ),
        (
            "constants of parts swapped",
            "near: int = 0\n    beyond: int = 1\n    half_width: int = 2\n    outcome: int = 3",
            "near: int = 1\n    beyond: int = 0\n    half_width: int = 2\n    outcome: int = 3",
            "parts",
        ),
        (
            "powers of parts swapped",
            "near: int = 0\n    beyond: int = 1\n    effects: int = 2",
            "near: int = 1\n    beyond: int = 0\n    effects: int = 2",
            "parts",
        ),
        (
            "numbers in front of what is packed swapped",
            "limit: int = 1\n    scale: int = 2",
            "limit: int = 2\n    scale: int = 1",
            "parts",
        ),
        (
            "row data taken for a predictor",
            'data."""\n        return self.anchor + n_predictors\n\n\nclass PartsRow',
            'data."""\n        return self.anchor + n_predictors - 1\n\n\nclass PartsRow',
            f"{PASS}[Taylor-binomial-logit0]",
        ),
        (
            "pairs of an arrow where lengths of its rows are",
            "values = lengths + n_sparse * (n_pairs > 0)",
            "values = lengths + 0 * n_sparse",
            "tests/kernels/test_quadratic.py",
        ),
    ],
    "kernels/sweeps.py": [
        (
            "darkening accepted with the inverse ratio",
            "np.log(plan.q[plan.level[n]]) - log_odds",
            "log_odds - np.log(plan.q[plan.level[n]])",
            "implicit-single-q",
        ),
        (
            "brightening accepted with the inverse ratio",
            "log_odds - np.log(plan.q[plan.level[n]])",
            "np.log(plan.q[plan.level[n]]) - log_odds",
            "implicit-single-q",
        ),
        (
            "q left out of brightening",
            "log_odds - np.log(plan.q[plan.level[n]])",
            "log_odds",
            "implicit-by-row",
        ),
        (
            "rows that just brightened may darken again",
            "(n_bright - 1, -1, -1):\n        n = bright.index[i]\n        log_odds",
            "(bright.count[0] - 1, -1, -1):\n        n = bright.index[i]\n        log_odds",
            "implicit-single-q",
        ),
        (
            "bright rows proposed to brighten",
            "if not is_bright(bright, n):\n                plan.candidates",
            "if True:\n                plan.candidates",
            "implicit-single-q",
        ),
        (
            "Gibbs update with odds inverted",
            "1.0 / (1.0 + np.exp(-log_odds))",
            "1.0 / (1.0 + np.exp(log_odds))",
            "cycle",
        ),
        (
            "Gibbs update of dark rows only",
            "darken(bright, bright.slot[n] - 1)\n        # P(z_n",
            "continue\n        # P(z_n",
            "with-replacement",
        ),
        (
            "rates left out of the odds of darkening",
            "log_odds = bright.log_factor[i] + rate_of(rows, w, n)",
            "log_odds = bright.log_factor[i]",
            "parts",
        ),
        (
            "rates left out of the odds of brightening",
            "nan_is_dark(plan.log_factor[i] + rate_of(rows, w, n), scratch)",
            "nan_is_dark(plan.log_factor[i], scratch)",
            "parts",
        ),
        (
            "the first row of each level never proposed",
            "place = plan.start[level] - 1",
            "place = plan.start[level]",
            "implicit-by-row",
        ),
        (
            "the last row of each level never proposed",
            "if place >= stop or place < 0:",
            "if place >= stop - 1 or place < 0:",
            "implicit-by-row",
        ),
        (
            "rows that darken are drawn without their place",
            "darken(bright, bright.slot[n] - 1)",
            "darken(bright, 0)",
            "with-replacement",
        ),
        (
            "a subset without its last row",
            "n_rows - plan.size + drawn + i",
            "n_rows - plan.size + drawn + i - 1",
            "without-replacement",
        ),
    ],
}
