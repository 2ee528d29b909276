"""Mutants of moves whose rows are out of core."""

from tests.mutants.mutant import Rows

MUTANTS: Rows = {
    "out_of_core/batch_chain.py": [
        (
            "weight of a batch's last proposal kept",
            "log_weight[at] - self.state.log_weight",
            "log_weight[at] - log_weight[at - 1]",
            "one-batch",
        ),
    ],
    "out_of_core/proposals.py": [
        (
            "bright rows of a batch drawn at half the rate",
            "rng.random() < -np.expm1(-rate)",
            "rng.random() < -np.expm1(-0.5 * rate)",
            "one-batch",
        ),
        (
            "the same parameters in two batches",
            "stream(key, number, THETA)",
            "stream(key, 1, THETA)",
            "two-batches",
        ),
        (
            "density of the proposals left out of their weights",
            "log_density - log_proposal_density(v)",
            "log_density",
            "one-batch",
        ),
    ],
    "out_of_core/batch_target.py": [
        (
            "rates of rows rounded beside those drawn from",
            "table_of(tables.near[some], tables.beyond[some],",
            "table_of(tables.near[some], tables.near[some],",
            "one-batch",
        ),
        (
            "the same brightness for two likelihoods",
            "further = (self.number,) if self.number else ()",
            "further = ()",
            "tests/out_of_core/test_posteriors.py::test_brightness_of_two_likelihoods",
        ),
        (
            "a likelihood weighed at another one's coefficients",
            "own, n_shared = self.proposer.place_of(self.number)",
            "own, n_shared = self.proposer.place_of(0)",
            "tests/out_of_core/test_posteriors.py::test_two_likelihoods_against_quadrature",
        ),
        (
            "a partition left out of the weights",
            "for part in parts:",
            "for part in parts[1:]:",
            "one-batch",
        ),
        (
            "a partition counted twice",
            "for part in parts:",
            "for part in [*parts, parts[0]]:",
            "one-batch",
        ),
        (
            "the same brightness in two batches",
            "self._stream(key, each, partition) for",
            "self._stream(key, 1, partition) for",
            "two-batches",
        ),
        (
            "the same random numbers in two partitions",
            "FIRST_PARTITION + partition.number, *further",
            "FIRST_PARTITION, *further",
            "one-batch",
        ),
    ],
}
