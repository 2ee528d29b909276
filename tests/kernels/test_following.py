"""Effects that follow their scales: there and back, gradients, and the map at the centre."""

import numpy as np
import pytest

from pymc_flymc.kernels.following import Following
from pymc_flymc.kernels.shared_scales import Locations
from tests.support.native import gather_gradient, log_volume, standardise, unstandardise

#: Element 2 follows element 0, around half of element 3; 4 and 1 follow both 0 and 3.
FOLLOWING = Following(
    first=np.array([0, 1, 3]),
    effects=np.array([2, 4, 1]),
    share=np.array([0.9, 0.3, 0.6]),
    distance=np.array([0.7, -0.4, 0.5]),
    locations=Locations(
        np.array([0.2, 0.0, -0.1]), np.array([0, 1, 1, 1]), np.array([3]), np.array([0.5])
    ),
    first_scale=np.array([0, 1, 3]),
    scale=np.array([0, 0, 3]),
    power=np.array([1.0, -1.0, 0.5]),
    origin=np.array([-0.4, 0.1, 0.3]),
    multiplied=np.array([0.0, 1.0]),
)


@pytest.fixture(params=["geometry", "stretched"])
def either(request):
    return request.getfixturevalue(request.param)


def differences(function, x):
    return np.stack([(function(x + e) - function(x - e)) / 2e-6 for e in 1e-6 * np.eye(5)], axis=-1)


def test_the_way_back_leads_back(either):
    either = either._replace(following=FOLLOWING)
    v, theta, back = np.random.default_rng(3).normal(size=5), np.empty(5), np.empty(5)
    unstandardise(either, v, theta)
    np.testing.assert_allclose(either.unstandardise(v), theta, rtol=1e-12)
    standardise(either, theta, back)
    np.testing.assert_allclose(back, v, rtol=1e-11)
    np.testing.assert_allclose(either.standardise(theta), v, rtol=1e-11)


def test_gradients_are_those_of_the_density_of_coordinates():
    x, slope = np.random.default_rng(4).normal(size=(2, 5))
    theta, gradient = FOLLOWING.spread(x), slope.copy()
    jacobian = differences(FOLLOWING.spread, x)
    volume = log_volume(FOLLOWING, theta)
    assert volume == pytest.approx(np.log(np.linalg.det(jacobian)), abs=1e-8)
    gather_gradient(FOLLOWING, theta, gradient)
    of_volume = differences(lambda x: log_volume(FOLLOWING, FOLLOWING.spread(x)), x)
    np.testing.assert_allclose(gradient, jacobian.T @ slope + of_volume, atol=1e-7)


def test_followed_geometries_spread_as_before_at_the_centre(either):
    followed = either.followed(FOLLOWING)
    zero = np.zeros(5)
    np.testing.assert_allclose(followed.unstandardise(zero), either.centre, atol=1e-14)
    before, after = (differences(each.unstandardise, zero) for each in (either, followed))
    np.testing.assert_allclose(after @ after.T, before @ before.T, atol=1e-8)
