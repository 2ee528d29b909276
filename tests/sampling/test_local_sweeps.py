"""Local sweeps: the models that they take, and those that they refuse."""

import pickle

import numpy as np
import pymc as pm
import pytensor
import pytest

from pymc_flymc import ExplicitResampling, FireflyMH, Taylor
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.kernels.layout import MOMENTS
from pymc_flymc.sampling import choice
from pymc_flymc.target import conditionals
from tests.support.native import jacobian_of
from tests.support.steps import advance, begin

N, G = 60, 6
GROUP = np.arange(N) % G


def model_of(effects, outcomes="logistic"):
    """Random effects; the function returns predictors, in the model's context."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=N), rng.integers(0, 2, N)
    with pm.Model() as model:
        tau = pm.LogNormal("tau", -0.5, 0.3)
        eta = 0.2 * pm.Normal("beta", 0.0, 1.0) * x + effects(tau, x)
        if outcomes == "poisson":
            pm.Poisson("y", pm.math.exp(eta), observed=y)
        else:
            pm.Bernoulli("y", logit_p=eta, observed=y)
        if outcomes == "two":
            pm.Bernoulli("second", logit_p=eta, observed=1 - y)
    return model


def intercepts(tau, x):
    return pm.Normal("a", 0.0, tau, shape=G)[GROUP]


def permuted(tau, x):
    a = pm.Normal("a", 0.0, tau, shape=G)
    return a[np.random.default_rng(4).permutation(G)][GROUP]


def crossed(tau, x):
    return intercepts(tau, x) + pm.Normal("b", 0.0, 1.0, shape=5)[np.arange(N) % 5]


def slopes(tau, x):
    return pm.Normal("a", 0.0, tau, shape=G)[GROUP] * x


def none(tau, x):
    return tau


def heavy_tailed(tau, x):
    return pm.StudentT("a", 4.0, 0.0, sigma=tau, shape=G)[GROUP]


def coupled(tau, x):
    return pm.ZeroSumNormal("a", tau, shape=G)[GROUP]


def doubled(tau, x):
    a = pm.Normal("a", 0.0, tau, shape=G)
    return (2.0 * a)[GROUP]  # PyTensor makes of 2.0 a constant of single precision


def ending(tau, x):
    a = pm.Normal("a", 0.0, tau, shape=G)
    pm.Potential("end", pm.math.switch(a > 4.0, -np.inf, 0.0).sum())
    return a[GROUP]


def bent(tau, x):
    a = pm.Normal("a", 0.0, tau, shape=G)
    return pm.math.minimum(a, np.r_[1.5, np.full(G - 1, np.inf)])[GROUP]


def of_all(tau, x):
    """Beyond some value one of the effects is one of all rows."""
    a = pm.Normal("a", 0.0, tau, shape=G)
    return a[GROUP] + pm.math.maximum(a[0] - 1.5, 0.0) * x


def walk(tau, x):
    return pm.GaussianRandomWalk("a", sigma=tau, init_dist=pm.Normal.dist(), shape=G)[GROUP]


@pytest.fixture
def no_chains(monkeypatch):
    """Leave out what chains alone need, which takes longest to compile."""
    monkeypatch.setattr(conditionals, "compile_vjp", lambda graphs: None)


ONE_FACTOR, OWN, NORMAL = "one grouping factor", "of their own alone", "normal given all other"


@pytest.mark.parametrize(
    ("effects", "outcomes", "message"),
    [
        pytest.param(crossed, "logistic", ONE_FACTOR, marks=pytest.mark.slow),
        (slopes, "logistic", ONE_FACTOR),
        (none, "logistic", ONE_FACTOR),
        pytest.param(intercepts, "two", NORMAL, marks=pytest.mark.slow),
        (intercepts, "poisson", "tangent bound"),
        (heavy_tailed, "logistic", NORMAL),
        (ending, "logistic", NORMAL),
        pytest.param(bent, "logistic", NORMAL, marks=pytest.mark.slow),
        pytest.param(of_all, "logistic", "nothing but their own", marks=pytest.mark.slow),
        pytest.param(coupled, "logistic", OWN, marks=pytest.mark.slow),
        pytest.param(walk, "logistic", NORMAL, marks=pytest.mark.slow),
    ],
)
@pytest.mark.usefixtures("no_chains")
@pytest.mark.slow_cases("heavy_tailed-logistic-normal given all other")
def test_models_that_do_not_qualify_are_refused(effects, outcomes, message):
    with model_of(effects, outcomes), pytest.raises(UnsupportedModelError, match=message):
        FireflyMH(kernel="local")


@pytest.mark.parametrize(
    ("effects", "outcomes", "many", "are_taken"),
    [
        (intercepts, "logistic", G, True),
        pytest.param(doubled, "logistic", G, True, marks=pytest.mark.slow),
        pytest.param(intercepts, "logistic", G + 1, False, marks=pytest.mark.slow),
        pytest.param(heavy_tailed, "logistic", G, False, marks=pytest.mark.slow),
        pytest.param(intercepts, "poisson", G, False, marks=pytest.mark.slow),
    ],
)
def test_they_are_taken_for_many_groups(effects, outcomes, many, are_taken, monkeypatch):
    """Where they serve; other moves are selected where not."""
    monkeypatch.setattr(choice, "MANY_GROUPS", many)
    with model_of(effects, outcomes):
        assert (FireflyMH().target.spec.name == "local") == are_taken


def test_single_precision_is_refused_by_name():
    with (
        pytensor.config.change_flags(floatX="float32", warn_float64="ignore"),
        model_of(intercepts),
        pytest.raises(UnsupportedModelError, match="double precision"),
    ):
        FireflyMH(kernel="local")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bound": None}, "bound='auto' or one bound"),
        ({"bound": Taylor()}, "bound='auto' or one bound"),
        ({"brightness": ExplicitResampling()}, "ImplicitResampling"),
        ({"proposal": "pcn"}, "proposal= is not for"),
    ],
)
def test_settings_without_a_use_are_refused(settings, message):
    with model_of(intercepts), pytest.raises(ValueError, match=message):
        FireflyMH(kernel="local", **settings)


@pytest.fixture(scope="module")
def step():
    with model_of(permuted):
        return FireflyMH(kernel="local")


def around(tau, x):
    return pm.Normal("a", 1.0 + pm.Normal("mu", 0.0, 1.0), tau, shape=G)[GROUP]


@pytest.mark.slow
def test_no_trajectory_passes_where_effects_are_rounded_to_their_mean():
    """Their density is too large there: chains stayed with a scale of 1e-38 for ever."""
    model = model_of(around)
    with model:
        step = FireflyMH(kernel="local")
    point, rng, moved = begin(step, model, tune=0), np.random.default_rng(2), []
    place = list(point).index("tau_log__")
    for log_tau in (-3.0, -80.0):
        point |= {"tau_log__": np.array(log_tau), "a": np.ones(G)}
        step.chain.start_at(rng, np.concatenate([np.ravel(each) for each in point.values()]))
        step.chain.advance(rng, 20, 0.0)
        moved.append(step.chain.state.theta[place] != log_tau)
    assert moved == [True, False]


@pytest.mark.slow
def test_effects_of_columns_in_any_order(step):
    """Elements of theta that are effects, whatever stands before them."""
    target, theta = step.target, np.arange(2.0 + G)
    w = target.coefficients(theta, target.statistics)
    np.testing.assert_array_equal(w[-G:], theta[target.effects])
    assert not np.array_equal(target.effects, np.sort(target.effects))


@pytest.mark.slow
def test_conditional_distributions_of_many_groups():
    """Where curvatures are arrows: of slopes and second derivatives in each effect by itself."""
    n, g = 1000, 310
    rng = np.random.default_rng(8)
    x, group = rng.normal(size=n), np.arange(n) % g
    with pm.Model():
        tau, beta = pm.LogNormal("tau", -0.5, 0.3), pm.Normal("beta", 0.0, 1.0)
        a = pm.Normal("a", pm.Normal("mu", 0.0, 1.0), tau, shape=g)
        pm.Bernoulli("y", logit_p=beta * x + a[group], observed=rng.integers(0, 2, n))
        target = FireflyMH(kernel="local").target
    theta = target.geometry.unstandardise(rng.standard_normal(len(target.geometry.centre)))
    moments, gradient = np.empty((len(MOMENTS), g)), np.empty((2, len(theta)))
    target.conditionals.moments(theta, target.statistics, moments.ravel())
    w = np.empty(target.n_slopes)
    for i in (0, 1):
        theta[target.effects] = float(i)
        target.density_gradient(theta, target.statistics, w, gradient[i])
    slopes = gradient[:, target.effects]
    precision = slopes[0] - slopes[1]
    np.testing.assert_allclose(moments[MOMENTS.sd], precision**-0.5, rtol=1e-9)
    np.testing.assert_allclose(moments[MOMENTS.mean], slopes[0] / precision, rtol=1e-9, atol=1e-9)


def with_districts(n_districts):
    """Many groups, two of them without rows, whose effects have means of districts."""
    n, g, empty = 1200, 400, [7, 90]
    group = np.setdiff1d(np.arange(g), empty)[np.arange(n) % (g - len(empty))]
    rng = np.random.default_rng(6)
    with pm.Model() as model:
        tau, mu = pm.LogNormal("tau", -0.5, 0.3), pm.Normal("mu", 0.0, 1.0)
        means = mu + pm.Normal("means", 0.0, 0.4, shape=n_districts)
        a = means[np.arange(g) % n_districts] + tau * pm.Normal("z", 0.0, 1.0, shape=g)
        pm.Bernoulli("y", logit_p=a[group], observed=rng.integers(0, 2, n))
    with model:
        return model, FireflyMH(kernel="local"), empty


@pytest.mark.slow
@pytest.mark.usefixtures("no_chains")
def test_groups_without_rows_have_effects():
    """These come last, and follow global parameters like all others."""
    _, step, empty = with_districts(3)
    first = step.target.effects.min()
    np.testing.assert_array_equal(step.target.effects[-2:], first + np.array(empty))
    assert len(step.target.effects) == 400


@pytest.mark.slow
def test_many_global_parameters():
    """Of so many that they are diagonal elements. They have the covariance of the geometry."""
    model, step, _ = with_districts(130)
    advance(step, begin(step, model, tune=0), 2)
    chain = step.chain
    others, factor = chain.plan.others, chain.kernel_parameters.factor
    assert np.isin(others, chain.geometry.diagonal).sum() == 130
    jacobian = jacobian_of(chain.geometry)[others]
    expected = jacobian @ jacobian.T
    np.testing.assert_allclose(factor @ factor.T, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_a_chain_goes_on_from_its_state(step):
    """And in another process, from a pickled step."""
    other = pickle.loads(pickle.dumps(step))
    model = model_of(permuted)
    point, _ = advance(step, begin(step, model, tune=50), 60)
    saved = pickle.loads(pickle.dumps((step.sampling_state, step.rng.bit_generator.state)))
    end, _ = advance(step, point, 5)
    begin(other, model, tune=50)
    other.sampling_state = saved[0]
    other.rng.bit_generator.state = saved[1]
    found, _ = advance(other, point, 5)
    assert all(np.array_equal(found[name], end[name]) for name in end)


@pytest.mark.slow
def test_no_sweep_of_effects_is_rejected(step):
    """The conditional distributions are the density's to rounding: nothing is left to accept."""
    chain = step.chain
    if chain is None:
        advance(step, begin(step, model_of(permuted), tune=50), 60)
        chain = step.chain
    rng, before = np.random.default_rng(5), chain.state.theta.copy()
    for _ in range(50):
        chain.advance(rng, 1, 0.0)
        assert np.all(chain.state.theta[step.target.effects] != before[step.target.effects])
        before = chain.state.theta.copy()
