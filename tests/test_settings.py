"""Settings of the wrong kind, and points that are none: refused in words, before any work."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import (
    Bohning,
    ExplicitResampling,
    FireflyHMC,
    FireflyMALA,
    FireflyMH,
    FireflySlice,
    ImplicitResampling,
    JaakkolaJordan,
    JebaraChoromanska,
    Tangent,
    Taylor,
    check_bound,
    register_likelihood,
)
from pymc_flymc.likelihoods import BernoulliLogit
from pymc_flymc.reading.points import anchor_point, complete_point

N = 40
RNG = np.random.default_rng(1)
X = RNG.normal(size=(N, 2))
Y = (RNG.random(N) < 0.5).astype(int)


@pytest.fixture(scope="module")
def model():
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=2)
        s = pm.HalfNormal("s", 1.0)
        pm.Bernoulli("y", logit_p=X @ b + s, observed=Y)
    return model


@pytest.mark.parametrize(
    ("cls", "settings", "message"),
    [
        (FireflyMH, {"bound": Taylor}, r"bound must be .*not the class itself: write Taylor\(\)"),
        (FireflyHMC, {"bound": {"y": JaakkolaJordan}}, r"bound\['y'\].*write JaakkolaJordan\(\)"),
        (FireflyMALA, {"bound": 3}, r"bound must be a bound, such as Taylor\(\), .*not 3"),
        (FireflySlice, {"bound": [Taylor()]}, "bound must be a bound.*not .*list"),
        (FireflyMH, {"vars": Taylor()}, "vars must be variables.*not an object of type Taylor"),
        (FireflyMH, {"vars": ["b", 3]}, "vars must be variables or their names.*not 3"),
        (FireflyMH, {"brightness": ImplicitResampling}, r"brightness .*write ImplicitResampling"),
        (FireflyHMC, {"brightness": 0.1}, r"brightness must be .*None, not 0\.1"),
        (FireflySlice, {"brightness": Taylor()}, "brightness must be .*not an object of type"),
        (FireflyMH, {"proposal": ["pcn"]}, r"proposal must be one of auto, .*not \['pcn'\]"),
        (FireflyMH, {"transitions": np.nan}, "transitions must be a positive integer .*not nan"),
        (FireflyMALA, {"transitions": True}, "transitions must be a positive integer .*not True"),
        (FireflyMH, {"anchor": np.zeros(3)}, r"anchor must be a dict .*not array\(\["),
        (FireflyMH, {"anchor": "mode"}, "anchor must be a dict of values by names.*not 'mode'"),
        (FireflyMH, {"initial_point": np.zeros(3)}, "initial_point must be a dict like"),
        (FireflyHMC, {"path_length": "4"}, "path_length must be a positive number, not '4'"),
        (FireflyHMC, {"target_accept": None}, "target_accept must be a number .*not None"),
        (FireflyMALA, {"target_accept": [1]}, r"target_accept must be a number .*not \[1\]"),
        (FireflyHMC, {"metric": np.eye(3)}, "metric must be one of auto, .*type ndarray"),
        (FireflySlice, {"direction": 1}, "direction must be one of coordinate, random, not 1"),
    ],
)
def test_steps(model, monkeypatch, cls, settings, message):
    def read(*_):
        raise AssertionError("the model was read")

    monkeypatch.setattr("pymc_flymc.steps.base.read", read)
    with model, pytest.raises(ValueError, match=message):
        cls(**settings)


@pytest.mark.parametrize(
    ("cls", "bound", "message"),
    [
        (FireflyMH, Tangent(), "the tangent bound is not one on bernoulli-logit likelihoods"),
        (FireflyHMC, {"y": Bohning()}, "is not one on bernoulli-logit .* such as that of 'y'"),
        (FireflySlice, {"z": Taylor()}, "bound= names 'z'; the observed variables .* are 'y'"),
    ],
)
def test_bounds_for_other_likelihoods(model, monkeypatch, cls, bound, message):
    def search(*_):
        raise AssertionError("passes over the data were made")

    monkeypatch.setattr("pymc_flymc.steps.setup.find_anchor", search)
    with model, pytest.raises(ValueError, match=message):
        cls(bound=bound)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Taylor(order="2"), "Taylor: order must be 2 or 3, not '2'"),
        (lambda: JaakkolaJordan("tight"), "JaakkolaJordan: xi must be .*not 'tight'"),
        (lambda: Tangent(slack="1"), "Tangent: slack must be a finite number >= 0, not '1'"),
        (lambda: Bohning(tuned="no"), "Bohning: tuned must be True or False, not 'no'"),
        (lambda: JebaraChoromanska(tuned=2), "JebaraChoromanska: tuned must be True or False"),
        (lambda: ImplicitResampling(q="a"), r"q must be None or a number in \(0, 1\], not 'a'"),
        (lambda: ImplicitResampling(ratio=None), "ratio must be a positive number, not None"),
        (lambda: ImplicitResampling(sweeps=np.nan), "sweeps must be a positive integer, not nan"),
        (lambda: ExplicitResampling(fraction="1"), r"fraction must be a number .*not '1'"),
        (lambda: ExplicitResampling(scheme=["cycle"]), r"scheme must be one of .*not \['cycle'\]"),
        (lambda: check_bound(Taylor, BernoulliLogit(), Y), r"bound must be .*write Taylor\(\)"),
        (lambda: check_bound(Taylor(), BernoulliLogit, Y), r"write BernoulliLogit\(\)"),
        (lambda: register_likelihood(BernoulliLogit), r"likelihood .*write BernoulliLogit\(\)"),
    ],
)
def test_bounds_resampling_and_likelihoods(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    ("anchor", "message"),
    [
        ({"b": "x"}, r"anchor\['b'\] must be a number or an array of numbers, not 'x'"),
        ({"b": [0.0, np.nan]}, r"anchor\['b'\] must be finite, and holds nan"),
        ({"s": -1.0}, r"anchor\['s'\] must be strictly inside the range of 's', not -1.0"),
        ({"s": 0}, r"anchor\['s'\] must be strictly inside the range of 's', not 0"),
        ({1: 0.0}, r"anchor names \[1\]; the free variables are \['b', 's'\]"),
    ],
)
def test_anchors(model, anchor, message):
    with pytest.raises(ValueError, match=message):
        anchor_point(model, anchor)


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ({"b": np.zeros(2)}, "initial_point has no 's_log__'"),
        ({"b": np.zeros(3), "s_log__": 0.0}, r"initial_point\['b'\] has shape \(3,\)"),
        ({"b": [0.0, np.inf], "s_log__": 0.0}, r"initial_point\['b'\] must be finite.* holds inf"),
    ],
)
def test_initial_points(model, point, message):
    with pytest.raises(ValueError, match=message):
        complete_point(model, point)


def test_initial_point_is_completed(model):
    point = complete_point(model, {"b": 0.5, "s_log__": 1.0})
    np.testing.assert_array_equal(point["b"], [0.5, 0.5])
    assert point["s_log__"].shape == ()
    assert list(complete_point(model, None)) == ["b", "s_log__"]


def test_initial_values_of_the_model():
    with pm.Model():
        b = pm.Normal("b", 0.0, 1.0, shape=2)
        s = pm.HalfNormal("s", 1.0, initval=-1.0)
        pm.Bernoulli("y", logit_p=X @ b + s, observed=Y)
        with pytest.raises(ValueError, match=r"nan for s_log__ \(a transformed variable\)"):
            FireflyMH()
