"""Mutants of what tells links from links that are kept off 0 and 1."""

from tests.mutants.mutant import Rows

GUARDED = "tests/agreement/test_guarded_rows.py"
GIVEN_UP = f"{GUARDED}::test_rows_that_may_be_given_up"
MUTANTS: Rows = {
    "likelihoods/links.py": [
        (
            "whatever is far out",
            "return bool(np.all(same | np.isnan(values)))",
            "return True",
            f"{GUARDED}::test_other_floors_are_refused",
        ),
        (
            "nearly 1 for 1",
            "same &= (expected != 1.0) | (values == 1.0)",
            "pass",
            f"{GUARDED}::test_other_floors_are_refused",
        ),
        (
            "guards of other variables",
            "v is not variable and v.name and isinstance(v.owner.op, RANDOM)",
            "False",
            f"{GUARDED}::test_a_guard_of_a_prior",
        ),
    ],
    "agreement/guarded_rows.py": [
        (
            "rows at the mode alone",
            "for moved in (eta, eta + step):",
            "for moved in (eta,):",
            GIVEN_UP,
        ),
        (
            "rows out of each other's sight",
            "covariance = factor @ factor.T",
            "covariance = np.diag(np.diag(factor @ factor.T))",
            GIVEN_UP,
        ),
        (
            "those predicted worst alone",
            "for score, limit in ((-values, -BADLY), (sizes, OUTLYING * float(np.median(sizes)))):",
            "for score, limit in ((-values, -BADLY),):",
            GIVEN_UP,
        ),
        (
            "the step the other way",
            "left, -covariance @",
            "left, covariance @",
            GIVEN_UP,
        ),
    ],
    "reading/weights.py": [
        (
            "weights beyond their type",
            'check_integers(graph, f"a weight of {name!r}")',
            "pass",
            "tests/reading/test_integers.py::test_weights",
        ),
    ],
    "reading/flat.py": [
        (
            "potentials beyond their type",
            'check_integers(flat[0], "the log density of priors and potentials")',
            "pass",
            "tests/reading/test_integers.py::test_potentials",
        ),
    ],
}
