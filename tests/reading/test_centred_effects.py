"""Which effects share a scale."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc.kernels.shared_scales import NO_CENTRE
from pymc_flymc.reading.centred_effects import find_shared_scales
from pymc_flymc.reading.flat import Layout


def scales_of(write):
    """What is found in a model of tau, mu and what `write` adds, at places 0, 1 and from 2 on."""
    with pm.Model() as model:
        write(pm.HalfNormal("tau", 1.0), pm.Normal("mu"))
    layout = Layout.of(model.value_vars, model.initial_point())
    return find_shared_scales(model, model.value_vars, layout)


@pytest.mark.parametrize(
    ("write", "centre", "n"),
    [
        (lambda tau, mu: pm.Normal("a", 0.0, tau, shape=5), NO_CENTRE, 5),
        (lambda tau, mu: pm.Normal("a", 0.0, tau, shape=(2, 3)), NO_CENTRE, 6),
        (lambda tau, mu: pm.Normal("a", np.zeros(3), tau), NO_CENTRE, 3),
        (lambda tau, mu: pm.Normal("a", mu, tau, shape=5), 1, 5),
        (lambda tau, mu: pm.Laplace("a", mu, tau, shape=5), 1, 5),
        (lambda tau, mu: pm.StudentT("a", nu=3, sigma=tau, shape=5), NO_CENTRE, 5),
    ],
)
def test_effects_are_found(write, centre, n):
    found = scales_of(write)
    assert found.scale.tolist() == [0] and found.centre.tolist() == [centre] * n
    assert found.first.tolist() == [0, n] and found.effects.tolist() == list(range(2, 2 + n))


def test_two_sets_of_effects():
    def write(tau, mu):
        pm.Normal("a", mu, tau, shape=2)
        pm.Normal("b", 0.0, pm.Exponential("s", 1.0), shape=3)

    found = scales_of(write)
    assert found.scale.tolist() == [0, 4] and found.first.tolist() == [0, 2, 5]
    assert found.effects.tolist() == [2, 3, 5, 6, 7]
    assert found.centre.tolist() == [1] * 2 + [NO_CENTRE] * 3


def test_effects_that_share_a_scale_move_together():
    def write(tau, mu):
        pm.Normal("a", mu, tau, shape=2)
        pm.Normal("b", 0.0, pm.Exponential("s", 1.0), shape=3)
        pm.Laplace("c", 0.0, tau, shape=2)

    found = scales_of(write)
    assert found.scale.tolist() == [0, 4] and found.first.tolist() == [0, 4, 7]
    assert found.effects.tolist() == [2, 3, 8, 9, 5, 6, 7]
    assert found.centre.tolist() == [1] * 2 + [NO_CENTRE] * 5


@pytest.mark.parametrize(
    "write",
    [
        lambda tau, mu: pm.Normal("a", 0.0, 1.0, shape=5),
        lambda tau, mu: pm.Normal("a", 0.0, tau),  # a single one
        lambda tau, mu: pm.Normal("a", 5.0, tau, shape=5),
        lambda tau, mu: pm.Normal("a", 2.0 * mu, tau, shape=5),
        lambda tau, mu: pm.Normal("a", 0.0, 2.0 * tau, shape=5),
        lambda tau, mu: pm.Normal("a", 0.0, pm.HalfNormal("s", 1.0, shape=5)),
        lambda tau, mu: pm.Normal("a", pm.Normal("m", shape=5), tau),
        lambda tau, mu: pm.Normal("a", 0.0, pm.Uniform("s", 0.0, 1.0), shape=5),
        lambda tau, mu: pm.Gamma("a", 1.0, tau, shape=5),
        lambda tau, mu: pm.Normal("a", tau, 1.0, shape=5),
        lambda tau, mu: pm.Deterministic("a", tau * pm.Normal("z", shape=5)),
    ],
)
def test_others_are_left_alone(write):
    assert len(scales_of(write).scale) == 0
