"""How brightness is resampled: settings, levels of rows, and plans."""

import numpy as np
import pytest

from pymc_flymc import ExplicitResampling, ImplicitResampling
from pymc_flymc.kernels import sweeps
from pymc_flymc.target.resampling import Levels, make_plan


@pytest.mark.parametrize(
    ("cls", "settings"),
    [
        (ImplicitResampling, {"q": 0.0}),
        (ImplicitResampling, {"ratio": 0.0}),
        (ImplicitResampling, {"ratio": np.inf}),
        (ImplicitResampling, {"sweeps": 0}),
        (ExplicitResampling, {"fraction": 1.1}),
        (ExplicitResampling, {"scheme": "gibbs"}),
    ],
)
def test_settings_are_checked(cls, settings):
    with pytest.raises(ValueError, match=f"{cls.__name__}: {next(iter(settings))} must be"):
        cls(**settings)


def test_levels_are_the_powers_of_two_below_each_rows_own():
    n = 1000
    q = 2.0 * np.random.default_rng(0).random(n) ** 12
    levels = Levels.of(ImplicitResampling(ratio=0.5), 2.0 * q)
    ratio = levels.q[levels.level] / np.clip(q, 1.0 / n, 1.0)
    assert np.all((0.5 < ratio) & (ratio <= 1.0)) and len(levels.q) == 11
    np.testing.assert_array_equal(np.sort(levels.order), np.arange(n))
    sizes = np.diff(levels.start)
    np.testing.assert_array_equal(levels.level[levels.order], np.repeat(np.arange(11), sizes))


def test_all_rows_without_replacement_are_visited_in_order():
    cursor = np.zeros(1, np.int64)
    for fraction, scheme in ((1.0, sweeps.CYCLE), (0.5, sweeps.WITHOUT_REPLACEMENT)):
        resampling = ExplicitResampling(fraction, "without_replacement")
        plan = make_plan(resampling, 10, None, cursor)
        assert (plan.scheme, plan.size) == (scheme, 10 * fraction)
        assert len(plan.stamp) == (10 if scheme == sweeps.WITHOUT_REPLACEMENT else 0)
