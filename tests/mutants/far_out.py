"""Mutants of what is known far out: rates of derivatives, and the look at tails."""

from tests.mutants.mutant import Rows

LIMITS = "test_limits_on_the_derivatives"
MUTANTS: Rows = {
    "likelihoods/beta.py": [
        (
            "derivatives grow with the mean's predictor",
            "return np.asarray(limit), 2.0 * spread[1]",
            "return np.asarray(limit), 2.0 * spread[0]",
            f"tests/likelihoods/test_beta.py::{LIMITS}",
        ),
    ],
    "likelihoods/free_alpha.py": [
        (
            "derivatives grow with tau alone",
            "limit(np.exp(eta[0]), 2.0, c)",
            "limit(np.exp(eta[0]), 2.0, t)",
            f"tests/likelihoods/test_free_alpha.py::{LIMITS}",
        ),
    ],
    "likelihoods/scales_by_row.py": [
        (
            "precisions grow half as fast",
            "return np.asarray(2.0 * expit(",
            "return np.asarray(expit(",
            "tests/likelihoods/test_noise.py::test_limits_of_heavy_tails",
        ),
    ],
    "likelihoods/zero_inflated.py": [
        (
            "powers of s grow as s does",
            "(third(with_s, size), 3.0 * rate)",
            "(third(with_s, size), rate)",
            "tests/likelihoods/test_zero_inflated.py::test_limits_far_away",
        ),
        (
            "counts do not grow",
            "np.where(y == 0, rate, c)",
            "np.where(y == 0, rate, 0.0)",
            "tests/likelihoods/test_zero_inflated.py::test_limits_far_away",
        ),
    ],
    "sampling/proposal_weights.py": [
        (
            "one side of each parameter",
            "yield from (direction, -direction)",
            "yield -direction",
            "tests/sampling/test_far_out.py::test_each_parameter_is_looked_at_on_both_sides",
        ),
        (
            "a single parameter",
            "for parameter in range(n):",
            "for parameter in range(1, n):",
            "tests/sampling/test_far_out.py::test_each_parameter_is_looked_at_on_both_sides",
        ),
        (
            "dark rows left out of the density that pCN proposals are compared with",
            "factors = np.logaddexp(factors, -rates)",
            "pass",
            "tests/sampling/test_far_out.py::test_the_density_that_is_looked_at_is_the_models",
        ),
    ],
    "sampling/choice.py": [
        (
            "no look at tails where moves are asked for",
            "sampler.target)\n    warn_of_heavy_tails(task, sampler)",
            "sampler.target)",
            "tests/sampling/test_far_out.py::test_moves_that_are_asked_for_warn",
        ),
        (
            "no look at tails where pCN proposals given brightness are asked for",
            "if adaptation.is_normal:",
            "if False:",
            "tests/sampling/test_far_out.py::test_pcn_given_brightness_warns_of_long_tails",
        ),
        (
            "moves that miss tails selected",
            "if missed is None:",
            "if True:",
            "tests/sampling/test_choice.py::test_moves_that_miss_tails_are_not_selected",
        ),
    ],
    "out_of_core/feasibility.py": [
        (
            "a weight far out never stands out",
            "return bool(np.max(far) - np.log(REPLICATES) > largest)",
            "return False",
            "tests/out_of_core/test_tails.py::test_look_far_out",
        ),
    ],
}
