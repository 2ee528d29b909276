"""Mutants of what bounds say of themselves, and of the checks of that."""

from tests.mutants.mutant import Rows

PASS = "tests/bounds/test_validity.py::test_bounds_of_the_package_pass"
WRONG = "tests/bounds/test_validity.py::test_wrong_bounds_are_caught"
DECLARED = "tests/bounds/test_declared.py"
SETTINGS = "tests/steps/test_settings.py"
COMPILED = "tests/agreement/test_compiled.py"
MUTANTS: Rows = {
    "bounds/bound.py": [
        (
            "likelihoods inverted",
            "return likelihood.log_likelihood(arguments, outcome(likelihood, y))",
            "return -likelihood.log_likelihood(arguments, outcome(likelihood, y))",
            f"{COMPILED}::test_as_built[all rows]",
        ),
        (
            "a constant for each row",
            "return pt.constant(0.0), pt.zeros((0,))",
            "return 0.01 * pt.sum(pt.sqr(w)), pt.zeros((0,))",
            f"{COMPILED}::test_as_built[all rows]",
        ),
        (
            "data of rows left out",
            "return 1 + len(likelihood.row_data)",
            "return 1",
            "tests/bounds/test_bound.py",
        ),
        (
            "outcomes without what rows have beside them",
            "outcome(likelihood, y)",
            "y[0]",
            "tests/bounds/test_bound.py",
        ),
        (
            "rows that are expected dark",
            "return float(problem.design.n_rows)",
            "return 0.0",
            "tests/bounds/test_bound.py",
        ),
        (
            "negative slack",
            "is_number(slack) and 0 <= slack < np.inf",
            "is_number(slack) and slack < np.inf",
            "tests/bounds/test_jaakkola_jordan.py::test_bad_slack",
        ),
        (
            "infinite slack",
            "is_number(slack) and 0 <= slack < np.inf",
            "is_number(slack) and 0 <= slack",
            "tests/bounds/test_jaakkola_jordan.py::test_bad_slack",
        ),
        (
            "truth values taken for slack",
            "good = is_number(slack) and 0",
            "good = 0",
            "tests/bounds/test_jaakkola_jordan.py::test_bad_slack",
        ),
        (
            "the anchor of another likelihood",
            "for each, own in zip(regressions, anchor.parts, strict=True)",
            "for each, own in zip(regressions, anchor.parts[::-1], strict=True)",
            "tests/target/test_several.py::test_rows_and_collapsed_sums_add_up_to_the_model[shop]",
        ),
        (
            "anything taken for a bound",
            'return hasattr(kind, "supports")',
            "return True",
            f"{SETTINGS}::test_steps",
        ),
        (
            "log odds of gaps that are small",
            "lambda g: g + pt.log(-pt.expm1(-g)), pullback)",
            "lambda g: pt.log(-pt.expm1(-g)), pullback)",
            "tests/bounds/test_jaakkola_jordan.py::test_log_odds_never_lose_their_meaning",
        ),
        (
            "slope of the log odds with the other sign",
            "return [-gradients[0] / pt.expm1(-inputs[0])]",
            "return [gradients[0] / pt.expm1(-inputs[0])]",
            "tests/kernels/test_hamiltonian.py::test_force_is_the_gradient_of_the_joint_density",
        ),
        (
            "slope of the brightness with the other sign",
            "return [gradients[0] / pt.expm1(inputs[0])]",
            "return [-gradients[0] / pt.expm1(inputs[0])]",
            "tests/kernels/test_hamiltonian.py::test_force_is_the_gradient_of_the_joint_density",
        ),
        (
            "violations passed over",
            "violated = pt.lt(gap, -rounding_error(gap))",
            "violated = pt.lt(gap, -np.inf)",
            ("tests/steps/test_violations.py::test_one_per_cent_of_a_gap_is_reported[FireflyHMC]"),
        ),
        (
            "the expansion left out of a bright row's factor",
            "factor = remainder + log_brightness(gap)",
            "factor = log_brightness(gap)",
            f"{COMPILED}::test_as_built[joint]",
        ),
        (
            "rates twice in a bright row's factor",
            "factor = remainder + log_brightness(gap)",
            "factor = remainder + log_odds(gap)",
            f"{COMPILED}::test_as_built[joint]",
        ),
        (
            "a thousandth of the rounding there is",
            "EPSILONS = 256.0",
            "EPSILONS = 0.256",
            f"{PASS}[Taylor-poisson-log1]",
        ),
        (
            "the first term alone",
            "return reduce(add, own)",
            "return own[0]",
            "tests/bounds/test_bound.py",
        ),
        (
            "terms with their sign",
            "own = [sizes.get(v, abs(v)) for v in inputs]",
            "own = [sizes.get(v, v) for v in inputs]",
            "tests/bounds/test_bound.py",
        ),
        (
            "the first factor alone",
            "return reduce(mul, own)",
            "return own[0]",
            "tests/bounds/test_bound.py",
        ),
        (
            "quotients as large as what is divided",
            "return own[0] / abs(inputs[1])",
            "return own[0]",
            "tests/bounds/test_bound.py",
        ),
        (
            "squares as large as what is squared",
            "return own[0] * own[0]",
            "return own[0]",
            "tests/bounds/test_bound.py",
        ),
    ],
    "bounds/validity.py": [
        (
            "convex rows passed over",
            "if largest[worst] > CURVATURE_ROUNDING * (1.0 + size[worst]):",
            "if False:",
            f"{DECLARED}::test_not_log_concave",
        ),
        (
            "families of one's own under our bounds unchecked",
            "(_is_ours(family) and _is_ours(bound))",
            "_is_ours(bound)",
            f"{DECLARED}::test_not_log_concave",
        ),
        (
            "bounds of one's own on our families unchecked",
            "(_is_ours(family) and _is_ours(bound))",
            "_is_ours(family)",
            f"{DECLARED}::test_a_bound_of_ones_own",
        ),
        (
            "the bound unchecked",
            "        check_bound(checked, likelihood, y, nuisances=tuple(problem.own.w[start:]))",
            "        pass",
            f"{DECLARED}::test_derivatives_beyond_their_limits",
        ),
        (
            "curvature with the other sign",
            "largest[finite] = np.linalg.eigvalsh(second[finite])[:, -1]",
            "largest[finite] = -np.linalg.eigvalsh(second[finite])[:, -1]",
            f"{DECLARED}::test_a_bound_of_ones_own",
        ),
        ("violations passed over", "        if bad.size:", "        if False:", WRONG),
        (
            "sums passed over",
            "if not (close or total == by_row):",
            "if False:",
            WRONG,
        ),
        (
            "the anchor alone",
            "w_new, distance = w + factor @ step,",
            "w_new, distance = w + 0.0 * factor @ step,",
            WRONG,
        ),
        (
            "bounds on other likelihoods",
            "if not bound.supports(likelihood):",
            "if False:",
            WRONG,
        ),
        (
            "sums of expansions compared with those of bounds",
            "above = bound.remainder(likelihood, arguments, constants)",
            "pass",
            f"{PASS}[Taylor-bernoulli-logit]",
        ),
        (
            "ten thousand times the rounding",
            "+ 1e-10 * abs(by_row)",
            "+ 1e-2 * abs(by_row)",
            WRONG,
        ),
    ],
    "sampling/bound_choice.py": [
        (
            "no bound for None",
            "return [AllRows() if bound is None else bound] * len(names)",
            'return ["auto" if bound is None else bound] * len(names)',
            "tests/bounds/test_bound.py",
        ),
        (
            "variables that do not exist",
            "        if name not in names:",
            "        if False:",
            f"{SETTINGS}::test_bounds_for_other_likelihoods",
        ),
        (
            "bounds for other likelihoods",
            "if not (isinstance(asked, str) or asked.supports(regression.likelihood)):",
            "if False:",
            f"{SETTINGS}::test_bounds_for_other_likelihoods",
        ),
        (
            "none for some",
            "if None in settings and any(setting is not None for setting in settings):",
            "if False:",
            "tests/bounds/test_bound.py",
        ),
        (
            "bounds by place",
            'settings = [bound.get(name, "auto") for name in names]',
            "settings = list(bound.values())",
            "tests/bounds/test_bound.py",
        ),
        (
            "classes of bounds taken for bounds",
            "if each is not None and not (isinstance",
            "if isinstance(each, int) and not (isinstance",
            f"{SETTINGS}::test_steps",
        ),
    ],
    "kernels/native.py": [
        (
            "kernels of another version loaded",
            'f"_{version_of(function.__code__.co_filename):x}_{arguments[:16]}"',
            'f"_{arguments[:16]}"',
            "tests/kernels/test_kept_code.py",
        ),
        (
            "one name for all signatures",
            "_{arguments[:16]}",
            "",
            "tests/kernels/test_kept_code.py",
        ),
        (
            "nothing kept on disk",
            "            keep_on_disk(dispatcher)\n",
            "",
            "tests/kernels/test_kept_code.py::test_it_is_loaded",
        ),
        (
            "rows of any width read",
            "if found != self._widths:",
            "if False:",
            "tests/target/test_validation.py::test_functions_say_what_they_read",
        ),
        (
            "arguments of other types compiled for",
            "            dispatcher.disable_compile()\n",
            "",
            "tests/kernels/test_native.py::test_kernels_take_no_other_arguments",
        ),
    ],
    "kernels/posterior.py": [
        (
            "rates of the first rows",
            "rates[i] = rate_of(rows, w, index[i])",
            "rates[i] = rate_of(rows, w, i)",
            "tests/kernels/test_brightness.py",
        ),
        (
            "rates of one row",
            "rates[i] = rate_of(rows, w, index[i])",
            "rates[i] = rate_of(rows, w, index[0])",
            "tests/kernels/test_brightness.py",
        ),
        (
            "factors of the first rows",
            "log_factors(rows, posterior.log_factor, w, index, 0, n, factors, scratch)",
            (
                "log_factors(rows, posterior.log_factor, w, np.arange(n).astype(np.int32), 0, n, "
                "factors, scratch)"
            ),
            "tests/kernels/test_brightness.py",
        ),
        (
            "the last row left out",
            "rows, n = posterior.rows, index.shape[0]",
            "rows, n = posterior.rows, index.shape[0] - 1",
            "tests/kernels/test_brightness.py",
        ),
        (
            "factors with gradients never looked at",
            "if gradient.shape[0] > 0:",
            "if gradient.shape[0] > 1000:",
            f"{COMPILED}::test_factors_with_gradients",
        ),
    ],
}
