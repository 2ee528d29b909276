"""Mutants of bounds by expansions."""

from tests.mutants.mutant import Rows

PASS = "tests/bounds/test_validity.py::test_bounds_of_the_package_pass"
SCALED = f"{PASS}[scaled Taylor-gamma-free0]"
PARTS = (
    "tests/bounds/test_taylor_parts.py::test_bound_is_below_the_likelihood_and_collapses[poisson]"
)
MUTANTS: Rows = {
    "bounds/taylor.py": [
        (
            "all rows kept bright",
            "rows = bright > keep",
            "rows = bright > -1.0",
            "tests/bounds/test_bound.py",
        ),
        (
            "rows kept bright that are still counted",
            "constants[rows, column] = 0.0",
            "pass",
            "tests/bounds/test_bound.py",
        ),
        (
            "a bound on rows that are kept bright",
            "constants[rows, ROW.near] = np.inf",
            "pass",
            "tests/bounds/test_bound.py",
        ),
        (
            "rows kept bright that are expected dark",
            "bright[rows] = 1.0",
            "pass",
            "tests/bounds/test_bound.py",
        ),
        (
            "no floor under rates",
            "multipliers[(multipliers > 0.0) & (multipliers < floor)] = floor",
            "pass",
            "tests/bounds/test_bound.py",
        ),
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
        (
            "differences of neighbouring classes left out",
            "np.triu_indices(len(blocks), 1)",
            "np.triu_indices(len(blocks), 2)",
            "tests/bounds/test_metric.py::test_spans_reach_the_differences_of_all_classes",
        ),
        (
            "sums of classes in place of differences",
            "(blocks[i] - blocks[j]).T",
            "(blocks[i] + blocks[j]).T",
            "tests/bounds/test_metric.py::test_spans_reach_the_differences_of_all_classes",
        ),
        (
            "the prior's ridge for the data's too",
            "factor = np.linalg.cholesky(information + np.diag(ridge))",
            "factor = np.linalg.cholesky(2.0 * information + np.diag(ridge))",
            f"{PASS}[Taylor-bernoulli-logit]",
        ),
        (
            "quantile of the square",
            "return math.sqrt(2.0 * float(",
            "return (2.0 * float(",
            "tests/bounds/test_metric.py::test_as_scipy_s",
        ),
        (
            "degrees not halved",
            "gammaincinv(degrees / 2.0,",
            "gammaincinv(degrees,",
            "tests/bounds/test_metric.py::test_as_scipy_s",
        ),
        (
            "moments of the inverse",
            "return math.exp(0.5 * order",
            "return math.exp(-0.5 * order",
            "tests/bounds/test_metric.py::test_as_scipy_s",
        ),
        (
            "ratio of gamma functions inverted",
            "gammaln((degrees + order) / 2.0) - gammaln(degrees / 2.0)",
            "gammaln(degrees / 2.0) - gammaln((degrees + order) / 2.0)",
            "tests/bounds/test_metric.py::test_as_scipy_s",
        ),
        (
            "moments of one degree more",
            "gammaln((degrees + order) / 2.0)",
            "gammaln((degrees + order + 1) / 2.0)",
            "tests/bounds/test_metric.py::test_as_scipy_s",
        ),
        (
            "a quarter of the remainder",
            "return np.asarray(limit * spread**power / factorial(power))",
            "return np.asarray(limit * spread**power / factorial(power + 1))",
            f"{PASS}[Taylor-bernoulli-logit]",
        ),
        (
            "the curvature twice",
            "difference = difference - derivative / factorial(i)",
            "difference = difference - derivative",
            f"{PASS}[Taylor-bernoulli-logit]",
        ),
        (
            "derivatives at the anchor alone",
            "half_width = distance * spread",
            "half_width = 0.0 * spread",
            f"{PASS}[Taylor-bernoulli-logit]",
        ),
        (
            "growth up to the limit left out",
            "at_limit = anywhere * np.exp(growth * limit)",
            "at_limit = anywhere",
            f"{PASS}[Taylor-poisson-log0]",
        ),
        (
            "one derivative fewer",
            "for i in range(1, order + 1):",
            "for i in range(1, order):",
            f"{PASS}[Taylor-bernoulli-logit]",
        ),
        (
            "half of the rates",
            "near = square ** (0.5 * (self.order + 1))",
            "near = 0.5 * square ** (0.5 * (self.order + 1))",
            f"{PASS}[Taylor-bernoulli-logit]",
        ),
        (
            "a cubic form six times as large",
            "packed = Packed(radius.ridge, radius.limit, growth, cubic / 6.0)",
            "packed = Packed(radius.ridge, radius.limit, growth, cubic)",
            f"{PASS}[third-order Taylor-bernoulli-logit]",
        ),
        (
            "the cubic form of the last block alone",
            "cubic += part",
            "cubic = part",
            f"{PASS}[third-order Taylor-bernoulli-logit]",
        ),
        (
            "pairs of columns once",
            "np.where(i == j, 1.0, 2.0)",
            "1.0",
            f"{PASS}[third-order Taylor-bernoulli-logit]",
        ),
        (
            "growth left out",
            "beyond = past ** (self.order + 1) * pt.exp(packed.growth * past)",
            "beyond = past ** (self.order + 1)",
            f"{PASS}[Taylor-poisson-log0]",
        ),
        (
            "a second power that begins too late",
            "past = pt.sqrt(pt.maximum(square, packed.limit**2)) - packed.limit",
            "past = pt.sqrt(pt.maximum(square, 4.0 * packed.limit**2)) - 2.0 * packed.limit",
            "tests/bounds/test_taylor.py::test_remainder_is_smooth_at_its_limit",
        ),
        (
            "the anchor of another row",
            "constants[rows] = table_of(near, beyond, eta.T, y)",
            "constants[rows] = table_of(near, beyond, np.roll(eta.T, 1, axis=0), y)",
            f"{PASS}[Taylor-bernoulli-logit]",
        ),
    ],
    "bounds/taylor_parts.py": [
        (
            "half-width of the dense part too short",
            "found.append(np.linalg.norm(",
            "found.append(0.5 * np.linalg.norm(",
            "parts",
        ),
        (
            "means within groups added",
            "centred = -(x.sparse @",
            "centred = (x.sparse @",
            "tests/bounds/test_coefficient_parts.py",
        ),
        (
            "the radius of the transposed matrix",
            "precision = np.linalg.cholesky(0.5 * (schur + schur.T)).T",
            "precision = np.linalg.cholesky(0.5 * (schur + schur.T))",
            "tests/bounds/test_coefficient_parts.py",
        ),
        (
            "an inverse that is too small",
            "solve_triangular(precision, np.eye(m)) *",
            "solve_triangular(precision, np.eye(m)) * 0.3 *",
            "tests/bounds/test_coefficient_parts.py",
        ),
        (
            "the transposed inverse",
            "centred @ self.inverse",
            "centred @ self.inverse.T",
            "tests/bounds/test_coefficient_parts.py",
        ),
        (
            "half of the rates",
            "near, beyond = mean / first,",
            "near, beyond = 0.5 * mean / first,",
            "parts",
        ),
        (
            "nothing beyond the limits",
            "enough * furthest**2 / first",
            "0.0 * enough * furthest**2 / first",
            "tests/bounds/test_taylor_parts.py::test_bound_is_tried_within_and_beyond_limits[poisson]",
        ),
        (
            "the dense part's powers left out of rates",
            "near, beyond = dense * shared[PARTS_SHARED.near], dense",
            "near, beyond = 0.0 * shared[PARTS_SHARED.near], dense",
            PARTS,
        ),
        (
            "derivatives at the anchor alone",
            "limit_terms_near(*terms, end * span)",
            "limit_terms_near(*terms, 0.0 * span)",
            "parts",
        ),
        (
            "weights of the parts left out of the remainder",
            "near, beyond = mean / first,",
            "near, beyond = mean / first * (half_width[0] * parts.typical / first) ** 2,",
            "parts",
        ),
        (
            "effects on further predictors left out of rates",
            "near, beyond = near + weight * of_near, beyond + weight * of_beyond",
            "near, beyond = near + (i == 0) * of_near, beyond + (i == 0) * of_beyond",
            "tests/bounds/test_several_in_parts.py",
        ),
        (
            "the first predictor's spread for all",
            "weights = spread[0] / spread",
            "weights = np.ones_like(spread)",
            "tests/bounds/test_several_in_parts.py",
        ),
        (
            "dense columns of another predictor",
            "centred[:, k * m : (k + 1) * m] += x.dense",
            "centred[:, :m] += x.dense",
            "tests/bounds/test_several_in_parts.py",
        ),
    ],
    "bounds/bound.py": [
        (
            "the second power left out of rates",
            "return cast(Graph, near + beyond)",
            "return cast(Graph, near)",
            f"{PASS}[Taylor-poisson-log0]",
        ),
        (
            "rates with the other sign in gaps",
            "self.remainder(likelihood, arguments, constants) + rate",
            "self.remainder(likelihood, arguments, constants) - rate",
            f"{PASS}[Taylor-bernoulli-logit]",
        ),
        (
            "moves together under bounds with sums over a row's effects",
            "isinstance(bound, ExpansionBound) and bound.n_sums == 0",
            "isinstance(bound, ExpansionBound)",
            "tests/bounds/test_taylor_parts.py::test_form_follows_the_design",
        ),
        (
            "other bounds taken for expansions",
            "isinstance(bound, ExpansionBound) and bound.n_sums == 0",
            "True",
            "tests/sampling/test_choice.py::test_contradictions_are_refused",
        ),
        (
            "no row kept bright",
            "pt.isinf(constants[:, ROW.near])",
            "pt.isinf(constants[:, ROW.near] * 0.0)",
            "tests/posteriors/test_kept_bright.py",
        ),
    ],
    "bounds/scaled_taylor.py": [
        (
            "rows normalised twice",
            "Before(log_scale, total)",
            "Before(log_scale, 2.0 * total)",
            SCALED,
        ),
        (
            "a scale that is not relative to the anchor's",
            "times: Any = pt.exp(w[p] - statistics[BEFORE.log_scale])",
            "times: Any = pt.exp(w[p])",
            SCALED,
        ),
        (
            "rates of the anchor's scale",
            "return times * expansion + normaliser, times * shared",
            "return times * expansion + normaliser, shared",
            "tests/bounds/test_scaled_taylor.py::test_bound_is_below_the_likelihood_and_collapses",
        ),
        (
            "weights of the anchor's scale",
            "        weights /= np.exp(log_scale)\n",
            "",
            SCALED,
        ),
        (
            "the scale left out of the remainder",
            "return cast(Graph, pt.exp(arguments[-1]) * own)",
            "return own",
            SCALED,
        ),
        (
            "the normaliser left out",
            "return times * expansion + normaliser, times",
            "return times * expansion, times",
            SCALED,
        ),
    ],
    "regression/expansion.py": [
        (
            "the constant left out",
            "return u, statistics[places.constant] + along - form, form",
            "return u, along - form, form",
            f"{PASS}[Taylor-bernoulli-logit]",
        ),
    ],
}
