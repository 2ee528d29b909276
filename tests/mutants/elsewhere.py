"""Mutants of moves whose rows are out of core."""

from tests.mutants.mutant import Rows

MUTANTS: Rows = {
    "out_of_core/chain.py": [
        (
            "weight of a batch's last proposal kept",
            "log_weight[at] - self.state.log_weight",
            "log_weight[at] - log_weight[at - 1]",
            "one-batch",
        ),
    ],
    "out_of_core/kernels.py": [
        (
            "bright rows of a batch drawn at half the rate",
            "rng.random() < -np.expm1(-rate)",
            "rng.random() < -np.expm1(-0.5 * rate)",
            "one-batch",
        ),
    ],
    "out_of_core/proposals.py": [
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
    "out_of_core/rates.py": [
        (
            "rates of rows rounded beside those drawn from",
            "table_of(tables.near[index], tables.beyond[index],",
            "table_of(tables.near[index], tables.near[index],",
            "one-batch",
        ),
    ],
    "out_of_core/target.py": [
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
            "made = [(stream(key, each, part), self",
            "made = [(stream(key, 1, part), self",
            "two-batches",
        ),
        (
            "the same random numbers in two partitions",
            "part = FIRST_PARTITION + partition.number",
            "part = FIRST_PARTITION",
            "one-batch",
        ),
    ],
}
