"""Bounds that users register."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import FireflyHMC, register_bound
from pymc_flymc.bounds import BOUNDS, JaakkolaJordan


class Promising(JaakkolaJordan):
    """A bound that promises more than all others."""

    def expected_rows(self, problem, stride):
        return 0.0


def test_a_registered_bound_is_chosen():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=50), rng.integers(0, 2, size=50)
    before = BOUNDS.copy()
    try:
        register_bound(Promising())
        with pm.Model():
            pm.Bernoulli("y", logit_p=pm.Normal("beta", 0.0, 1.0) * x, observed=y)
            (bound,) = FireflyHMC().bounds
        assert type(bound) is Promising
    finally:
        BOUNDS[:] = before
    with pytest.raises(ValueError, match=r"bound .*write Promising\(\)"):
        register_bound(Promising)
