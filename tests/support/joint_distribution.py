"""Whether transitions keep a logistic regression's joint distribution of parameters and data."""

import numpy as np
from scipy import stats

from tests.support.data import log_sigmoid


def joint_p_values(X, chain_of, transitions, n_simulations):
    """P-values of: theta after a few transitions has the distribution of the prior, jointly with y.

    theta ~ N(0, I), y | theta, z | theta, y; then transitions that ought to keep that of
    (theta, y) (Gandy & Scott 2020). All simulations are independent: the tests have the level that
    they state. `chain_of` returns a chain, not begun, given outcomes.
    """
    rng = np.random.default_rng(7)
    n_rows, d = X.shape

    def simulate():
        theta = rng.standard_normal(d)
        return theta, (rng.random(n_rows) < np.exp(log_sigmoid(X @ theta))).astype(float)

    def summary(theta, y):
        fit = np.sum(log_sigmoid((2.0 * y - 1.0) * (X @ theta)))
        return *theta, fit, *(theta * (X.T @ (y - 0.5)))

    fresh, after = [], []
    for _ in range(n_simulations):
        theta, y = simulate()
        chain = chain_of(y)
        chain.start_at(rng, theta)
        chain.advance(rng, transitions, 0.0)
        after.append(summary(chain.state.theta, y))
        fresh.append(summary(*simulate()))
    fresh, after = np.array(fresh), np.array(after)
    exact = [stats.kstest(after[:, i], "norm").pvalue for i in range(d)]
    both = range(d, fresh.shape[1])
    return exact + [stats.ks_2samp(fresh[:, i], after[:, i]).pvalue for i in both]
