"""Mutants of what reads rates, scales and probabilities that groups have."""

from tests.mutants.mutant import Rows

READ = "tests/likelihoods/test_log_links.py::test_what_groups_have_is_a_predictor"
REFUSED = "tests/likelihoods/test_log_links.py::test_functions_of_lookups_are_refused"
MUTANTS: Rows = {
    "likelihoods/links.py": [
        (
            "rates that divide multiply",
            "eta = pt.add(*(power * log for power, log in logs))",
            "eta = pt.add(*(log for power, log in logs))",
            f"{READ}[rates of two factors, and slopes]",
        ),
        (
            "exposures of several rates are left out",
            "log = sign * power * pt.log(number)",
            "log = (eta is None) * sign * power * pt.log(number)",
            f"{READ}[a product of three]",
        ),
        (
            "one over a rate is the rate",
            "sign *= power",
            "pass",
            f"{READ}[durations]",
        ),
        (
            "the odds of the other",
            "return None if a is None or b is None else a - b",
            "return None if a is None or b is None else b - a",
            f"{READ}[a ratio]",
        ),
        (
            "whatever is divided by a sum",
            "if len(others) != 1 or len(whole.owner.inputs) != 2:",
            "if not others:",
            f"{REFUSED}[ratio of another sum]",
        ),
        (
            "the first of three",
            "if len(others) != 1 or len(whole.owner.inputs) != 2:",
            "if len(others) == 0:",
            f"{REFUSED}[ratio of three]",
        ),
        (
            "a choice by a variable",
            "if is_from(v, ps.Switch) and not free_inputs([source]):",
            "if is_from(v, ps.Switch):",
            f"{REFUSED}[choice by a variable]",
        ),
        (
            "an index of a variable",
            "if isinstance(v.owner.op, AdvancedSubtensor) and not free_inputs(others):",
            "if isinstance(v.owner.op, AdvancedSubtensor):",
            f"{REFUSED}[index of a variable]",
        ),
        (
            "log probabilities for log odds",
            "lambda v: pt.log(v) - pt.log1p(-v)",
            "lambda v: pt.log(v)",
            f"{READ}[probabilities]",
        ),
    ],
    "likelihoods/beta.py": [
        (
            "a mean and whatever is less it",
            "if _is_number(one, 1) and same(less, mean):",
            "if _is_number(one, 1):",
            "tests/likelihoods/test_log_links.py::test_shapes_of_another_mean_are_refused",
        ),
    ],
}
