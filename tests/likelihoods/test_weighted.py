"""Likelihoods with weights."""

import numpy as np

from pymc_flymc.likelihoods import PoissonLog
from pymc_flymc.likelihoods.weighted import weighted_family


def test_derivatives_of_a_familys_own_see_outcomes_as_they_are():
    class Explicit(PoissonLog):
        def derivatives(self, arguments, y):
            (eta,) = arguments
            return y * eta, y[None], np.zeros((1, 1, len(y)))

    y, w, eta = np.array([0.5, 1.75]), np.array([2.0, 0.5]), np.array([[1.0, -1.0]])
    likelihood, columns = weighted_family(Explicit(), y, w)
    value, first, _ = likelihood.derivatives(eta, columns)
    np.testing.assert_array_equal(value, w * y * eta[0])
    np.testing.assert_array_equal(first, [w * y])
