"""Coordinates learnt from draws."""

import numpy as np
import pytest

from pymc_flymc.kernels.geometry import Geometry, dense_geometry
from pymc_flymc.sampling.tuning import CONFIRMING, PARTS, diagonal_geometry, learn_geometry
from tests.support.comparison import N_ERRORS
from tests.support.native import jacobian_of


@pytest.mark.parametrize("which", ["geometry", "stretched"])
def test_diagonal_geometry_has_the_marginal_scales(which, request):
    geometry = request.getfixturevalue(which)
    jacobian = jacobian_of(geometry)
    diagonal = diagonal_geometry(geometry)
    np.testing.assert_allclose(
        jacobian_of(diagonal), np.diag(np.sqrt(np.diag(jacobian @ jacobian.T))), rtol=1e-12
    )


def test_learnt_geometry_standardises(geometry):
    """The covariance of many draws becomes about the identity, within its own sampling error."""
    rng = np.random.default_rng(3)
    mixing = np.array([[1.5, 0.0, 0.0], [-0.8, 0.7, 0.0], [0.4, 0.3, 1.0]])
    n = 20_000
    draws = rng.standard_normal((n, 5))
    draws[:, geometry.dense] = draws[:, geometry.dense] @ mixing.T
    draws[:, geometry.diagonal] *= [3.0, 0.2]
    learnt = learn_geometry(geometry, draws)
    change = np.linalg.solve(jacobian_of(learnt), jacobian_of(geometry))
    again = draws @ change.T
    error = N_ERRORS * np.sqrt(2.0 / n)
    assert np.max(np.abs(np.cov(again.T) - np.eye(5))) < error


def test_learnt_geometry_is_centred(geometry):
    """At the draws' mean, which the old centre holds back like CONFIRMING draws."""
    rng, n = np.random.default_rng(6), 100
    draws = 0.5 + rng.standard_normal((n, 5))
    mean = np.mean([geometry.unstandardise(v) for v in draws], axis=0)
    expected = geometry.centre + n / (n + CONFIRMING) * (mean - geometry.centre)
    np.testing.assert_allclose(learn_geometry(geometry, draws).centre, expected, rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 10])
def test_few_draws_hardly_change_the_geometry(geometry, n):
    """The old coordinates count like CONFIRMING draws, whatever the new ones are."""
    draws = np.random.default_rng(4).standard_normal((n, 5))
    change = np.linalg.solve(jacobian_of(geometry), jacobian_of(learn_geometry(geometry, draws)))
    variances = np.linalg.svd(change)[1] ** 2
    total = max(n, n * np.sum(np.var(draws, axis=0)))
    assert np.all(variances > CONFIRMING / (n + CONFIRMING) * (1.0 - 1e-12))
    assert np.all(variances < (total + CONFIRMING) / (n + CONFIRMING) * (1.0 + 1e-12))


def test_dependent_draws_say_less():
    """As if they were fewer: what they seem to say of forty independent variables is noise."""
    rng, n, m, correlation = np.random.default_rng(5), 150, 40, 0.7
    draws = rng.standard_normal((n, m))
    for i in range(1, n):
        draws[i] = correlation * draws[i - 1] + np.sqrt(1.0 - correlation**2) * draws[i]
    geometry = dense_geometry(np.zeros(m), np.eye(m))
    factor = learn_geometry(geometry, draws).factor
    error = np.linalg.norm(factor @ factor.T - np.eye(m))
    # What parts cannot see is dependence across their ends.
    unseen = (1.0 + correlation) / (1.0 - correlation) / (n / PARTS)
    assert error < unseen * np.linalg.norm(np.cov(draws.T) - np.eye(m))


def test_one_variance_that_stands_out_is_learnt():
    """As of the scale of a factor without effect; the noise of many others does not hide it."""
    n, m, shares = 150, 300, []
    for seed in range(5):
        draws = np.random.default_rng(seed).standard_normal((n, m))
        draws[:, 0] *= 2.0
        factor = learn_geometry(dense_geometry(np.zeros(m), np.eye(m)), draws).factor
        learnt, sds = np.linalg.norm(factor, axis=1), draws.std(axis=0)
        shares.append((learnt[0] - 1.0) / (sds[0] - 1.0))
        assert np.max(np.abs(learnt[1:] - 1.0)) < np.max(np.abs(sds[1:] - 1.0))
    # More of what the draws show than of what was believed.
    assert min(shares) > 0.5


def test_variances_are_learnt_from_fewer_draws_than_parameters():
    """A few wide directions, as of a prior where data say little; correlations stay unknown."""
    rng, n, m = np.random.default_rng(7), 100, 300
    variances = np.where(np.arange(m) < m // 10, 9.0, 1.0)
    draws = np.sqrt(variances) * rng.standard_normal((n, m))
    factor = learn_geometry(dense_geometry(np.zeros(m), np.eye(m)), draws).factor
    learnt = factor @ factor.T
    # Nearer to what they are than to what they were believed to be.
    assert np.mean(np.diag(learnt)[variances > 1.0]) > 0.5 * (9.0 + 1.0)
    before, after = (np.linalg.norm(s - np.diag(variances)) for s in (np.cov(draws.T), learnt))
    assert after < 0.5 * before


def wide_geometry(m):
    """Independent elements, each by itself."""
    none = np.empty(0, np.int64)
    return Geometry(np.zeros(m), none, np.arange(m), np.empty((0, 0)), np.ones(m), np.empty((0, m)))


def test_scales_of_many_effects_are_not_learnt_from_noise():
    """From sixty draws the sds of 3,000 come out wrong by a third here and there."""
    n, m = 60, 3000
    draws = np.random.default_rng(8).standard_normal((n, m))
    sds = draws.std(axis=0)
    assert max(sds.max(), 1.0 / sds.min()) > 1.3
    learnt = learn_geometry(wide_geometry(m), draws).scale
    # The one scale that all have in common has an error of 1 / sqrt(2 n m).
    np.testing.assert_allclose(learnt, 1.0, atol=0.03)


def test_scales_of_effects_are_learnt_where_they_differ():
    n, m = 100, 300
    expected = np.where(np.arange(m) < 100, 3.0, 1.0)
    draws = expected * np.random.default_rng(9).standard_normal((n, m))
    learnt = learn_geometry(wide_geometry(m), draws).scale
    assert np.linalg.norm(learnt - expected) < 0.25 * np.linalg.norm(1.0 - expected)


def test_a_direction_that_is_wider_than_believed_is_stretched(stretched):
    """And nothing else: what is learnt of it is not learnt of its elements again."""
    rng, n, (first, _) = np.random.default_rng(10), 20_000, stretched.directions
    draws = rng.standard_normal((n, 5))
    draws += 2.0 * np.outer(draws @ first, first)
    learnt = learn_geometry(stretched, draws)
    again = draws @ np.linalg.solve(jacobian_of(learnt), jacobian_of(stretched)).T
    error = N_ERRORS * np.sqrt(2.0 / n)
    assert np.max(np.abs(np.cov(again.T) - np.eye(5))) < error
