"""Long runs of NUTS, with which slow tests compare."""

import numpy as np
import pymc as pm

from tests.support.comparison import assert_matches, reference_from_draws

#: More numbers than the slow tests compare with NUTS: of so many, with `N_ERRORS` for each, one
#: would be farther off in half of all suites of an exact sampler.
N_NUMBERS = 10_000


def draws_of(idata, names):
    """Draws of variables, shape (chain, draw, D)."""
    parts = [idata.posterior[name].to_numpy() for name in names]
    return np.concatenate([part.reshape(*part.shape[:2], -1) for part in parts], axis=2)


def assert_match_nuts(model, *steps, tune=1000, draws=10_000, nuts=(), names=None, **options):
    """Check runs of steps against one of NUTS.

    Parameters
    ----------
    nuts : dict, optional
        Settings of NUTS, which are 1,000 draws in tuning and 4,000 after it.
    names : list of str, optional
        Of the variables that are compared; all free ones by default.
    """
    options = dict(model=model, chains=2, cores=2, progressbar=False, random_seed=4) | options
    names = names or [rv.name for rv in model.free_RVs]
    nuts = dict(nuts_sampler="pymc", tune=1000, draws=4000) | dict(nuts)
    reference = reference_from_draws(draws_of(pm.sample(**nuts, **options), names))
    for step in steps:
        ours = pm.sample(step=step, tune=tune, draws=draws, **options)
        assert_matches(draws_of(ours, names), reference, N_NUMBERS)
