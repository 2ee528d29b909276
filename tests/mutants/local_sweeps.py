"""Mutants of local sweeps."""

from tests.mutants.mutant import Rows

MUTANTS: Rows = {
    "kernels/local.py": [
        (
            "slice of an effect at the height of one",
            "finite_or_minus_inf(total - before, scratch)",
            "finite_or_minus_inf(total, scratch)",
            "local-effects",
        ),
        (
            "a wider distribution for that of effects",
            "narrower = 0.5 - 0.5 / spread**2",
            "narrower = 0.0",
            "local-wide",
        ),
        (
            "one bright row of each group alone",
            "for i in range(first, last):\n        total += out[i]",
            "for i in range(first, last):\n        total = out[i]",
            "local-effects",
        ),
        (
            "predictors that do not move with an effect",
            "groups.eta[i, 0] + shift",
            "groups.eta[i, 0]",
            "local-effects",
        ),
        (
            "places of bright rows before they were sorted",
            "bright.slot[groups.index[i]] = place + 1",
            "pass",
            "local-effects",
        ),
        (
            "log factors of bright rows before they were sorted",
            "bright.log_factor[place] = groups.moved[i, 0]",
            "pass",
            "local-effects",
        ),
        (
            "bright rows of the group before",
            "        first = last\n",
            "",
            "local-effects",
        ),
        (
            "Jacobian of effects that follow left out",
            "total = log_density + log_sds",
            "total = log_density",
            "local-globals",
        ),
        (
            "bright rows left out of a trajectory of global parameters",
            "for i in range(count):\n        total += out[i]",
            "for i in range(count):\n        total += 0.0 * out[i]",
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
                "if -rng.standard_exponential() < log_ratio:\n        "
                "accept_conditional_update(chain, dynamics"
            ),
            "if True:\n        accept_conditional_update(chain, dynamics",
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
            "theta[groups.elements[g]] = mean + sd * proposals.v[g]",
            "theta[groups.elements[0]] = mean + sd * proposals.v[g]",
            "local-globals",
        ),
        (
            "points where effects are rounded to their mean",
            "if not lost * ROUNDING**2 < MOST_LOST:",
            "if False:",
            "tests/sampling/test_local_sweeps.py",
        ),
        (
            "Jacobian of an earlier trajectory",
            "copy(proposals.log_sds_new, proposals.log_sds)",
            "pass",
            "local-globals",
        ),
        (
            "Jacobian of another trajectory where one begins",
            "        proposals.log_sds[0],\n        chain,",
            "        proposals.log_sds_new[0],\n        chain,",
            "local-globals",
        ),
    ],
    "kernels/sweeps.py": [
        (
            "darkening by groups with the inverse ratio",
            "log_p - bright.log_factor[i]",
            "bright.log_factor[i] - log_p",
            "local-brightness",
        ),
        (
            "probability left out of brightening by groups",
            "log_odds - log_probability(groups.rate[i])",
            "log_odds",
            "local-brightness",
        ),
        (
            "rates for probabilities",
            "np.log(-np.expm1(-rate))",
            "np.log(rate)",
            "local-brightness",
        ),
        (
            "all rows proposed like the brightest of their group",
            "rng.random() < np.expm1(-own) / np.expm1(-most)",
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
            "time to a proposal that starts again with each group",
            "        wait -= most * (stop - place)\n",
            "",
            "local-brightness",
        ),
        (
            "bright rows of groups proposed to brighten",
            "if not is_bright(bright, n) and rng.random()",
            "if rng.random()",
            "local-brightness",
        ),
        (
            "rows of groups that just brightened may darken",
            "(n_bright - 1, -1, -1):\n        n = bright.index[i]\n        log_p",
            "(bright.count[0] - 1, -1, -1):\n        n = bright.index[i]\n        log_p",
            "local-brightness",
        ),
    ],
    "target/conditionals.py": [
        (
            "curvature of the likelihoods left out",
            "diagonal * (u_1 - u_0)[own]",
            "0.0 * diagonal * (u_1 - u_0)[own]",
            "tests/sampling/test_local_sweeps.py",
        ),
    ],
    "regression/expansion.py": [
        (
            "another block for the diagonal of the sparse one",
            "statistics[parts.diagonal : parts.lengths]",
            "statistics[parts.cross : parts.cross + n_sparse]",
            "tests/sampling/test_local_sweeps.py",
        ),
    ],
}
