"""Where chains start, and the form of the points they give back."""

import pickle
from contextlib import suppress

import numpy as np
import pymc as pm
import pytensor
import pytest
from scipy.stats import chi2

from pymc_flymc import FireflyMH
from pymc_flymc.sampling import chain as chain_module
from pymc_flymc.sampling.sampler import Sampler
from tests.support.comparison import assert_matches, quadrature
from tests.support.data import logistic_rows
from tests.support.models import logistic_posterior
from tests.support.steps import drive, sample, step_of


def test_initvals_are_honoured(shared):
    model, _ = shared()
    step = step_of(model, kernel="joint", transitions=1)
    start = np.array([4.0, -4.0, 4.0])
    idata = sample(model, step, tune=0, draws=2, initvals={"beta": start})
    sd = np.linalg.norm(step.target.geometry.factor, axis=1)
    # One random-walk or pCN transition moves by a few posterior sds; the anchor is far away.
    anchor = step.target.geometry.centre
    first = idata.posterior["beta"].values[:, 0]
    assert np.all(np.abs(start - anchor) > 20 * sd)
    assert np.all(
        np.linalg.norm((first - start) / sd, axis=1) < 0.5 * np.min(abs(start - anchor) / sd)
    )


def starts(model, step, monkeypatch, **settings):
    """Return the starts that the two chains of a run are told, None for dispersed ones."""
    told, own = [], Sampler.start

    def start(self, chain, rng, theta=None):
        told.append(theta)
        return own(self, chain, rng, theta)

    monkeypatch.setattr(Sampler, "start", start)
    monkeypatch.setattr(step, "_start_is_given", step._start_is_given)  # others share the step
    sample(model, step, tune=0, draws=1, **settings)
    return told


ZEROS = {"beta": np.zeros(3)}


@pytest.mark.parametrize(
    "form", ["by name", "by variable", "of each chain", "of one chain", "of the model"]
)
def test_initvals_at_the_initial_point_are_honoured(form, shared, monkeypatch):
    model, step = shared()
    initvals = {
        "by name": ZEROS,
        "by variable": {model["beta"]: np.zeros(3)},
        "of each chain": [ZEROS, ZEROS],
        "of one chain": [None, ZEROS],
        "of the model": None,
    }[form]
    if form == "of the model":
        monkeypatch.setitem(model.rvs_to_initial_values, model["beta"], np.zeros(3))
    told = starts(model, step, monkeypatch, initvals=initvals)
    np.testing.assert_array_equal(told, np.zeros((2, 3)))


@pytest.mark.parametrize("initvals", [None, {}, [None, {}]])
def test_no_initvals_are_none(initvals, shared, monkeypatch):
    """Also if those of a run before were given."""
    model, step = shared()
    starts(model, step, monkeypatch, initvals=ZEROS)
    assert starts(model, step, monkeypatch, initvals=initvals) == [None, None]


def test_processes_know_that_initvals_are_given(shared, monkeypatch):
    model, step = shared()
    starts(model, step, monkeypatch, initvals=ZEROS)
    copied = pickle.loads(pickle.dumps(step))
    starts_of_copy = []
    monkeypatch.setattr(
        Sampler, "start", lambda *arguments: starts_of_copy.append(arguments[3]) or arguments[1]
    )
    copied.setup_chain(np.random.default_rng(0), 0, 1)
    with suppress(Exception):  # the chain was not started
        copied.step(ZEROS)
    np.testing.assert_array_equal(starts_of_copy, [np.zeros(3)])


def test_initvals_that_are_not_finite(shared):
    _, step = shared()
    step.setup_chain(np.random.default_rng(0), 0, 1)
    with pytest.raises(ValueError, match=r"the start has nan for beta\[1\]: initial values"):
        step.step({"beta": np.array([0.0, np.nan, 0.0])})


def test_starts_are_overdispersed(shared):
    """60 first points, standardised: sd 2 before the first transition, and distinct."""
    model, step = shared()
    target, starts = step.target, []
    for seed in range(60):
        step.setup_chain(np.random.default_rng(seed), 0, 1)
        step.tuning.transitions = 1
        point, _ = step.step(model.initial_point())
        v = np.linalg.solve(target.geometry.factor, point["beta"] - target.geometry.centre)
        starts.append(v)
    starts = np.array(starts)
    assert len(np.unique(starts[:, 0])) == 60
    # A chi-square distribution has mean 180 (sd 1) for the posterior; far beyond its 1e-6 quantile.
    assert np.sum(starts**2) > chi2(180).isf(1e-6)


def test_all_rows_are_possible_where_a_chain_starts():
    """From where a row has no likelihood, as exp(800) overflows, no chain would move."""
    with pm.Model() as model:
        a = pm.Normal("a", 0, 1000)
        pm.Poisson("y", pm.math.exp(a * np.ones(20)), observed=np.full(20, 2))
    step = step_of(model, bound=None)
    chain = step.sampler.new_chain()
    with pytest.raises(ValueError, match="not finite at initvals"):
        step.sampler.start(chain, np.random.default_rng(0), np.array([800.0]))
    for seed in range(5):
        assert chain.start_dispersed(np.random.default_rng(seed), 1e5)
        assert np.isfinite(chain.bright.log_factor[: chain.n_bright].sum())


def test_starts_are_not_far_out(monkeypatch):
    """An expansion of a horseshoe around its mode is little like it: most rows were bright."""
    # Products of zeros are taken for fixed, so that the bound is as narrow as bounds come.
    monkeypatch.setattr("pymc_flymc.anchor.coefficient_factor.RESTING", 0.0)
    X, y = logistic_rows(2000, [1.5, 0.0, 0.0, 0.0])
    with pm.Model() as model:
        z = pm.Normal("z", 0.0, 1.0, shape=4)
        scales = pm.HalfCauchy("tau", 1.0) * pm.HalfCauchy("local", 1.0, shape=4)
        pm.Bernoulli("y", logit_p=X @ (scales * z), observed=y)
    chain = step_of(model, kernel="metropolis").sampler.new_chain()

    def far_out():
        outcomes = []
        for seed in range(20):
            assert chain.start_dispersed(np.random.default_rng(seed))
            outcomes.append(chain.is_far_out)
        return outcomes

    assert not any(far_out())
    monkeypatch.setattr(chain_module, "NEAREST", np.inf)  # the first point is taken
    assert any(far_out())


def test_given_anchor(shared):
    model, _ = shared()
    anchor = np.array([0.3, 0.1, -0.2])
    step = step_of(model, anchor={"beta": anchor}, kernel="metropolis")
    # The statistics are kept around the coefficients at which the bound touches.
    np.testing.assert_array_equal(step.target.statistics[1:4], anchor)


def test_points_keep_their_form():
    """Transformed, 0-d and 2-d variables: all keys, in order, of exact dtype and shape."""
    X, y = logistic_rows(200, np.linspace(-0.5, 1.0, 4))
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1.0)
        mu = pm.Normal("mu", 0.0, 1.0)
        lam = pm.Uniform("lam", 0.5, 2.0, shape=4)
        raw = pm.Normal("raw", 0.0, 1.0, shape=(2, 2))
        beta = pm.Deterministic("beta", mu + tau * lam * raw.reshape((4,)))
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
    step = step_of(model, kernel="metropolis", transitions=20)
    before = model.initial_point()
    kept = {k: np.array(v) for k, v in before.items()}
    step.setup_chain(np.random.default_rng(0), 0, 1)
    after, _ = step.step(before)
    assert list(after) == list(before)
    for name, value in after.items():
        assert isinstance(value, np.ndarray)
        assert (value.dtype, value.shape) == (kept[name].dtype, kept[name].shape)
        np.testing.assert_array_equal(before[name], kept[name], err_msg="changed in place")
        assert not np.array_equal(value, kept[name])
    idata = sample(model, step, draws=40, var_names=["tau", "raw"])
    assert set(idata.posterior.data_vars) == {"tau", "raw"}
    assert idata.posterior["tau"].shape == (2, 40)
    assert idata.posterior["raw"].shape == (2, 40, 2, 2)
    assert np.all(idata.posterior["tau"] > 0)


@pytest.mark.slow
def test_single_precision_variables():
    with pytensor.config.change_flags(floatX="float32", warn_float64="ignore"):
        X, y = logistic_rows(60, [-0.5])
        with pm.Model() as model:
            beta = pm.Normal("beta", 0.0, 1.0, shape=1)
            pm.Bernoulli("y", logit_p=pm.math.dot(X.astype("float32"), beta), observed=y)
            step = FireflyMH(kernel="joint", transitions=20)
        point = model.initial_point()
        assert point["beta"].dtype == np.float32
        draws, stats = drive(step, point, tune=100, draws=4000)
        after, _ = step.step(point)
    assert after["beta"].dtype == np.float32
    # The chain keeps its own state in double precision: no draw counts as another step's.
    assert stats["likelihood_queries"].mean() < 20 * 60
    assert_matches(draws, quadrature(logistic_posterior(X, y, 1.0), [-8.0], [8.0]))
