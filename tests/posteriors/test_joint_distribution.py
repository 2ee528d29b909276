"""Transitions keep the joint distribution of parameters and data."""

import functools
import itertools
from dataclasses import replace

import numpy as np
import pytensor.tensor as pt
import pytest

from pymc_flymc import JaakkolaJordan
from pymc_flymc.bounds import row_factor
from pymc_flymc.graphs.compilation import compile_log_factor
from pymc_flymc.kernels.geometry import dense_geometry
from pymc_flymc.kernels.metropolis import new_proposal_mixture
from pymc_flymc.kernels.native import read_only
from pymc_flymc.kernels.rows import Rows
from pymc_flymc.likelihoods import BernoulliLogit
from pymc_flymc.reading.flat import DensityGraph
from pymc_flymc.regression.expansion import QuadraticStatistics, quadratic_size
from pymc_flymc.sampling.adaptation import spec_of
from pymc_flymc.sampling.chain import FireflyChain
from pymc_flymc.target.data import Data
from pymc_flymc.target.resampling import Levels
from pymc_flymc.target.target import Target, TargetPart
from tests.support.data import dense_rows
from tests.support.joint_distribution import joint_p_values
from tests.support.native import KERNELS
from tests.support.steps import SCHEMES

N_SIMULATIONS = 5000
N_ROWS = 8
LEVEL = 1e-5
X = np.column_stack([np.ones(N_ROWS), np.linspace(-2.0, 2.5, N_ROWS)])
XI = np.linspace(0.0, 3.0, N_ROWS)
SLACK = np.linspace(0.0, 0.5, N_ROWS)
WEIGHTS = {"random_walk": np.array([1.0, 0.0, 0.0]), "pcn": np.array([0.0, 1.0, 0.0])}
CASES = [*itertools.product(WEIGHTS, SCHEMES), *((kernel, "implicit-by-row") for kernel in KERNELS)]
#: A scheme does the same for all proposals: the quick suite has each with one of them.
#: MALA is a trajectory of one step, as the kernel of HMC makes it.
SELDOM = [("pcn", scheme) for scheme in SCHEMES if scheme != "implicit-single-q"]
SELDOM += [("mala", "implicit-by-row"), ("slice-random", "implicit-by-row")]
SELDOM += [
    ("random_walk", scheme)
    for scheme in (
        "implicit-by-row",
        "implicit-single-q",
        "with-replacement",
        "without-replacement",
    )
]


@functools.cache
def template(kernel):
    """Target of a kernel: prior N(0, I), one graph and one compilation for all data sets."""
    theta = pt.vector("theta", shape=(2,), dtype="float64")
    others = pt.vector("others", shape=(0,), dtype="float64")
    graph = DensityGraph(theta, others, -0.5 * pt.sum(theta**2), (theta,), (2,))
    bound, likelihood = JaakkolaJordan(xi=XI), BernoulliLogit()
    factor = compile_log_factor(row_factor(likelihood, bound))
    part = TargetPart(likelihood, bound, np.zeros(quadratic_size(None, 2)), N_ROWS, factor)
    geometry = dense_geometry(np.array([0.3, -0.2]), np.array([[0.8, 0.0], [0.3, 0.6]]))
    data = Data(Rows(X, np.empty((0, 1)), 0, np.zeros((N_ROWS, 2))), None)
    return Target(graph, (part,), 0, geometry, data, spec_of(kernel))


def target_of(y, kernel, scheme, tilt):
    """Target given a data set."""
    model = template(kernel)
    (part,) = model.parts
    statistics = QuadraticStatistics(np.array([0.1, 0.2]))
    a, b, c = part.bound.coefficients(XI, y, 0.0)
    statistics.add(dense_rows(X), X @ statistics.centre, a * (1.0 + tilt), b, c - SLACK)
    constants = read_only(part.bound.constants(XI, y, SLACK))
    rows = Rows(read_only(X), read_only(np.empty((0, 1))), 0, constants)
    q = getattr(scheme, "q", None)
    by_row = Levels.by_row(np.linspace(0.05, 0.9, N_ROWS))
    target = object.__new__(Target)  # the compiled functions of the template are kept
    target.__dict__ |= model.__dict__ | {
        "parts": (replace(part, statistics=statistics.pack()),),
        "data": Data(rows, by_row if q is None else Levels.single(q, N_ROWS)),
    }
    return target


def moves_of(name):
    """Kernel, its settings, and a number of transitions."""
    if name in KERNELS:
        kernel, new = KERNELS[name]
        return kernel, new(2, 2), 6
    moves = new_proposal_mixture(2, WEIGHTS[name])
    moves.log_scale[:] = np.log([1.5, 0.8])
    return "metropolis", moves, 12


def p_values_of(name, scheme, tilt=0.0):
    kernel, moves, transitions = moves_of(name)

    @functools.cache
    def target(y):
        """One for each of the few data sets that there are."""
        return target_of(np.frombuffer(y), kernel, scheme, tilt)

    def chain_of(y):
        return FireflyChain(target(y.tobytes()), scheme, moves)

    return joint_p_values(X, chain_of, transitions, N_SIMULATIONS)


@pytest.mark.parametrize(
    ("moves", "scheme"),
    [pytest.param(*each, marks=pytest.mark.slow if each in SELDOM else ()) for each in CASES],
)
@pytest.mark.slow_cases("random_walk-cycle", "pcn-implicit-single-q")
def test_joint_distribution_is_kept(moves, scheme):
    p_values = p_values_of(moves, SCHEMES[scheme])
    assert min(p_values) > LEVEL / len(CASES) / len(p_values)


def test_joint_test_has_power():
    """Statistics whose curvature is 20 % off are found out: the level above leaves power."""
    p_values = p_values_of("random_walk", SCHEMES["implicit-by-row"], tilt=0.2)
    assert min(p_values) < LEVEL / len(CASES) / len(p_values)
