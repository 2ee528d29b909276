"""Mutants of local sweeps."""

from tests.mutants.mutant import Rows

MUTANTS: Rows = {
    "kernels/group_effects.py": [
        (
            "slice of an effect at the height of one",
            "level < total - before",
            "level < total",
            "local-effects",
        ),
        (
            "one bright row of each group alone",
            "following[i] = first[g]",
            "following[i] = -1",
            "local-effects",
        ),
        (
            "predictors that do not move with an effect",
            "groups.eta[i] + shift",
            "groups.eta[i]",
            "local-effects",
        ),
        (
            "darkening by groups with the inverse ratio",
            "log_q - bright.log_factor[i]",
            "bright.log_factor[i] - log_q",
            "local-brightness",
        ),
        (
            "probability left out of brightening by groups",
            "plan.log_factor[i] - groups.log_q[i]",
            "plan.log_factor[i]",
            "local-brightness",
        ),
        (
            "all rows proposed like the brightest of their group",
            "rng.random() < own / most",
            "True",
            "local-brightness",
        ),
        (
            "distance of a group left out of darkening",
            "boost[posterior.rows.codes[n, 0]] * q[level[n]]",
            "q[level[n]]",
            "local-brightness",
        ),
        (
            "bright rows of groups proposed to brighten",
            "if is_bright(bright, n):\n                continue",
            "if False:\n                continue",
            "local-brightness",
        ),
        (
            "rows of groups that just brightened may darken",
            "for i in range(n_bright - 1, -1, -1)",
            "for i in range(bright.count[0] - 1, -1, -1)",
            "local-brightness",
        ),
    ],
    "kernels/local.py": [
        (
            "Jacobian of effects that follow left out",
            "total = log_density + log_sds",
            "total = log_density",
            "local-globals",
        ),
        (
            "bright rows left out of a trajectory of global parameters",
            "total += out[i]",
            "total += 0.0 * out[i]",
            "local-globals",
        ),
        (
            "conditional distributions of earlier global parameters",
            "copy(proposals.moments_new.ravel(), proposals.moments.ravel())",
            "pass",
            "local-globals",
        ),
        (
            "prior of effects counted twice",
            "log_density - chain.log_density[0] - expected",
            "log_density - chain.log_density[0]",
            "local-effects",
        ),
        (
            "global parameters always accepted",
            (
                "if -rng.standard_exponential() < log_ratio:\n        accept_given_z(chain, "
                "proposals"
            ),
            "if True:\n        accept_given_z(chain, proposals",
            "local-globals",
        ),
        (
            "standardised effects not divided by their sd",
            "(chain.theta[groups.elements[g]] - mean) / sd",
            "(chain.theta[groups.elements[g]] - mean)",
            "local-globals",
        ),
        (
            "effects in the place of others",
            "theta[groups.elements[g]] = mean[g] + sd[g] * proposals.v[g]",
            "theta[groups.elements[g]] = mean[0] + sd[g] * proposals.v[g]",
            "local-globals",
        ),
    ],
}
