"""Mutants of bounds by expansions."""

from tests.mutants.mutant import Rows

PASS = "tests/bounds/test_validity.py::test_bounds_of_the_package_pass"
MUTANTS: Rows = {
    "bounds/kept_rows.py": [
        (
            "all rows kept bright",
            "rows = bright > keep",
            "rows = bright > -1.0",
            "tests/bounds/test_kept_rows.py",
        ),
        (
            "rows kept bright that are still counted",
            "constants[rows, column] = 0.0",
            "pass",
            "tests/bounds/test_kept_rows.py",
        ),
        (
            "a bound on rows that are kept bright",
            "constants[rows, ROW.near] = np.inf",
            "pass",
            "tests/bounds/test_kept_rows.py",
        ),
        (
            "rows kept bright that are expected dark",
            "bright[rows] = 1.0",
            "pass",
            "tests/bounds/test_kept_rows.py",
        ),
        (
            "no floor under rates",
            "multipliers[(multipliers > 0.0) & (multipliers < floor)] = floor",
            "pass",
            "tests/bounds/test_kept_rows.py",
        ),
    ],
    "bounds/metric.py": [
        (
            "a metric that is too narrow",
            "* (1.0 + 1e-9), ridge",
            "* 0.9, ridge",
            f"{PASS}[Taylor-bernoulli-logit]",
        ),
        (
            "a radius with another ridge",
            "return np.linalg.inv(factor).T * (1.0 + 1e-9), ridge",
            "return np.linalg.inv(factor).T * (1.0 + 1e-9), 0.0 * ridge",
            f"{PASS}[Taylor-bernoulli-logit]",
        ),
    ],
    "bounds/parts.py": [
        (
            "reach of the dense part too short",
            "return np.sqrt(np.einsum(",
            "return 0.5 * np.sqrt(np.einsum(",
            "parts",
        ),
    ],
    "bounds/radius.py": [
        (
            "quantile of the square",
            "return math.sqrt(2.0 * float(",
            "return (2.0 * float(",
            "tests/bounds/test_radius.py::test_as_scipy_s",
        ),
        (
            "degrees not halved",
            "gammaincinv(degrees / 2.0,",
            "gammaincinv(degrees,",
            "tests/bounds/test_radius.py::test_as_scipy_s",
        ),
        (
            "moments of the inverse",
            "return math.exp(0.5 * order",
            "return math.exp(-0.5 * order",
            "tests/bounds/test_radius.py::test_as_scipy_s",
        ),
        (
            "ratio of gamma functions inverted",
            "gammaln((degrees + order) / 2.0) - gammaln(degrees / 2.0)",
            "gammaln(degrees / 2.0) - gammaln((degrees + order) / 2.0)",
            "tests/bounds/test_radius.py::test_as_scipy_s",
        ),
        (
            "moments of one degree more",
            "gammaln((degrees + order) / 2.0)",
            "gammaln((degrees + order + 1) / 2.0)",
            "tests/bounds/test_radius.py::test_as_scipy_s",
        ),
    ],
    "bounds/taylor_parts.py": [
        (
            "derivatives at the anchor alone",
            "eta - end * span, eta + end * span, y)",
            "eta, eta, y)",
            "parts",
        ),
        (
            "weights of the parts left out of the remainder",
            "near = steepest * typical**2 / 6.0",
            "near = steepest * (reach * parts.typical) ** 2 / 6.0",
            "parts",
        ),
    ],
}
