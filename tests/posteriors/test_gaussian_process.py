"""Gaussian processes by quadrature, and against NUTS."""

import numpy as np
import pytest

from pymc_flymc import FireflyHMC, FireflyMH
from tests.support.comparison import assert_matches, quadrature
from tests.support.data import log_sigmoid
from tests.support.models import smooth, smooth_rows
from tests.support.nuts import assert_match_nuts
from tests.support.steps import drive, step_of


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the Deterministic variables")
@pytest.mark.parametrize("step", [FireflyMH, FireflyHMC])
def test_gaussian_process_by_quadrature(step):
    """A process of one basis function: its scale and a coefficient."""
    x, y = smooth_rows(40)
    signed = (2.0 * y - 1.0) * np.sin(np.pi / 6.0 * (x + 3.0)) / np.sqrt(3.0)
    model = smooth(x, y, 1, kernel="ExpQuad")

    def log_density(points):
        log_scale, coefficient = points.T
        scale = np.exp(log_scale)
        density = np.sqrt(2.0 * np.pi) * scale * np.exp(-0.5 * (np.pi / 6.0 * scale) ** 2)
        eta = (coefficient * np.sqrt(density))[:, None] * signed
        return log_sigmoid(eta).sum(axis=1) - 0.5 * coefficient**2 - 5.0 * log_scale - 5.0 / scale

    with model:
        built = step(transitions=20 if step is FireflyMH else 4)
    draws, _ = drive(built, model.initial_point(), tune=300, draws=4000, chains=2)
    assert_matches(draws, quadrature(log_density, [-3.0, -8.0], [5.0, 8.0]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the Deterministic variables")
def test_gaussian_process_against_nuts():
    x, y = smooth_rows(3000)
    model = smooth(x, y, 20)
    steps = (step_of(model, kind) for kind in (FireflyMH, FireflyHMC))
    assert_match_nuts(model, *steps, nuts=dict(tune=1500, draws=5000))
