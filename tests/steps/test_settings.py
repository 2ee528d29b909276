"""Settings of the wrong kind: refused in words, before any work."""

import multiprocessing

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import ExplicitResampling, ImplicitResampling
from pymc_flymc.bounds import Bohning, JaakkolaJordan, JebaraChoromanska, Tangent, Taylor
from pymc_flymc.extending import check_bound, register_likelihood
from pymc_flymc.likelihoods import BernoulliLogit
from pymc_flymc.steps import FireflyHMC, FireflyMALA, FireflyMH, FireflySlice
from tests.support.data import logistic_rows
from tests.support.models import half_line_model
from tests.support.steps import identical, logistic_step, sample

N = 40
RNG = np.random.default_rng(1)
X = RNG.normal(size=(N, 2))
Y = (RNG.random(N) < 0.5).astype(int)
SWEEPS = ImplicitResampling(sweeps=3)


@pytest.fixture(scope="module")
def model():
    return half_line_model(X, Y)


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
        (
            FireflySlice,
            {"direction": 1},
            "direction must be one of coordinate, random, isotropic, not 1",
        ),
    ],
)
def test_steps(model, monkeypatch, cls, settings, message):
    def read(*_):
        raise AssertionError("the model was read")

    monkeypatch.setattr("pymc_flymc.steps.setup.read", read)
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

    monkeypatch.setattr("pymc_flymc.anchor.mode_finding.ModeFinder.find", search)
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


def test_initial_values_of_the_model():
    with pm.Model():
        b = pm.Normal("b", 0.0, 1.0, shape=2)
        s = pm.HalfNormal("s", 1.0, initval=-1.0)
        pm.Bernoulli("y", logit_p=X @ b + s, observed=Y)
        with pytest.raises(ValueError, match=r"nan for s_log__ \(a transformed variable\)"):
            FireflyMH()


def test_settings_and_data():
    X, y = logistic_rows(50, 2)
    with pytest.raises(ValueError, match="order must be 2 or 3"):
        Taylor(order=4)
    with pytest.raises(ValueError, match="bound must be a bound"):
        logistic_step(X, y, bound="taylor")
    with pytest.raises(ValueError, match="proposal must be one of"):
        logistic_step(X, y, bound="auto", proposal="nuts")
    with pytest.raises(ValueError, match="brightness= is for conditional moves"):
        logistic_step(X, y, bound=Taylor(), brightness=ImplicitResampling())
    step = logistic_step(X, y, bound=Taylor(), kernel="metropolis", brightness=SWEEPS)[1]
    assert step.sampler.new_chain().plan.sweeps == SWEEPS.sweeps
    with pytest.raises(ValueError, match="transitions must be a positive integer"):
        logistic_step(X, y, bound="auto", transitions=0)
    with pytest.raises(ValueError, match="needs joint moves"):
        logistic_step(X, y, bound=JaakkolaJordan(), proposal="independent")
    with pytest.raises(ValueError, match=r"anchor names \['bet'\]"):
        logistic_step(X, y, bound="auto", anchor={"bet": 0.0})
    with pytest.raises(ValueError, match=r"anchor\['beta'\] has shape \(3,\)"):
        logistic_step(X, y, bound="auto", anchor={"beta": np.zeros(3)})
    with pytest.raises(ValueError, match="xi has 49 values for 50 rows"):
        logistic_step(X, y, bound=JaakkolaJordan(xi=np.ones(49)))


class MineError(Exception):
    """An exception of a user's own."""


@pytest.mark.parametrize("cores", [1, 2])
def test_it_ends_the_run_and_the_step_is_as_new(shared, cores):
    model, step = shared()
    before = sample(model, step, cores=1)

    def raises(trace, draw):
        if draw.draw_idx == 30:
            raise MineError("enough")

    with pytest.raises(MineError, match="enough"):
        sample(model, step, cores=cores, callback=raises, draws=10**6)
    for process in multiprocessing.active_children():
        process.join(30.0)
        assert not process.is_alive(), "a chain goes on alone"
    identical(before, sample(model, step, cores=1))
