"""Directions along which rows stay as they are: they follow the scales of effects."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc.anchor.expanded_density import expanded_density
from pymc_flymc.kernels.shifts import add_shift
from pymc_flymc.steps.setup import read

N, G, K = 400, 6, 4
RNG = np.random.default_rng(7)
GROUP, OTHER, X = RNG.integers(0, G, N), RNG.integers(0, K, N), RNG.normal(size=N)


def with_effects(effects):
    """Two factors, whose effects `effects` makes of a name, a scale and a size."""
    with pm.Model() as model:
        scales = [pm.HalfNormal(f"scale_{i}", 1.0) for i in range(3)]
        eta = pm.Normal("mu", 0.0, 1.0) + effects("a", scales[0], G)[GROUP]
        eta = eta + effects("b", scales[1], K)[OTHER] + pm.Normal("beta", 0.0, 1.0) * X
        eta = eta + effects("slope", scales[2], G)[GROUP] * X
        pm.Poisson("y", mu=pm.math.exp(eta), observed=RNG.poisson(1.0, N))
    return read(model, None, None, None, "auto")


def non_centred(name, scale, size):
    return scale * pm.Normal(name, 0.0, 1.0, shape=size)


def test_no_predictor_changes_along_shifts():
    """The two factors' against each other, and two columns' against their own effects."""
    setup = with_effects(non_centred)
    shifts, (problem,) = setup.graph.shifts, setup.problems
    # The intercept's with each factor, the factors' with each other, and the slope's.
    assert sorted(np.diff(shifts.first)) == [K + 1, G + 1, G + 1, G + K]
    density = expanded_density(setup.graph, setup.others)
    for _ in range(3):
        theta = RNG.normal(size=len(setup.theta))
        before = problem.design.predictor(density.coefficients(theta))
        for k in range(shifts.n_shifts):
            moved = theta.copy()
            add_shift.py_func(shifts, k, 0.7, theta, moved)
            assert np.max(np.abs(moved - theta)) > 0.1
            after = problem.design.predictor(density.coefficients(moved))
            np.testing.assert_allclose(after, before, rtol=0.0, atol=1e-12 * np.abs(moved).max())


@pytest.mark.slow_cases("zero-sum")
@pytest.mark.parametrize(
    "effects",
    [
        lambda name, scale, size: pm.Normal(name, 0.0, scale, shape=size),
        lambda name, scale, size: pm.ZeroSumNormal(name, scale, shape=size),
    ],
    ids=["centred", "zero-sum"],
)
def test_directions_that_do_not_depend_on_scales_are_left_to_the_preconditioner(effects):
    assert with_effects(effects).graph.shifts.n_shifts == 0
