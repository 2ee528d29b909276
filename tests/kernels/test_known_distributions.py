"""Kernels on densities whose distributions are known, and on what cannot be evaluated."""

import functools

import numpy as np
import pytensor.tensor as pt
import pytest

from pymc_flymc import ImplicitResampling
from pymc_flymc.bounds import AllRows, row_factor
from pymc_flymc.graphs.compilation import compile_log_factor
from pymc_flymc.kernels.geometry import dense_geometry
from pymc_flymc.kernels.metropolis import new_proposal_mixture
from pymc_flymc.kernels.native import read_only
from pymc_flymc.kernels.rows import Rows
from pymc_flymc.kernels.trajectory import MAX_STEPS, new_dynamics
from pymc_flymc.likelihoods import BernoulliLogit
from pymc_flymc.reading.flat import DensityGraph
from pymc_flymc.sampling.adaptation import spec_of
from pymc_flymc.sampling.chain import FireflyChain
from pymc_flymc.target.data import Data
from pymc_flymc.target.target import Target, TargetPart
from tests.support.comparison import assert_matches, quadrature
from tests.support.native import KERNELS

# --- known distributions --------------------------------------------------------------------------


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
    return Target(graph, (part,), 0, geometry, data, spec_of(kernel))


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


# The funnel is the harder one, and MALA is the kernel of HMC with one step.
@pytest.mark.parametrize("log_density", [pytest.param(gaussian, marks=pytest.mark.slow), funnel])
@pytest.mark.parametrize(
    "kernel", [pytest.param(k, marks=pytest.mark.slow if k == "mala" else ()) for k in KERNELS]
)
@pytest.mark.slow_cases("hmc-funnel")
def test_known_distributions(kernel, log_density):
    kind, new = KERNELS[kernel]
    # Coordinates that are off: what they standardise is another distribution.
    geometry = dense_geometry(np.array([0.3, -0.2]), np.array([[0.8, 0.0], [-0.4, 1.1]]))
    target = target_of(log_density, 2, kind, geometry)
    moves = new(2, 2)
    if kind == "hamiltonian":
        moves.step_size.log_step[:] = np.log(0.4 if log_density is funnel else 0.7)
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


def test_a_normal_distribution_is_followed_exactly():
    """In coordinates that standardise it no energy is lost, whatever the size of the steps."""
    covariance = np.array([[1.0, 1.6], [1.6, 4.0]])
    geometry = dense_geometry(np.zeros(2), np.linalg.cholesky(covariance))
    target, rng = target_of(gaussian, 2, "hamiltonian", geometry), np.random.default_rng(14)
    for step in (0.1, 1.2, 3.0):
        chain = FireflyChain(target, ImplicitResampling(), new_dynamics(2, 2, 3.0, 0.8))
        chain.kernel_parameters.step_size.log_step[:] = np.log(step)
        chain.start_at(rng, np.ones(2))
        assert chain.advance(rng, 100, 0.0) == pytest.approx(1.0, abs=1e-12)
        # A trajectory has the length that was drawn, between half the largest and that.
        steps = chain.kernel_parameters.n_steps[0] / 100
        assert np.ceil(1.5 / step) <= steps <= np.ceil(3.0 / step)


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
    walks = "metropolis", lambda d, p: new_proposal_mixture(d, np.array([0.5, 0.5, 0.0]))
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
    chain.kernel_parameters.step_size.log_step[:] = -1000.0
    rng = np.random.default_rng(13)
    chain.start_at(rng, np.ones(2))
    assert chain.advance(rng, 1, 0.0) == pytest.approx(1.0)
    assert chain.kernel_parameters.n_steps[0] == MAX_STEPS
