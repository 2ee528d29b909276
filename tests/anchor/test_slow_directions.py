"""Directions that couple many effects."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc.anchor.mode_finding import with_slow_directions
from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.steps.setup import read
from tests.support.data import log_sigmoid


def independent(precision):
    """Geometry of diagonal elements alone, by the diagonal of a precision."""
    d, none = len(precision), np.empty(0, np.int64)
    scale = 1.0 / np.sqrt(np.diag(precision))
    return Geometry(np.zeros(d), none, np.arange(d), np.empty((0, 0)), scale, np.empty((0, d)))


def paired(n_effects, n_rows, prior, seed=0):
    """Precision of effects that enter in differences, under a prior of their own."""
    rng = np.random.default_rng(seed)
    home = rng.integers(0, n_effects, n_rows)
    away = (home + rng.integers(1, n_effects, n_rows)) % n_effects
    x = np.eye(n_effects)[home] - np.eye(n_effects)[away]
    return 0.2 * x.T @ x + prior * np.eye(n_effects)


def test_the_common_level_of_paired_effects():
    """The one direction that nothing but the prior holds gets its sd."""
    precision = paired(60, 3000, 0.25)
    geometry = with_slow_directions(independent(precision), lambda v: precision @ v)
    assert len(geometry.stretch) == 1
    columns = np.stack([geometry.spread(v) for v in np.eye(60)], axis=1)
    level, covariance = np.ones(60), np.linalg.inv(precision)
    assert level @ columns @ columns.T @ level == pytest.approx(
        level @ covariance @ level, rel=0.02
    )
    scaled = columns.T @ precision @ columns
    assert np.linalg.cond(scaled) < 0.1 * np.linalg.cond(geometry.scale**2 * precision)


@pytest.mark.parametrize("size", [1, 7])
def test_independent_effects_have_none(size):
    precision = np.diag(np.arange(1.0, 1.0 + size))
    geometry = with_slow_directions(independent(precision), lambda v: precision @ v)
    assert geometry.directions.shape == (0, size)
    assert len(geometry.stretch) == 0


def test_curvature_that_is_no_mode_gives_none():
    """Negative along one direction, and not finite: whatever it is, proposals have a scale."""
    precision = np.eye(6) - 1.5 * np.full((6, 6), 1.0 / 6.0)
    for matrix in (precision, np.full((6, 6), np.nan)):
        geometry = with_slow_directions(independent(np.eye(6)), lambda v, m=matrix: m @ v)
        assert len(geometry.stretch) == 0


def test_a_model_of_paired_effects(structured):
    """Players' common level, by the Hessian of the model at the anchor."""
    rng, n_players, n = np.random.default_rng(5), 20, 3000
    home = rng.integers(0, n_players, n)
    away = (home + rng.integers(1, n_players, n)) % n_players
    skill = rng.normal(size=n_players)
    y = (rng.random(n) < np.exp(log_sigmoid(skill[home] - skill[away]))).astype(int)
    with pm.Model() as model:
        th = pm.Normal("th", 0.0, 2.0, shape=n_players)
        pm.Bernoulli("y", logit_p=th[home] - th[away], observed=y)
    geometry = read(model, None, None, None, "auto").problems[0].anchor.geometry
    assert len(geometry.diagonal) == n_players
    assert len(geometry.stretch) == 1
    level = np.stack([geometry.spread(v) for v in np.eye(n_players)], axis=1).sum(axis=0)
    # The likelihood says nothing of the mean: its sd is the prior's.
    assert np.linalg.norm(level) / n_players == pytest.approx(2.0 / np.sqrt(n_players), rel=0.02)
