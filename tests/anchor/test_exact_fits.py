"""Scales of noise without a mode: rows that can be fitted exactly are told, near ones are not."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import UnsupportedModelError
from pymc_flymc.steps import setup

N = 30
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 5))
LINE = X @ np.array([1.0, 2.0, 0.0, -1.0, 0.5])
NOISE = RNG.normal(size=N)
NOISES = {
    "normal": lambda mu, s, y: pm.Normal("y", mu, s, observed=y),
    "student t": lambda mu, s, y: pm.StudentT("y", nu=4, mu=mu, sigma=s, observed=y),
    "laplace": lambda mu, s, y: pm.Laplace("y", mu=mu, b=s, observed=y),
}
WIDE = lambda: pm.HalfNormal("s")  # noqa: E731
AS_ADVISED = lambda: pm.InverseGamma("s", 2, 1)  # noqa: E731
MESSAGE = r"noise of 'y'.* made of 's', .*fitted exactly.* pm\.InverseGamma\('s', 2, 1\)"


def read(noise, prior, y, of_groups=False):
    with pm.Model() as model:
        if of_groups:
            mu = pm.Normal("a", 0.0, 1.0, shape=N)[np.arange(N)]
        else:
            mu = X @ pm.Normal("b", 0.0, 2.0, shape=5)
        NOISES[noise](mu, prior(), y)
    return setup.read(model, None, None, None, "auto").problems[0].own


@pytest.mark.slow_cases("laplace", "student t")
@pytest.mark.parametrize("noise", NOISES)
def test_rows_that_are_fitted_exactly(noise):
    with pytest.raises((UnsupportedModelError, ValueError), match=MESSAGE):
        read(noise, WIDE, LINE)
    assert np.isfinite(read(noise, AS_ADVISED, LINE).w).all()


def test_an_effect_for_each_row():
    with pytest.raises(UnsupportedModelError, match=MESSAGE):
        read("student t", WIDE, NOISE, of_groups=True)
    assert np.isfinite(read("student t", AS_ADVISED, NOISE, of_groups=True).w).all()


@pytest.mark.parametrize("noise", ["normal", "student t"])
def test_noise_that_is_small(noise):
    w = read(noise, WIDE, LINE + 1e-4 * NOISE).w
    assert abs(w[-1] - np.log(1e-4)) < 1.0


def test_the_scale_of_noise_is_not_integrated_out_with_effects():
    """A search that has not ended is made again, and with the scale integrated out it collapsed."""
    y = np.random.default_rng(11).normal(size=8)
    with pm.Model() as model:
        effects = pm.Normal("a", 0.0, pm.HalfNormal("tau"), shape=8)
        pm.Normal("y", effects[np.arange(8)], WIDE(), observed=y)
    own = setup.read(model, None, None, None, "auto").problems[0].own
    assert abs(own.w[-1]) < 3.0
    assert np.linalg.norm(own.w_factor[-1]) < 10.0
