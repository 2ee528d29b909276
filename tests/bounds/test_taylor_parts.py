"""The Taylor bound with a radius for each part: below the likelihood, collapsing, tight."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymc_flymc import FireflyHMC, FireflyMH, FireflySlice, JaakkolaJordan, Taylor
from pymc_flymc.bounds import TaylorInParts
from pymc_flymc.graphs.collapsed_ops import RadiusPowers
from pymc_flymc.kernels.layout import HEADER
from pymc_flymc.likelihoods.likelihood import outcome
from tests.support.native import (
    assert_is_gradient,
    density_and_gradient,
    row_force,
    row_predictors,
    unstandardise,
)
from tests.support.patches import no_row_kept_bright
from tests.support.steps import drive

N, GROUPS, OTHERS = 300, 7, 4
D = 4 + 2 * GROUPS + OTHERS
FAMILIES = ["poisson"]
#: A step of each takes a quarter of a minute to compile.
SLOW = ["probit", "cloglog", "binomial"]


def simulated(family):
    """Intercepts and slopes, a crossed factor twice in a row, and extreme predictors."""
    rng = np.random.default_rng(3)
    group, other = rng.integers(0, GROUPS, N), rng.integers(0, OTHERS, (2, N))
    x = rng.normal(size=(N, 2))
    x[0], x[1, 1], x[2, 0] = [30.0, -30.0], 0.0, 1e3
    eta = 0.3 + 0.5 * rng.normal(size=GROUPS)[group] + np.clip(x @ [0.4, -0.2], -2.0, 2.0)
    if family == "poisson":
        y = rng.poisson(np.exp(eta))
        y[3] = 40  # far out of line with the other rows
    elif family == "binomial":
        y = rng.binomial(9, 1.0 / (1.0 + np.exp(-eta)))
    else:
        y = (rng.logistic(size=N) < eta).astype(int)
    return group, other, x, y


def effects_model(family):
    group, other, x, y = simulated(family)
    with pm.Model() as model:
        mu, beta = pm.Normal("mu", 0.0, 1.0), pm.Normal("beta", 0.0, 0.1, shape=2)
        tau = pm.HalfNormal("tau", 1.0)
        z = pm.Normal("z", 0.0, 1.0, shape=GROUPS)
        slope = pm.Normal("slope", 0.0, 0.3, shape=GROUPS)
        skill = pm.Normal("skill", 0.0, 0.5, shape=OTHERS)
        eta = mu + x @ beta + (tau * z)[group] + slope[group] * x[:, 1]
        eta = eta + skill[other[0]] - skill[other[1]]  # which may be the same
        if family == "poisson":
            pm.Poisson("y", mu=pm.math.exp(eta), observed=y)
        elif family == "probit":
            pm.Bernoulli("y", p=pm.math.invprobit(eta), observed=y)
        elif family == "cloglog":
            pm.Bernoulli("y", p=1.0 - pm.math.exp(-pm.math.exp(eta)), observed=y)
        elif family == "binomial":
            pm.Binomial("y", n=9, logit_p=eta, observed=y)
    return model


class Built:
    """A step, and what its bound says of all rows."""

    def __init__(self, family, cls=FireflySlice):
        self.model = effects_model(family)
        with self.model, no_row_kept_bright():
            self.step = cls(bound=TaylorInParts(2 * GROUPS + OTHERS))
        self.target, self.rows = self.step.target, self.step.target.data.rows
        (part,) = self.target.parts
        likelihood, constants = part.likelihood, self.rows.constants
        eta, shared = pt.dmatrix("eta"), pt.dvector("shared")
        columns = [constants[:, i] for i in (3, *range(5, constants.shape[1]))]
        log_l = likelihood.log_likelihood([eta[:, 0]], outcome(likelihood, columns))
        # The gap itself: factors have a floor at zero.
        arguments = [eta[:, i] for i in range(3)], pt.constant(constants), [shared[0], shared[1]]
        gap, remainder = (
            part.bound.gap(likelihood, *arguments),
            part.bound.remainder(likelihood, *arguments[:2]),
        )
        mode = pytensor.compile.Mode(linker="py", optimizer="fast_compile")
        self.gaps = pytensor.function([eta, shared], [log_l, gap, remainder], mode=mode)
        self.log_prior = self.model.compile_logp(vars=self.model.free_RVs)

    def at(self, theta):
        """Collapsed sum, coefficients with what rows share, predictors and sums of all rows."""
        w, eta = np.empty(self.target.n_slopes), np.empty((N, 3))
        log_density = self.target.density(theta, self.target.statistics, w)
        row_predictors(self.rows, w, np.arange(N), 0, N, eta, np.empty((0, 0)))
        return log_density - self.log_prior(self.step._layout.unravel(theta)), w, eta


@pytest.fixture(
    scope="module",
    params=[*FAMILIES, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)],
)
def built(request):
    return Built(request.param)


@settings(max_examples=50, deadline=None)
@given(
    v=st.lists(st.floats(-1, 1), min_size=D, max_size=D),
    scale=st.sampled_from([0.01, 1.0, 3.0, 10.0, 30.0, 100.0]),
    only=st.integers(0, 2 * D),
)
def test_bound_is_below_the_likelihood_and_collapses(built, v, scale, only):
    """At draws of the posterior and far out, in all directions or along one."""
    v = np.where(np.arange(D) == only, v, 0.0) if only < D else np.array(v)
    geometry = built.target.geometry
    theta = geometry.unstandardise(scale * v)
    collapsed, w, eta = built.at(theta)
    p = built.target.graph.n_coefficients
    log_l, gap, remainder = built.gaps(eta, w[p : p + 2])
    if not np.all(np.isfinite(log_l)):
        return  # outside the support, by overflow: rejected
    at = built.rows.constants[:, 4]
    u = eta[:, 0] - at
    size = 1.0 + np.abs(log_l) + np.abs(eta[:, 0]) + np.abs(at) + (10.0 + np.exp(at)) * u**2
    assert np.all(gap >= -64 * np.finfo(float).eps * size)
    total = np.sum(np.abs(log_l)) + np.sum(np.abs(remainder))
    assert collapsed == pytest.approx(np.sum(log_l - remainder), abs=1e-10 * total)


def test_bound_is_tried_within_and_beyond_limits(built):
    """Effects beyond their limits alone, and with the dense part; beyond, gaps are larger."""
    geometry, q = built.target.geometry, built.rows.n_sparse
    p, seen = built.target.graph.n_coefficients, set()
    for scale in (0.0, 1.0, 30.0):
        _, w, _ = built.at(geometry.unstandardise(scale * np.ones(D)))
        seen.add((bool(w[p + 1] > 0.0), bool(np.any(w[p + 2 + q :] > 0.0))))
    assert {(False, False), (True, True)} <= seen
    _, w, eta = built.at(geometry.centre)
    _, gap, _ = built.gaps(eta, w[p : p + 2])
    np.testing.assert_allclose(gap, 0.0, atol=1e-6)  # it touches at the anchor
    for v in (sign * distance * e for e in np.eye(D) for sign in (1, -1) for distance in (10, 30)):
        _, w, eta = built.at(geometry.unstandardise(v))
        log_l, gap, remainder = built.gaps(eta, w[p : p + 2])
        known = np.isfinite(log_l) & np.isfinite(
            remainder
        )  # else the point is outside the support, by overflow
        size = 1.0 + np.abs(log_l) + np.abs(remainder)
        assert np.all(gap[known] >= -1e-12 * size[known])


@pytest.mark.slow
@pytest.mark.parametrize("family", ["poisson", "probit"])
def test_force_is_the_gradient_of_the_joint_density(family):
    """In standardised coordinates, all rows bright: of the radii, effects and sums of rows."""
    built, rng = Built(family, FireflyHMC), np.random.default_rng(6)
    step = built.step
    step.setup_chain(rng, 0, 1)
    chain = step.chain
    chain.start(rng, 0.7 * rng.standard_normal(D))
    state, index = chain.state, np.arange(N, dtype=np.int32)
    index = np.delete(index, [0, 2])  # whose factors overflow

    def log_joint(v):
        theta = np.empty(D)
        unstandardise(chain.geometry, v, theta)
        collapsed, w, eta = built.at(theta)
        p, odds = built.target.graph.n_coefficients, np.empty(len(index))
        constants = built.rows.constants[index]
        built.target.parts[0].log_factor(eta[index], constants, w[p : p + 2], odds)
        total = collapsed + built.log_prior(step._layout.unravel(theta)) + odds.sum()
        return total - dark @ w

    # Multipliers of the powers, as of whatever rows are dark.
    dark, p = np.zeros_like(state.w), built.target.graph.n_coefficients
    dark[p:] = rng.uniform(0.0, 0.1, len(dark) - p)
    posterior, *_ = chain._arguments()
    dynamics, out = chain.kernel_parameters, np.empty(len(index))
    density_and_gradient(posterior, state.theta, state.w, dynamics.gradient)
    factors = posterior.rows, posterior.log_factor_gradient, index, len(index)
    at = state.theta, state.w, dynamics.gradient, dark
    log_odds = row_force(posterior, *factors, *at, dynamics, out, chain.scratch)
    v = state.v.copy()
    assert log_joint(v) == pytest.approx(state.log_density[0] + log_odds, rel=1e-12)

    assert_is_gradient(dynamics.force, log_joint, v, 1e-4, len(index))


@pytest.mark.parametrize("k", [1, 2])
def test_slope_within_and_beyond_limits(k):
    """The op's gradient, and its outputs in Python, where parts are on either side."""
    rng, m, q = np.random.default_rng(k), 2 * k, 3 * k
    header = [q, 1.0, 0.3, 0.2, 2, k]
    limits, others = np.full(q, 0.5), rng.uniform(0.5, 1.0, 2 * q)
    shifts = [0, 7, 2, 1, 0, 2, 0.3, 0.7, 1, 1, 1, 1, 1.0, 2]  # of means from {0, 2} to 1, 1 to 2
    matrices = np.eye(m).ravel(), rng.normal(size=q * m)
    packed = np.concatenate([header, *matrices, limits, others, shifts])
    u, given = pt.dvector("u"), pt.dvector("packed")
    shared = RadiusPowers(q)(u, given)
    weights = rng.normal(size=2 + 2 * q)
    value = pt.sum(weights * shared)
    functions = [
        pytensor.function([u, given], [value, pytensor.grad(value, u)], mode=mode)
        for mode in (pytensor.compile.Mode(linker="py", optimizer="fast_compile"), "NUMBA")
    ]
    powers = pytensor.function([u, given], shared, mode="FAST_COMPILE")
    beyond = set()
    for scale in (0.1, 1.0, 1.0, 3.0):
        x = scale * rng.normal(size=m + q)
        (there, slope), (native, native_slope) = (function(x, packed) for function in functions)
        assert native == pytest.approx(there, rel=1e-13)
        np.testing.assert_allclose(native_slope, slope, rtol=1e-12)
        for j, e in enumerate(np.eye(m + q) * 1e-6):
            difference = (functions[0](x + e, packed)[0] - functions[0](x - e, packed)[0]) / 2e-6
            rounding = 8.0 * np.finfo(float).eps * abs(there) / 1e-6
            assert slope[j] == pytest.approx(difference, rel=1e-6, abs=1e-7 + rounding)
        dense, effects = (part.ravel() for part in np.split(x.reshape(k, -1), [2], axis=1))
        s = effects + dense @ packed[len(HEADER) + m * m :][: q * m].reshape(m, q)
        mean = 0.3 * s[0] + 0.7 * s[2]
        s[0], s[1], s[2] = s[0] - mean, 0.0, s[2] - mean + s[1] + mean
        np.testing.assert_allclose(
            powers(x, packed)[2 : 2 + q], np.abs(s) ** 3 * others[:q], rtol=1e-11, atol=1e-15
        )
        beyond |= {*(np.abs(s) > 0.5), bool(np.linalg.norm(dense) > 1.0)}
    assert beyond == {False, True}


def intercepts(n_groups, n, family="logistic", p=5):
    rng = np.random.default_rng(1)
    group, x = rng.integers(0, n_groups, n), rng.normal(size=(n, p))
    eta = -0.3 + 0.7 * rng.normal(size=n_groups)[group] + x @ np.linspace(-0.5, 0.5, p)
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0.0, 1.0), pm.HalfNormal("tau", 1.0)
        beta = pm.Normal("beta", 0.0, 1.0, shape=p)
        a = pm.Normal("a", mu, tau, shape=n_groups)
        if family == "poisson":
            mean = pm.math.exp(a[group] + x @ beta)
            pm.Poisson("y", mu=mean, observed=rng.poisson(np.exp(eta)))
        else:
            y = (rng.logistic(size=n) < eta).astype(int)
            pm.Bernoulli("y", logit_p=a[group] + x @ beta, observed=y)
    return model


@pytest.mark.slow
def test_few_rows_are_bright_and_as_many_as_expected():
    """With hundreds of effects, a few rows instead of all; fewer than under Jaakkola-Jordan."""
    model = intercepts(320, 16_000)
    with model:
        step, other = FireflyHMC(bound=Taylor()), FireflyHMC()
    (part,), (tangent,) = step.target.parts, other.target.parts
    assert isinstance(tangent.bound, JaakkolaJordan)  # by choice: it lets go of what is far off
    assert part.expected_bright < 0.5 * tangent.expected_bright
    _, stats = drive(step, model.initial_point(), tune=300, draws=200)
    assert 0.5 < stats["n_bright"].mean() / part.expected_bright < 1.5


@pytest.mark.slow
def test_radius_is_that_of_the_posterior():
    """Over the Laplace approximation, intercept and effects' mean included, which are a ridge.

    Wider, and the dense part would hold chains at its limit, where all rows are bright.
    """
    rng, q = np.random.default_rng(2), 320
    group, x = rng.integers(0, q, 100_000), np.column_stack([np.ones(100_000)])
    y = rng.poisson(np.exp(1.0 + 0.7 * rng.normal(size=q)[group]))
    with pm.Model():
        a = pm.Normal("a", 0.0, pm.HalfNormal("tau", 1.0), shape=q)
        eta = x @ pm.Normal("beta", 0.0, 1.0, shape=1) + a[group]
        pm.Poisson("y", mu=pm.math.exp(eta), observed=y)
        target = FireflyHMC().target
    p, m = target.graph.n_coefficients, 1
    header = target.statistics[-(len(HEADER) + m * m + q * m + 3 * q) :]  # without shifts
    assert header[HEADER.n_effects] == q
    w, powers = np.empty(target.n_slopes), []
    for _ in range(2000):
        v = rng.standard_normal(len(target.geometry.centre))
        target.density(target.geometry.unstandardise(v), target.statistics, w)
        powers.append(w[p])
    # The mean of r^3 over its own; variances are those of 32 draws, a quarter off.
    assert np.mean(powers) * np.sqrt(header[HEADER.scale]) < 2.0


@pytest.mark.slow
def test_form_follows_the_design():
    """A radius for each part where there are effects, in conditional updates."""
    with intercepts(320, 4000, "poisson"):
        for step in (FireflyMH(bound=Taylor()), FireflySlice(), FireflyHMC(bound=Taylor())):
            assert isinstance(step.bounds[0], TaylorInParts)
            assert not step.target.spec.fresh
        with pytest.raises(ValueError, match="third-order Taylor bound has one radius"):
            FireflyHMC(bound=Taylor(order=3))
        with pytest.raises(ValueError, match=r"smooth in its pred.*, and not with more"):
            FireflyMH(kernel="joint")
    with intercepts(30, 4000, "poisson"):
        assert isinstance(FireflyHMC().bounds[0], TaylorInParts)
        assert isinstance(FireflyMH(kernel="joint").bounds[0], Taylor)
