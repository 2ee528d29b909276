"""Updates of the brightness of rows, group by group, given all parameters."""

import numpy as np

from pymc_flymc.kernels.brightness import brighten, darken, is_bright
from pymc_flymc.kernels.factors import CHUNK, log_factors, nan_is_dark
from pymc_flymc.kernels.native import kernel_part


@kernel_part
def _boost_groups(groups, w):
    """Write the factor on the rates at which dark rows are proposed, for each group."""
    # A bound's gap grows with the squared distance of the group's effect from where the bound
    # touches. The factor depends on parameters, which do not move while brightness does.
    slack = groups.slack
    for g in range(groups.boost.shape[0]):
        z = (w[groups.column + g] - groups.touching[g]) / groups.sd[g]
        groups.boost[g] = (slack + z * z) / (slack + 1.0)


@kernel_part(inline="always")
def sweep_groups(rng, posterior, groups, w, bright, scratch):
    """Update the brightness of all rows by Metropolis-Hastings, group by group.

    As in `sweeps.implicit_sweep`, which explains why dark rows come first. Here probabilities grow
    with the distance of a group's effect from where its bounds touch. Far from there rows are
    bright more often, and with fixed probabilities they would rarely become bright.

    Proposals are the events of a Poisson process along the rows: a row is proposed if it has an
    event. The waiting time that is left at a group's end carries over to the next group, so that a
    group without proposals costs one comparison.
    """
    plan, n_bright, pending = groups.plan, bright.count[0], 0
    q, level, boost = plan.q, plan.level, groups.boost
    _boost_groups(groups, w)
    wait = rng.standard_exponential()
    for g in range(groups.end.shape[0]):
        place, stop, most = plan.start[g], plan.start[g + 1], boost[g] * groups.q_max[g]
        while wait < most * (stop - place):
            place += min(int(wait / most), stop - place - 1)  # the quotient is rounded
            n = plan.order[place]
            place += 1
            # A Poisson process has no memory: a new waiting time starts at the next row.
            wait = rng.standard_exponential()
            own = boost[g] * q[level[n]]
            # Rows are proposed at the group's largest rate, and thinned to their own rates.
            if not is_bright(bright, n) and rng.random() < np.expm1(-own) / np.expm1(-most):
                plan.candidates[pending] = n
                groups.rate[pending] = own
                pending += 1
                if pending == CHUNK:
                    _brighten_candidates(rng, posterior, groups, pending, w, bright, scratch)
                    pending = 0
        wait -= most * (stop - place)
    _brighten_candidates(rng, posterior, groups, pending, w, bright, scratch)
    for i in range(n_bright - 1, -1, -1):
        n = bright.index[i]
        log_p = log_probability(boost[posterior.rows.codes[n, 0]] * q[level[n]])
        # Bright -> dark is accepted with min(1, p / (L/B - 1)).
        if -rng.standard_exponential() < log_p - bright.log_factor[i]:
            darken(bright, i)


@kernel_part(inline="always")
def log_probability(rate):
    """Return the log of the probability that a Poisson process of a rate has an event."""
    return np.log(-np.expm1(-rate))


@kernel_part
def _brighten_candidates(rng, posterior, groups, size, w, bright, scratch):
    plan, log_factor = groups.plan, posterior.log_factor
    log_factors(posterior.rows, log_factor, w, plan.candidates, 0, size, plan.log_factor, scratch)
    for i in range(size):
        # Dark -> bright was proposed with probability p: accepted with min(1, (L/B - 1) / p).
        log_odds = nan_is_dark(plan.log_factor[i], scratch)
        log_ratio = log_odds - log_probability(groups.rate[i])
        if -rng.standard_exponential() < log_ratio:
            brighten(bright, plan.candidates[i], plan.log_factor[i])
