"""Bounds that users register."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import FireflyHMC, JaakkolaJordan
from pymc_flymc.bounds import BOUNDS
from pymc_flymc.extending import register_bound, unregister_bound


class Promising(JaakkolaJordan):
    """A bound that promises more than all others."""

    def expected_rows(self, problem, stride):
        return 0.0


def test_a_registered_bound_is_chosen_until_it_is_taken_back():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=50), rng.integers(0, 2, size=50)
    before, bound = BOUNDS.copy(), Promising()
    register_bound(bound)
    try:
        with pm.Model():
            pm.Bernoulli("y", logit_p=pm.Normal("beta", 0.0, 1.0) * x, observed=y)
            (chosen,) = FireflyHMC().bounds
        assert chosen is bound
    finally:
        unregister_bound(bound)
    assert before == BOUNDS
    with pytest.raises(ValueError, match=r"bound .*write Promising\(\)"):
        register_bound(Promising)
    with pytest.raises(ValueError, match="this bound is not registered; those that are: Jaakkola"):
        unregister_bound(Promising())
