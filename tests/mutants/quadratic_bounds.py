"""Mutants of bounds that are quadratic in predictors."""

from tests.mutants.mutant import Rows

PASS = "tests/bounds/test_validity.py::test_bounds_of_the_package_pass"
MUTANTS: Rows = {
    "bounds/softmax.py": [
        (
            "half the curvature in the gap",
            "gap = 0.25 * squares + linear - growth",
            "gap = 0.125 * squares + linear - growth",
            f"{PASS}[B\\xf6hning-softmax0]",
        ),
        (
            "half the curvature in the sum",
            "- 0.25 * form, pt",
            "- 0.125 * form, pt",
            f"{PASS}[B\\xf6hning-softmax0]",
        ),
        (
            "gradient of the last block alone",
            "gradient += slope @ x",
            "gradient = slope @ x",
            f"{PASS}[B\\xf6hning-softmax0]",
        ),
        (
            "the reference class left out of the form",
            "form = -quadratic(sum(classes[1:], classes[0]), square)[1] / (k + 1)",
            "form = 0.0",
            f"{PASS}[B\\xf6hning-softmax0]",
        ),
        (
            "slope of the expansion with the other sign",
            "gap = 0.25 * squares + linear",
            "gap = 0.25 * squares - linear",
            f"{PASS}[B\\xf6hning-softmax0]",
        ),
        (
            "half the curvature",
            "np.expm1(xi) / (2.0 * xi * (1.0 + ratio)), 0.0)\n            out",
            "np.expm1(xi) / (4.0 * xi * (1.0 + ratio)), 0.0)\n            out",
            "tests/bounds/test_softmax.py::test_collapsed_sum_is_the_sum_over_rows",
        ),
        (
            "half the curvature in the recursion",
            "pt.expm1(xi) / (2.0 * xi * (1.0 + ratio)), 0.0)",
            "pt.expm1(xi) / (4.0 * xi * (1.0 + ratio)), 0.0)",
            "tests/bounds/test_softmax.py::test_gap_is_never_negative",
        ),
        (
            "the mean of the first class kept",
            "mean = mean + ratio / (1.0 + ratio) * along",
            "mean = mean",
            "tests/bounds/test_softmax.py::test_gap_is_never_negative",
        ),
        (
            "the sum of the first class kept",
            "log_z = log_z + np.log1p(ratio)",
            "log_z = log_z",
            "tests/bounds/test_softmax.py::test_collapsed_sum_is_the_sum_over_rows",
        ),
        (
            "quadratic form twice",
            "weighted_gap(0.5 * form - growth",
            "weighted_gap(form - growth",
            "tests/bounds/test_softmax.py",
        ),
        (
            "the first class counted twice",
            "rest = first != i",
            "rest = first != -1",
            "tests/bounds/test_softmax.py::test_collapsed_sum_is_the_sum_over_rows",
        ),
        (
            "slack left out of the sum",
            "away, axis=0) - slack",
            "away, axis=0)",
            "tests/bounds/test_softmax.py::test_collapsed_sum_is_the_sum_over_rows",
        ),
        (
            "the gradient of where it touches",
            "yield x, value, slope - pull, curvature",
            "yield x, value, slope, curvature",
            "tests/bounds/test_softmax.py::test_collapsed_sum_is_the_sum_over_rows",
        ),
        (
            "half of the curvature's pull left out",
            "(slope - 0.5 * pull) * away",
            "(slope - pull) * away",
            "tests/bounds/test_softmax.py::test_collapsed_sum_is_the_sum_over_rows",
        ),
        (
            "weights left out of the gap",
            "gap = gap * constants[:, COLUMNS.weight(likelihood.n_predictors)]",
            "gap = gap * 1.0",
            f"{PASS}[B\\xf6hning-weighted softmax]",
        ),
        (
            "slack left out of the gap",
            "return gap + constants[:, COLUMNS.slack]",
            "return gap",
            "tests/bounds/test_softmax.py::test_collapsed_sum_is_the_sum_over_rows",
        ),
        (
            "the first class's place for all",
            "[constants[:, COLUMNS.touch + i] for i",
            "[constants[:, COLUMNS.touch] for i",
            "tests/bounds/test_softmax.py::test_collapsed_sum_is_the_sum_over_rows",
        ),
    ],
    "bounds/jaakkola_jordan.py": [
        (
            "curvature of a half",
            "return np.tanh(0.5 * xi) / (4.0 * xi)",
            "return np.tanh(0.5 * xi) / (8.0 * xi)",
            f"{PASS}[Jaakkola-Jordan-bernoulli-logit0]",
        ),
        (
            "labels with the other sign",
            "successes - 0.5 * trials,",
            "0.5 * trials - successes,",
            f"{PASS}[Jaakkola-Jordan-bernoulli-logit0]",
        ),
        (
            "slack left out of the sum",
            "trials * (lam * xi**2 - log_2cosh_half(xi)) - slack,",
            "trials * (lam * xi**2 - log_2cosh_half(xi)),",
            f"{PASS}[Jaakkola-Jordan-bernoulli-logit0]",
        ),
        (
            "one trial in each row's curvature",
            "columns = [trials * lam,",
            "columns = [lam,",
            f"{PASS}[Jaakkola-Jordan-binomial-logit0]",
        ),
        (
            "one trial in each row's likelihood",
            "constants[:, COLUMNS.trials] if likelihood.row_data else 1.0",
            "1.0",
            f"{PASS}[Jaakkola-Jordan-binomial-logit0]",
        ),
        (
            "a bound that touches at half of xi",
            "(log_2cosh_half(xi) - lam * xi**2) + slack",
            "(log_2cosh_half(0.5 * xi) - 0.25 * lam * xi**2) + slack",
            f"{PASS}[Jaakkola-Jordan-bernoulli-logit1]",
        ),
        (
            "the count left out of the curvature",
            "by_count.add(x, eta, y * a,",
            "by_count.add(x, eta, a,",
            f"{PASS}[free Jaakkola-Jordan-negative-binomial-free0]",
        ),
        (
            "alpha with the other sign",
            "-0.5 * weight, c)",
            "0.5 * weight, c)",
            f"{PASS}[free Jaakkola-Jordan-negative-binomial-free0]",
        ),
        (
            "each count once",
            "times = np.bincount(places, weight)",
            "times = np.ones(len(counts))",
            f"{PASS}[free Jaakkola-Jordan-negative-binomial-free0]",
        ),
        (
            "alpha left out of the gap",
            "gap = (y + pt.exp(log_alpha)) *",
            "gap = y *",
            f"{PASS}[free Jaakkola-Jordan-negative-binomial-free0]",
        ),
        (
            "alpha left out of the sum",
            "return by_count + alpha * by_alpha + gammas",
            "return by_count + by_alpha + gammas",
            f"{PASS}[free Jaakkola-Jordan-negative-binomial-free0]",
        ),
        (
            "gamma functions left out",
            "return by_count + alpha * by_alpha + gammas",
            "return by_count + alpha * by_alpha",
            f"{PASS}[free Jaakkola-Jordan-negative-binomial-free0]",
        ),
        (
            "slack in the sum alone",
            "self.constants[rows] = bound.constants(tightness, y, slack)",
            "self.constants[rows] = bound.constants(tightness, y, 0.0 * slack)",
            f"{PASS}[Jaakkola-Jordan-bernoulli-logit0]",
        ),
        (
            "the quadratic around another anchor",
            "problem.own.w[: problem.design.width])",
            "0.9 * problem.own.w[: problem.design.width])",
            f"{PASS}[Jaakkola-Jordan-bernoulli-logit0]",
        ),
        (
            "every expected gap a third",
            "spread += (ends - 2.0 * middle) / 6.0",
            "spread += (ends - 2.0 * middle) / 18.0",
            "tests/bounds/test_expected_rows.py::test_as_many_are_bright_as_expected",
        ),
        (
            "predictors that vary to one side",
            "pairs = [(eta - half_width, nuisances,",
            "pairs = [(eta, nuisances,",
            "tests/bounds/test_expected_rows.py::test_as_many_are_bright_as_expected",
        ),
        (
            "nuisance parameters that do not vary",
            "pairs += [",
            "_ = [",
            "tests/bounds/test_expected_rows.py::test_as_many_are_bright_as_expected",
        ),
    ],
    "bounds/tangent.py": [
        (
            "slope of the tangent with the other sign",
            "+ features[0] * pt.sqr(z)",
            "- features[0] * pt.sqr(z)",
            f"{PASS}[tangent-student-t]",
        ),
        (
            "outcomes counted once",
            "(2.0 * omega * residual) @ x,",
            "(omega * residual) @ x,",
            f"{PASS}[tangent-student-t]",
        ),
        (
            "scale left out of the squares",
            "* pt.exp(-2.0 * nuisances[-1])\n        start",
            "\n        start",
            f"{PASS}[tangent-student-t]",
        ),
        (
            "slack left out of the sum",
            "+ squares + offset - slack",
            "+ squares + offset",
            f"{PASS}[tangent-student-t]",
        ),
        (
            "residuals of skewed noise left out",
            "if skewness is not None:",
            "if False:",
            f"{PASS}[tangent-asymmetric-laplace1]",
        ),
        (
            "skewed noise the other way",
            "total + skewness * residuals",
            "total - skewness * residuals",
            f"{PASS}[tangent-asymmetric-laplace1]",
        ),
        (
            "normaliser of one row",
            "n_rows * family.log_normaliser(nuisances)",
            "family.log_normaliser(nuisances)",
            f"{PASS}[tangent-student-t]",
        ),
    ],
}
