"""Outcomes of zero and one."""

import numpy as np
import pytensor.tensor as pt
import pytest
from scipy.special import expit

from pymc_flymc.graphs.tools import plain_function
from pymc_flymc.likelihoods import BernoulliLogit


def test_bernoulli_observed_values():
    with pytest.raises(ValueError, match="y has 1 values that are not 0 or 1, first in row 1: nan"):
        BernoulliLogit().read_observed(np.array([0.0, np.nan, 1.0]), "y")


def test_bernoulli_log_likelihood():
    eta = np.array([-800.0, -3.0, 0.0, 2.0, 800.0])
    graph = BernoulliLogit().log_likelihood([pt.constant(eta)], pt.constant([1.0, 0, 1, 1, 1]))
    value = plain_function([], graph)()
    expected = [-800, np.log1p(-expit(-3.0)), np.log(0.5), np.log(expit(2.0)), 0]
    np.testing.assert_allclose(value, expected, rtol=1e-14)
