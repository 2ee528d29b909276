"""Settings of resampling."""

import numpy as np
import pytest

from pymc_flymc import ImplicitResampling


@pytest.mark.parametrize("settings", [{"ratio": 0.0}, {"ratio": np.inf}, {"sweeps": 0}])
def test_resampling_is_checked(settings):
    with pytest.raises(ValueError, match=f"ImplicitResampling: {next(iter(settings))} must be"):
        ImplicitResampling(**settings)
