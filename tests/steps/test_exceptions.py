"""Exceptions in a model's graph are the user's own, and no chain is left half-updated by them."""

import re

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.sampling.parallel import ParallelSamplingError
from pytensor.raise_op import Assert

from pymc_flymc import FireflyHMC, FireflyMALA, FireflyMH, FireflySlice, Taylor
from pymc_flymc.out_of_core.batch_chain import BatchChain
from pymc_flymc.out_of_core.batch_target import Weights
from tests.support.data import logistic_rows
from tests.support.fragile import RAISED, fragile_model, limits_at
from tests.support.out_of_core import step_elsewhere, written_on_head
from tests.support.steps import sample, step_of

#: Ways to sample.
WAYS = {
    "metropolis": (FireflyMH, {"kernel": "metropolis"}),
    "hmc": (FireflyHMC, {}),
    "joint": (FireflyMH, {"kernel": "joint"}),
    "surrogate": (FireflyMH, {"kernel": "surrogate"}),
    "hamiltonian": (FireflyMH, {"kernel": "hamiltonian"}),
    "default": (FireflyMH, {}),
    "no-bound": (FireflyHMC, {"bound": None}),
    "mala": (FireflyMALA, {}),
    "slice": (FireflySlice, {}),
    "taylor": (FireflySlice, {"bound": Taylor()}),
}


def fragile_step(way):
    cls, settings = WAYS[way]
    model = fragile_model()
    with model:
        return model, cls([model["a"], model["b"], model["c"]], **settings)


def check_state(chain):
    """What a chain keeps of its parameters and bright rows is what they have."""
    state, bright, rows = chain.state, chain.bright, chain.target.data.parts[0]
    w = np.empty_like(state.w)
    density = chain.target.density(state.theta, chain.statistics, w)
    np.testing.assert_allclose(w, state.w, rtol=1e-12, atol=1e-12)
    if chain.target.spec.name != "surrogate":  # which has the exact rows in its density, too
        np.testing.assert_allclose(density, state.log_density[0], rtol=1e-9)
    np.testing.assert_allclose(
        chain.geometry.unstandardise(state.v), state.theta, rtol=1e-9, atol=1e-9
    )
    n = chain.n_bright
    index, odds = bright.index[:n].copy(), np.empty(n)
    eta = rows.X[index] @ w[: rows.X.shape[1]] + w[rows.X.shape[1]] * rows.intercept
    (part,) = chain.target.parts
    shared = w[rows.X.shape[1] + rows.intercept :]
    part.log_factor(eta[:, None], rows.constants[index], shared, odds)
    np.testing.assert_allclose(bright.log_factor[:n], odds, rtol=1e-8, atol=1e-8)


def fuzz(way, n_models):
    """Make steps with random limits, some of which raise; return how often each kind did."""
    model, step = fragile_step(way)
    raised, start = dict.fromkeys(RAISED, 0), model.initial_point()
    for i in range(n_models):
        rng = np.random.default_rng([20141104, i])
        some = rng.choice(list(RAISED), rng.integers(1, 3), replace=False)
        places = {kind: rng.normal(1.0, 1.0) for kind in some}
        point = start | {"limits": limits_at(places)}
        if rng.random() < 0.5:
            values = {name: np.array(x) for name, x in zip("abc", rng.normal(size=3), strict=True)}
            point = point | values
        tune = int(rng.choice([0, 60]))
        step.setup_chain(rng, tune, 10)
        step.tune = bool(tune)
        try:
            for _ in range(10):
                point, _ = step.step(point)
                assert all(point["b"] < place for place in places.values())
        except Exception as error:
            known = [kind for kind in some if _is_of(error, kind)]
            if not known:  # a start given by the user at which the density is zero
                assert re.search("finite", str(error)), error
                assert any(RAISED[kind] is None for kind in some)
            for kind in known:
                raised[kind] += 1
            assert np.array_equal(step.chain.others, point["limits"]) or not step.chain.started
        if step.chain.started:
            check_state(step.chain)
        # The same chain goes on once the limits are far away.
        point, _ = step.step(point | {"limits": limits_at({})})
        check_state(step.chain)
    return raised


def _is_of(error, kind):
    if RAISED[kind] is None:
        return False
    cls, message = RAISED[kind]
    return type(error) is cls and re.search(message, str(error)) is not None


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_thousand_models_that_raise(way):
    raised = fuzz(way, 1000)
    assert all(raised[kind] > 20 for kind, said in RAISED.items() if said is not None), raised


def model_with_assert(limit):
    X, y = logistic_rows(60, [-0.5])
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0)
        pm.Potential("potential", Assert("b is too large")(0.0 * b, b < limit))
        pm.Bernoulli("y", logit_p=X[:, 0] * b, observed=y)
    return model


@pytest.mark.parametrize("cores", [1, 2])
def test_sampling_ends_with_the_exception_of_the_user(cores):
    model = model_with_assert(0.05)
    step = step_of(model, FireflyHMC)
    with pytest.raises((AssertionError, ParallelSamplingError), match="b is too large") as raised:
        sample(model, step, cores=cores)
    # From another process PyMC raises its own, of which the user's is the cause.
    assert isinstance(raised.value if cores == 1 else raised.value.__cause__, AssertionError)


def test_a_start_that_raises_is_named_by_its_exception():
    model = model_with_assert(-1.0)
    with pytest.raises(AssertionError, match="b is too large"):
        step_of(model, FireflyHMC)
    with pytest.raises(AssertionError, match="b is too large"):
        step_of(model, FireflyHMC, anchor={"b": 0.0})
    step_of(model, FireflyHMC, anchor={"b": -1.5})


@pytest.mark.slow
def test_searches_and_starts_keep_away_from_where_the_graph_raises():
    """PyMC does not look there either: where a search steps, and chains start, is a choice."""
    X, y = logistic_rows(60, [-0.5])
    with pm.Model():
        a, b = pm.Normal("a", 4.0, 1.0), pm.Normal("b", 0.0, 1.0)
        # A Newton step from a = 4 leads beyond.
        kept = Assert("a is too small")(a, a > -0.5)
        pm.Bernoulli("y", logit_p=kept + X[:, 0] * b, observed=np.zeros_like(y))
        step = FireflyHMC()
    step.setup_chain(np.random.default_rng(0), 0, 1)
    assert step.chain.start_dispersed(np.random.default_rng(1), 50.0)


@pytest.mark.slow
def test_densities_that_grow_without_limit_are_refused():
    X, y = logistic_rows(60, [-0.5])
    with pm.Model():
        b = pm.Normal("b", 0.0, 1.0)
        matrix = pt.stack([pt.stack([1.0, 1.5 * b]), pt.stack([1.5 * b, 1.0])])
        factor = pt.linalg.cholesky(matrix)
        pm.Potential("p", -pt.sum(pt.log(pt.diagonal(factor))))
        pm.Bernoulli("y", logit_p=X[:, 0] * b, observed=y)
        with pytest.raises(ValueError, match=r"grows without limit as b comes near -0\.66"):
            FireflyHMC()


def test_rows_elsewhere():
    X, y = logistic_rows(400, [0.5])

    def build(data):
        b = pm.Normal("b", 0.0, 1.0)
        pm.Potential("potential", Assert("b is too large")(0.0 * b, b < 0.5))
        pm.Bernoulli("y_obs", logit_p=data["X"][:, 0] * b, observed=data["y"])

    data = {"X": X, "y": y}
    with pytest.raises(AssertionError, match=r"^b is too large$"):
        step_elsewhere(written_on_head(data, build), data)


class FailingTarget:
    """A target whose first round raises at first."""

    class source:
        in_flight = 1

    class geometry:
        centre = np.zeros(1)

    def __init__(self):
        self.asked = []

    def begin(self, key, units):
        def wait():
            self.asked.append(units)
            if len(self.asked) == 1:
                raise AssertionError("not yet")
            n = 1024 * len(units)
            return Weights(np.full(n, -np.inf), np.zeros(n, int), np.zeros(n, bool))

        return wait


def test_a_round_that_raised_is_asked_for_again():
    chain, rng = BatchChain(FailingTarget()), np.random.default_rng(0)
    with pytest.raises(AssertionError, match="not yet"):
        chain.advance(rng, 1, 0.0)
    chain.state.log_weight = 0.0
    assert chain.advance(rng, 1, 0.0) == 0.0
    assert chain.target.asked == [range(1, 2)] * 2
