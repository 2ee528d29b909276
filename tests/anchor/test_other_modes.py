"""Other modes of a posterior are found without a row, and warned of; single ones are not."""

import warnings

import numpy as np
import pymc as pm
import pytest

from pymc_flymc.steps import setup

N = 1500
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
G = RNG.integers(0, 6, N)
EFFECTS = np.array([-1.0, 0.8, 0.1, -0.4, 0.7, 0.3])
Y = (RNG.random(N) < 1.0 / (1.0 + np.exp(-X[:, 0] - EFFECTS[G]))).astype(int)


def squares():
    return pm.Normal("b") ** 2 * X[:, 0]


def products():
    """The search for the mode begins, and ends, at a saddle."""
    b = pm.Normal("b", shape=2)
    return b[0] * b[1] * X[:, 0]


def signed_scale():
    return (pm.Normal("s") * pm.Normal("z", shape=6))[G]


def waves(n):
    """A probability is that of several values of an effect: the side modes are those of one."""
    a = pm.Normal("a", shape=n)
    return (0.1 + 0.8 * pm.math.sigmoid(a) * pm.math.cos(a) ** 2)[np.arange(N) % n]


def floored():
    return (0.1 + 0.8 * pm.math.sigmoid(pm.Normal("a", shape=6)))[G]


def scale():
    return (pm.HalfNormal("s") * pm.Normal("z", shape=6))[G]


def horseshoe():
    return X @ (pm.Normal("z", shape=3) * pm.HalfCauchy("l", 1, shape=3) * pm.HalfCauchy("t", 1))


def read(eta):
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=eta(), observed=Y)
    setup.read(model, None, None, None, None)


@pytest.mark.parametrize("eta", [squares, products, signed_scale])
def test_modes_that_differ_by_signs(eta):
    with pytest.warns(UserWarning, match=r"several modes between which chains.* positive prior"):
        read(eta)


@pytest.mark.parametrize("eta", [scale, horseshoe])
def test_one_mode(eta):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(eta)


@pytest.mark.parametrize("n", [6, 100])
def test_side_modes_of_effects(n):
    """Other values of one effect, beyond the box of random starts, make the same probability."""
    with pm.Model() as model:
        pm.Bernoulli("y", p=waves(n), observed=Y)
    with pytest.warns(UserWarning, match=r"several modes between which .* a\[\d+\] is"):
        setup.read(model, None, None, None, None)


def test_a_monotone_function_of_effects_has_one_mode():
    with pm.Model() as model:
        pm.Bernoulli("y", p=floored(), observed=Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        setup.read(model, None, None, None, None)
