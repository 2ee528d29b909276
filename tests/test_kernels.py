"""Compiled kernels without PyMC: gradients, known laws, the joint law of parameters and data."""

import functools
from dataclasses import replace

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from conftest import N_ERRORS, assert_matches, from_python, log_sigmoid, quadrature
from scipy import stats

from pymc_flymc import (
    Bohning,
    FireflyHMC,
    ImplicitResampling,
    JaakkolaJordan,
    Tangent,
    Taylor,
)
from pymc_flymc.anchor.laplace import LaplaceFactor
from pymc_flymc.bounds import AllRows, row_factor
from pymc_flymc.graphs.compilation import compile_log_factor
from pymc_flymc.kernels.geometry import Geometry, dense_geometry, unwhiten, whiten_gradient
from pymc_flymc.kernels.hamiltonian import (
    MAX_STEPS,
    average,
    density_and_gradient,
    freeze_step,
    log_odds_and_force,
    new_dynamics,
)
from pymc_flymc.kernels.metropolis import new_moves
from pymc_flymc.kernels.native import read_only
from pymc_flymc.kernels.rows import Rows
from pymc_flymc.kernels.slice import new_slices
from pymc_flymc.likelihoods import BernoulliLogit
from pymc_flymc.reading.flat import DensityGraph
from pymc_flymc.regression.quadratic import QuadraticStatistics, quadratic_size
from pymc_flymc.sampling.chain import FireflyChain
from pymc_flymc.sampling.metric import CONFIRMING, diagonal_geometry, learn_geometry
from pymc_flymc.target.data import Data
from pymc_flymc.target.resampling import Levels
from pymc_flymc.target.target import Target, TargetPart

unwhiten, whiten_gradient, average, density_and_gradient, log_odds_and_force = map(
    from_python, (unwhiten, whiten_gradient, average, density_and_gradient, log_odds_and_force)
)

unwhiten, whiten_gradient, average, density_and_gradient, log_odds_and_force = map(
    from_python, (unwhiten, whiten_gradient, average, density_and_gradient, log_odds_and_force)
)

KERNELS = {
    "hmc": ("hamiltonian", lambda d, p: new_dynamics(d, p, np.pi, 0.8)),
    "mala": ("hamiltonian", lambda d, p: new_dynamics(d, p, 0.0, 0.574)),
    "slice": ("slice", lambda d, p: new_slices(d, False)),
    "slice-random": ("slice", lambda d, p: new_slices(d, True)),
}


# --- coordinates ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def geometry():
    """Three dense parameters and two wide ones, interleaved."""
    rng = np.random.default_rng(0)
    factor = np.tril(rng.normal(size=(3, 3))) + 2.0 * np.eye(3)
    return Geometry(
        rng.normal(size=5),
        np.array([0, 3, 4]),
        np.array([2, 1]),
        factor,
        np.array([0.5, 2.0]),
        rng.normal(size=(2, 3)),
    )


def jacobian_of(geometry):
    columns = np.empty((5, 5))
    for j, e in enumerate(np.eye(5)):
        unwhiten(geometry, e, columns[j])
    return (columns - geometry.centre).T


def test_laplace_factor_is_the_same_map(geometry):
    factor, jacobian = LaplaceFactor(*geometry[1:]), jacobian_of(geometry)
    v = np.random.default_rng(1).normal(size=5)
    np.testing.assert_allclose(factor.apply(v), jacobian @ v, rtol=1e-12)
    np.testing.assert_allclose(factor.solve(factor.apply(v)), v, rtol=1e-12)
    np.testing.assert_allclose(factor.apply_transposed(v), jacobian.T @ v, rtol=1e-12)


def test_gradients_are_pulled_back_by_the_transpose(geometry):
    gradient, out = np.random.default_rng(2).normal(size=5), np.empty(5)
    expected = jacobian_of(geometry).T @ gradient
    whiten_gradient(geometry, gradient, out)
    np.testing.assert_allclose(out, expected, rtol=1e-12)


def test_diagonal_geometry_has_the_marginal_scales(geometry):
    jacobian = jacobian_of(geometry)
    diagonal = diagonal_geometry(geometry)
    np.testing.assert_allclose(
        jacobian_of(diagonal), np.diag(np.sqrt(np.diag(jacobian @ jacobian.T))), rtol=1e-12
    )


def test_learnt_geometry_whitens(geometry):
    """The covariance of many draws becomes about the identity, within its own sampling error."""
    rng = np.random.default_rng(3)
    mixing = np.array([[1.5, 0.0, 0.0], [-0.8, 0.7, 0.0], [0.4, 0.3, 1.0]])
    n = 20_000
    draws = rng.standard_normal((n, 5))
    draws[:, geometry.dense] = draws[:, geometry.dense] @ mixing.T
    draws[:, geometry.wide] *= [3.0, 0.2]
    learnt = learn_geometry(geometry, draws)
    change = np.linalg.solve(jacobian_of(learnt), jacobian_of(geometry))
    again = draws @ change.T
    error = N_ERRORS * np.sqrt(2.0 / n)
    assert np.max(np.abs(np.cov(again.T) - np.eye(5))) < error


@pytest.mark.parametrize("n", [1, 2, 10])
def test_few_draws_hardly_change_the_geometry(geometry, n):
    """The old coordinates count like CONFIRMING draws, whatever the new ones are."""
    draws = np.random.default_rng(4).standard_normal((n, 5))
    change = np.linalg.solve(jacobian_of(geometry), jacobian_of(learn_geometry(geometry, draws)))
    variances = np.linalg.svd(change)[1] ** 2
    total = n * np.sum(np.var(draws, axis=0))
    assert np.all(variances > CONFIRMING / (n + CONFIRMING) * (1.0 - 1e-12))
    assert np.all(variances < (total + CONFIRMING) / (n + CONFIRMING) * (1.0 + 1e-12))


def test_dual_averaging():
    """The recursion of Hoffman & Gelman (2014, section 3.2.1), written as there."""
    gamma, t0, kappa, target = 0.05, 10.0, 0.75, 0.8
    dynamics = new_dynamics(3, 3, 4.0, target)
    mu = np.log(2.0) + dynamics.log_step[0]
    mean_error, log_average = 0.0, dynamics.log_step[0]
    for t, accept in enumerate(np.random.default_rng(7).random(50), start=1):
        mean_error = (1.0 - 1.0 / (t + t0)) * mean_error + (target - accept) / (t + t0)
        log_step = mu - np.sqrt(t) / gamma * mean_error
        log_average = t**-kappa * log_step + (1.0 - t**-kappa) * log_average
        average(dynamics, accept)
        np.testing.assert_allclose(dynamics.log_step[0], log_step, rtol=1e-12)
    freeze_step(dynamics)
    np.testing.assert_allclose(dynamics.log_step[0], log_average, rtol=1e-12)


# --- gradients ------------------------------------------------------------------------------------


def models():
    rng = np.random.default_rng(5)
    X = np.column_stack([np.ones(60), rng.normal(size=(60, 2))])
    eta = X @ np.array([0.5, 1.0, -1.0])
    with pm.Model() as logistic:
        scale = pm.HalfNormal("scale", 1.0)
        beta = pm.Normal("beta", 0.0, 1.0, shape=3)
        y = (rng.random(60) < np.exp(log_sigmoid(eta))).astype(int)
        pm.Bernoulli("y", logit_p=X @ (beta * scale), observed=y)
    with pm.Model() as softmax:
        weights = pm.Normal("beta", 0.0, 1.0, shape=(3, 3))
        pm.Categorical("y", logit_p=X @ weights, observed=rng.integers(0, 3, 60))
    with pm.Model() as robust:
        beta = pm.Normal("beta", 0.0, 1.0, shape=3)
        nu, sigma = pm.Gamma("nu", 2.0, 0.1), pm.HalfNormal("sigma", 1.0)
        pm.StudentT("y", nu=nu, mu=X @ beta, sigma=sigma, observed=eta + rng.standard_t(3, 60))
    with pm.Model() as counts:
        beta = pm.Normal("beta", 0.0, 1.0, shape=3)
        pm.Poisson("y", pm.math.exp(X @ beta), observed=rng.poisson(np.exp(eta)))
    return {
        "logistic": (logistic, JaakkolaJordan()),
        "softmax": (softmax, Bohning()),
        "robust": (robust, Tangent(slack=100.0)),
        "poisson": (counts, Taylor()),
    }


@pytest.fixture(scope="module")
def steps():
    """One HMC step for each family and bound, and one without a bound."""
    built = {}
    for name, (model, bound) in models().items():
        with model:
            built[name] = FireflyHMC(bound=bound)
    with models()["logistic"][0]:
        built["no bound"] = FireflyHMC(bound=None)
    return built


@pytest.mark.parametrize("name", ["logistic", "softmax", "robust", "poisson", "no bound"])
def test_force_is_the_gradient_of_the_joint_density(steps, name):
    """In whitened coordinates, z given: through transforms, nuisances and shared radii."""
    step, rng = steps[name], np.random.default_rng(6)
    step.setup_chain(rng, 0, 1)
    chain = step._chain
    d = len(step.target.geometry.centre)
    chain.start(rng, 1.5 * rng.standard_normal(d))
    index = chain.bright.index[: chain.n_bright].copy()
    rows, state = step.target.data.rows, chain.state
    assert len(index) > 5

    def log_joint(v):
        unwhiten(chain.geometry, v, state.theta_new)
        total = step.target.density(state.theta_new, chain.statistics, state.w_new)
        k, p = rows.offset.shape[1], rows.X.shape[1]
        eta, odds = rows.X[index] @ state.w_new[: k * p].reshape(k, p).T, np.empty(len(index))
        step.target.parts[0].log_factor(eta, rows.constants[index], state.w_new[k * p :], odds)
        return total + odds.sum()

    posterior, *_ = chain._arguments()
    out = np.empty(len(index))
    dynamics = chain.moves
    density_and_gradient(posterior, state.theta, state.w, dynamics.gradient)
    arguments = dynamics.gradient, dynamics, out, chain.bright, chain.scratch
    log_odds = log_odds_and_force(posterior, state.theta, state.w, *arguments)
    v = state.v.copy()
    assert log_joint(v) == pytest.approx(state.log_density[0] + log_odds, rel=1e-12)

    def slope_along(e):
        near = log_joint(v + e) - log_joint(v - e)
        far = log_joint(v + 2.0 * e) - log_joint(v - 2.0 * e)
        return (8.0 * near - far) / (12.0 * e.max())

    for j, e in enumerate(np.eye(d) * 1e-3):
        slope, rougher = slope_along(e), slope_along(2.0 * e)
        # The error goes with the fourth power of the step: the rougher one's is 16 times as large.
        # Sums have a rounding error for each term.
        rounding = abs(log_joint(v)) * np.finfo(float).eps * len(index) / e.max()
        assert abs(dynamics.force[j] - slope) < abs(slope - rougher) + rounding


# --- known laws -----------------------------------------------------------------------------------


def target_of(log_density, d, kernel, geometry, x=0.0, likelihood=BernoulliLogit()):
    """A density and one row, whose likelihood is constant by default."""
    theta = pt.vector("theta", shape=(d,), dtype="float64")
    others = pt.vector("others", shape=(0,), dtype="float64")
    rows = Rows(
        read_only(np.full((1, d), x)), read_only(np.empty((0, 1))), 0, read_only(np.zeros((1, 1)))
    )
    graph = DensityGraph(theta, others, log_density(theta), (theta,), (d,))
    data = Data(rows, None)
    factor = compile_log_factor(row_factor(likelihood, AllRows()))
    part = TargetPart(likelihood, AllRows(), np.empty(0), 1.0, factor)
    return Target(graph, (part,), 0, geometry, data, kernel)


def gaussian(theta, exp=pt.exp):
    """Correlation 0.8, standard deviations 1 and 2."""
    a, b = theta[0], theta[1] / 2.0
    return -0.5 * (a**2 - 1.6 * a * b + b**2) / (1.0 - 0.64)


def funnel(theta, exp=pt.exp):
    """theta[0] ~ N(0, 1), theta[1] | theta[0] ~ N(0, exp(theta[0]/2))."""
    return -0.5 * theta[0] ** 2 - 0.5 * theta[0] - 0.5 * theta[1] ** 2 * exp(-theta[0])


@functools.cache
def reference_of(log_density):
    return quadrature(lambda points: log_density(points.T, np.exp), [-8.0, -60.0], [8.0, 60.0])


@pytest.mark.parametrize("log_density", [gaussian, funnel])
@pytest.mark.parametrize("kernel", KERNELS)
def test_law_of_a_known_density(kernel, log_density):
    kind, new = KERNELS[kernel]
    # Coordinates that are off: what they whiten is another law.
    geometry = dense_geometry(np.array([0.3, -0.2]), np.array([[0.8, 0.0], [-0.4, 1.1]]))
    target = target_of(log_density, 2, kind, geometry)
    moves = new(2, 2)
    if kind == "hamiltonian":
        moves.log_step[:] = np.log(0.4 if log_density is funnel else 0.7)
    per_draw = {"hmc": 10, "mala": 60, "slice": 8, "slice-random": 15}[kernel]
    draws = np.empty((2, 8000, 2))
    for c, rng in enumerate(np.random.default_rng(12).spawn(2)):
        chain = FireflyChain(target, ImplicitResampling(), moves)
        chain.start(rng, rng.standard_normal(2))
        chain.advance(rng, 1000, 0.0)
        for i in range(8000):
            chain.advance(rng, per_draw, 0.0)
            draws[c, i] = chain.state.theta
    assert_matches(draws, reference_of(log_density))


# --- what cannot be evaluated ---------------------------------------------------------------------


class HalfKnown(BernoulliLogit):
    """A factor that overflows beyond zero."""

    def __init__(self, unknown):
        self.unknown = unknown

    def log_likelihood(self, arguments, y):
        return pt.switch(arguments[0] > 0.0, self.unknown, 0.0)


@pytest.mark.parametrize("unknown", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("kernel", ["metropolis", *KERNELS])
def test_what_cannot_be_evaluated_is_never_entered(kernel, unknown):
    """The chain keeps to the half-line below: an infinite ratio would be accepted."""
    walks = "metropolis", lambda d, p: new_moves(d, np.array([0.5, 0.0, 0.5]))
    kind, new = KERNELS.get(kernel, walks)
    line = dense_geometry(np.zeros(1), np.ones((1, 1)))
    target = target_of(lambda theta: -0.5 * theta[0] ** 2, 1, kind, line, 1.0, HalfKnown(unknown))
    chain, rng = FireflyChain(target, ImplicitResampling(), new(1, 1)), np.random.default_rng(11)
    chain.start_at(rng, np.array([-1.0]))
    draws = np.empty(2000)
    for i in range(len(draws)):
        chain.advance(rng, 5, 0.0)
        draws[i] = chain.state.theta[0]
    assert np.max(draws) <= 0.0
    assert np.min(draws) < -2.0


def test_a_step_size_of_zero_is_survived():
    """Where nothing was ever accepted in tuning; as many steps as there may be."""
    target = target_of(gaussian, 2, "hamiltonian", dense_geometry(np.zeros(2), np.eye(2)))
    chain = FireflyChain(target, ImplicitResampling(), new_dynamics(2, 2, 4.0, 0.8))
    chain.moves.log_step[:] = -1000.0
    rng = np.random.default_rng(13)
    chain.start_at(rng, np.ones(2))
    assert chain.advance(rng, 1, 0.0) == pytest.approx(1.0)
    assert chain.moves.tally[0] == MAX_STEPS


# --- joint law of parameters and data -------------------------------------------------------------

N_ROWS, N_SIMULATIONS, LEVEL = 8, 4000, 1e-5
X = np.column_stack([np.ones(N_ROWS), np.linspace(-2.0, 2.5, N_ROWS)])
XI, SLACK = np.linspace(0.0, 3.0, N_ROWS), np.linspace(0.0, 0.5, N_ROWS)


@pytest.mark.parametrize("kernel", KERNELS)
def test_joint_law_is_kept(kernel):
    """theta ~ prior, y | theta, z | both; transitions keep the law (Gandy & Scott 2020).

    All simulations are independent: the tests have the level that they state.
    """
    kind, new = KERNELS[kernel]
    bound, rng = JaakkolaJordan(xi=XI), np.random.default_rng(10)
    theta = pt.vector("theta", shape=(2,), dtype="float64")
    others = pt.vector("others", shape=(0,), dtype="float64")
    graph = DensityGraph(theta, others, -0.5 * pt.sum(theta**2), (theta,), (2,))
    geometry = dense_geometry(np.array([0.3, -0.2]), np.array([[0.8, 0.0], [0.3, 0.6]]))
    levels = Levels.by_row(np.linspace(0.05, 0.9, N_ROWS))

    def rows_of(y):
        constants = read_only(bound.constants(XI, y, SLACK))
        return Rows(read_only(X), read_only(np.empty((0, 1))), 0, constants)

    factor = compile_log_factor(row_factor(BernoulliLogit(), bound))
    part = TargetPart(BernoulliLogit(), bound, np.zeros(quadratic_size(None, 2)), N_ROWS, factor)
    data = Data(rows_of(np.zeros(N_ROWS)), levels)
    template = Target(graph, (part,), 0, geometry, data, kind)

    def simulate():
        theta = rng.standard_normal(2)
        return theta, (rng.random(N_ROWS) < np.exp(log_sigmoid(X @ theta))).astype(float)

    def summary(theta, y):
        return *theta, np.sum(log_sigmoid((2.0 * y - 1.0) * (X @ theta))), theta @ X.T @ (y - 0.5)

    fresh, after = [], []
    for _ in range(N_SIMULATIONS):
        theta_0, y = simulate()
        statistics = QuadraticStatistics(np.array([0.1, 0.2]))
        a, b, c = bound.coefficients(XI, y, SLACK)
        statistics.add(X, X @ statistics.centre, a, b, c)
        target = object.__new__(Target)  # the compiled functions of the template are kept
        target.__dict__ |= template.__dict__ | {
            "parts": (replace(part, statistics=statistics.pack()),),
            "data": Data(rows_of(y), levels),
        }
        chain = FireflyChain(target, ImplicitResampling(), new(2, 2))
        chain.start_at(rng, theta_0)
        chain.advance(rng, 6, 0.0)
        after.append(summary(chain.state.theta, y))
        fresh.append(summary(*simulate()))
    fresh, after = np.array(fresh), np.array(after)
    p_values = [stats.kstest(after[:, d], "norm").pvalue for d in range(2)]
    p_values += [stats.ks_2samp(fresh[:, i], after[:, i]).pvalue for i in (2, 3)]
    assert min(p_values) > LEVEL / len(KERNELS) / len(p_values)
