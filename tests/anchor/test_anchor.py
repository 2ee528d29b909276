"""Coordinates of the Laplace approximation."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import FireflyHMC
from pymc_flymc.anchor.anchor import laplace_geometry
from pymc_flymc.kernels.geometry import dense_geometry
from pymc_flymc.steps.setup import read
from tests.support.native import standardise_gradient, unstandardise


def random_geometry(coupled=False, seed=0):
    """Precision matrix in blocks, its elements shuffled, and coordinates around a point.

    With two effects of each of two groups, which may be coupled.
    """
    rng = np.random.default_rng(seed)
    dense, diagonal = np.array([6, 0, 3]), np.array([5, 1, 2, 4])
    precisions, cross = rng.uniform(1, 3, 4), rng.normal(size=(4, 3))
    root = rng.normal(size=(3, 3))
    of_diagonal, blocks = np.diag(precisions), []
    if coupled:
        of_diagonal[[0, 1, 2, 3], [2, 3, 0, 1]] = 0.8, -0.5, 0.8, -0.5
        blocks = [(0, np.stack([of_diagonal[g::2, g::2] for g in range(2)]))]
    block = root @ root.T + np.eye(3) + cross.T @ np.linalg.solve(of_diagonal, cross)
    precision = np.zeros((7, 7))
    precision[np.ix_(dense, dense)], precision[np.ix_(diagonal, diagonal)] = block, of_diagonal
    precision[np.ix_(diagonal, dense)] = cross
    precision[np.ix_(dense, diagonal)] = cross.T
    arguments = np.arange(7.0), dense, diagonal, block, precisions, cross, blocks
    return precision, laplace_geometry(*arguments)


@pytest.mark.parametrize("coupled", [False, True])
def test_laplace_geometry(coupled):
    precision, laplace = random_geometry(coupled)
    assert np.array_equal(laplace.factor, np.tril(laplace.factor))
    columns = np.stack([laplace.spread(v) for v in np.eye(7)], axis=1)
    np.testing.assert_allclose(columns @ columns.T, np.linalg.inv(precision), rtol=1e-10)
    v = np.random.default_rng(1).normal(size=7)
    np.testing.assert_allclose(laplace.standardise(laplace.unstandardise(v)), v, rtol=1e-12)
    np.testing.assert_allclose(laplace.standardise_gradient(v), columns.T @ v, rtol=1e-12)
    given = np.linalg.inv(precision[np.ix_(laplace.diagonal, laplace.diagonal)])
    np.testing.assert_allclose(laplace.conditional_sds(), np.sqrt(np.diag(given)), rtol=1e-12)
    wider = laplace.rescaled(np.arange(1.0, 5.0), np.eye(3))
    u = v.copy()
    u[laplace.diagonal] *= np.arange(1.0, 5.0)
    np.testing.assert_allclose(wider.spread(v), laplace.spread(u), rtol=1e-12)


@pytest.mark.parametrize("unit", [1e-90, 1e-11, 1e11, 1e90])
def test_parameters_in_any_unit(unit):
    """Their standard deviations are as large as the unit is: chains would not move by one."""
    root = np.random.default_rng(2).normal(size=(3, 3))
    precision = root @ root.T + np.eye(3)
    nothing, none = np.empty(0), np.empty(0, np.int64)
    laplace = laplace_geometry(
        np.zeros(3), np.arange(3), none, precision / unit / unit, nothing, np.empty((0, 3))
    )
    covariance = (laplace.factor / unit) @ (laplace.factor / unit).T
    np.testing.assert_allclose(covariance, np.linalg.inv(precision), rtol=1e-10)


def test_improper_blocks_give_a_factor():
    """Blocks that no distribution has: the coupling is left out."""
    _, good = random_geometry()
    laplace = laplace_geometry(
        good.centre,
        good.dense,
        good.diagonal,
        0.01 * np.eye(3),
        1.0 / good.scale**2,
        np.ones((4, 3)),
    )
    assert not laplace.coupling.any()
    np.testing.assert_allclose(laplace.factor, 10.0 * np.eye(3))


@pytest.mark.parametrize("form", ["dense", "diagonal", "coupled"])
def test_geometry_in_kernels(form):
    geometry = random_geometry(form == "coupled")[1]
    assert len(geometry.pairs) == (form == "coupled")
    if form == "dense":
        geometry = dense_geometry(np.arange(3.0), geometry.factor)
    v, gradient = np.random.default_rng(4).normal(size=(2, len(geometry.centre)))
    theta, out = np.empty_like(v), np.empty_like(v)
    unstandardise(geometry, v, theta)
    np.testing.assert_allclose(theta, geometry.unstandardise(v), rtol=1e-12)
    standardise_gradient(geometry, geometry.centre, gradient.copy(), out)
    np.testing.assert_allclose(out, geometry.standardise_gradient(gradient), rtol=1e-12)


@pytest.mark.slow
def test_effects_of_a_group_are_told_apart(structured):
    """Correlated intercepts and slopes, non-centred: the Hessian at the anchor, to the last."""
    rng = np.random.default_rng(3)
    group, x = rng.integers(0, 12, 300), rng.normal(0.5, 1.0, 300)
    with pm.Model() as model:
        mu = pm.Normal("mu")
        chol, *_ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=pm.HalfNormal.dist(1.0, shape=2))
        b = pm.Normal("z", shape=(12, 2)) @ chol.T
        y = rng.integers(0, 2, 300)
        pm.Bernoulli("y", logit_p=mu + b[group, 0] + b[group, 1] * x, observed=y)
    reading = read(model, None, None, None, "auto")
    geometry = reading.problems[0].anchor.geometry
    assert [tuple(pair) for pair in geometry.pairs] == [(12, 0, 12)]
    assert len(geometry.mixing) == 12 and np.all(geometry.mixing != 0.0)
    assert geometry.coupling.any()
    dlogp = model.compile_dlogp(mode="FAST_COMPILE")
    at = np.ix_(geometry.diagonal, geometry.diagonal)

    def gradient(theta):
        return dlogp(reading.layout.unravel(theta))

    steps = 1e-4 * np.eye(len(geometry.centre))
    slopes = [gradient(geometry.centre - e) - gradient(geometry.centre + e) for e in steps]
    precision = np.array(slopes)[at] / 2e-4
    s = np.stack([geometry.spread(v) for v in np.eye(len(geometry.centre))], axis=1)[at]
    np.testing.assert_allclose(s @ s.T, np.linalg.inv(precision), rtol=1e-5, atol=1e-8)


@pytest.mark.slow
def test_chains_start_twice_as_wide_but_for_effects(structured):
    """Of many effects the posterior knows nothing two standard deviations out in all of them."""
    rng = np.random.default_rng(4)
    group = rng.integers(0, 30, 200)
    with pm.Model():
        a = pm.Normal("a", pm.Normal("mu"), 1.0, shape=30)
        pm.Bernoulli("y", logit_p=a[group], observed=rng.integers(0, 2, 200))
        step = FireflyHMC()
    step.setup_chain(rng, 0, 1)
    starts = []
    for _ in range(400):
        assert step.chain.start_dispersed(rng)
        starts.append(step.chain.state.v.copy())
    v, geometry = np.array(starts), step.target.geometry
    for places, width in ((geometry.dense, 2.0), (geometry.diagonal, 1.0)):
        error = width / np.sqrt(2.0 * v[:, places].size)
        assert abs(np.sqrt(np.mean(v[:, places] ** 2)) - width) < 4.0 * error
