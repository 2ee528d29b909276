"""Enumerate the transition matrix over (theta, z) of a small logistic model; run by the tests.

``NUMBA_DISABLE_JIT=1 python check.py SCHEME`` prints the largest violation of pi P = pi, the
largest deviation of a row sum from one, and exits with 1 if either is beyond rounding.
"""

import itertools
import os
import sys

os.environ["NUMBA_DISABLE_JIT"] = "1"

import numpy as np
from branching import (
    BranchingGenerator,
    assert_close,
    enumerate_branches,
    gets_everywhere,
)

from pymc_flymc.bounds import JaakkolaJordan
from pymc_flymc.kernels.brightness import brighten, make_bright_set
from pymc_flymc.kernels.factors import make_scratch
from pymc_flymc.kernels.geometry import dense_geometry
from pymc_flymc.kernels.metropolis import PCN, RANDOM_WALK, new_proposal_mixture, update_theta
from pymc_flymc.kernels.native import Jacobian, call_density
from pymc_flymc.kernels.posterior import Posterior, make_chain
from pymc_flymc.kernels.rows import Rows, SeveralRows
from pymc_flymc.kernels.sweeps import sweep
from pymc_flymc.target.resampling import ExplicitResampling, ImplicitResampling, Levels, make_plan

N = 3
LATTICE = np.array([-0.7, 0.1, 0.9])  # equally spaced
X = np.array([[1.0], [-0.4], [2.5]])
OFFSET = np.array([0.3, 0.0, -0.2])
Y = np.array([1.0, 0.0, 0.0])
BOUND = JaakkolaJordan(xi=np.array([1.5, 0.2, 3.0]))
SLACK = np.array([0.05, 0.3, 0.0])
CONSTANTS = BOUND.constants(BOUND.xi, Y, SLACK)
#: Of the second likelihood's coefficient, minus one if there are two; see `all_rows`.
SIGN = 1.0 if "two" not in sys.argv[-1] else -1.0

SCHEMES = {
    "implicit-by-row": ImplicitResampling(),
    "implicit-single-q": ImplicitResampling(q=0.3),
    "with-replacement": ExplicitResampling(fraction=2 / 3, scheme="with_replacement"),
    "without-replacement": ExplicitResampling(fraction=2 / 3, scheme="without_replacement"),
    "full-sweep": ExplicitResampling(fraction=1.0, scheme="without_replacement"),
    "cycle": ExplicitResampling(fraction=2 / 3, scheme="cycle"),
    "two-likelihoods": ImplicitResampling(),
    "two-likelihoods-cycle": ExplicitResampling(fraction=2 / 3, scheme="cycle"),
    "pcn": ImplicitResampling(),
}
#: Proposals of theta, and where standardised coordinates are.
KIND = PCN if sys.argv[-1] == "pcn" else RANDOM_WALK
V = np.array([-1.0, 0.0, 1.0])


def log_likelihood(eta):
    return Y * eta - np.logaddexp(0.0, eta)


def log_bound(eta):
    a, b, c = BOUND.coefficients(BOUND.xi, Y, 0.0)
    return c + b * eta - a * eta**2 - SLACK


def log_prior(theta):
    return -0.5 * theta**2


def density(theta, statistics):
    """Prior and bounds of all rows; -inf off the lattice, which makes the state space finite."""
    value = log_prior(theta[0]) + np.sum(log_bound(X[:, 0] * theta[0] + OFFSET))
    outside = np.min(np.abs(LATTICE - theta[0])) > 1e-9
    return theta[:1], -np.inf if outside else value, SIGN * theta[0], 0.0


class Generator(BranchingGenerator):
    """Normals on the lattice, in proportion to their density: for pCN that forgets where it is."""

    def standard_normal(self):
        weights = np.exp(-0.5 * V**2)
        return V[self.choose(list(weights / weights.sum()))]


def log_factor_turned(eta, constants, shared, out):
    """Log factors of the second likelihood, whose constants are in another order."""
    log_factor(eta, constants[:, ::-1], shared, out)


def all_rows():
    """The rows of one likelihood, and its factor; or the same rows as those of two."""
    if SIGN == 1.0:
        return Rows(X, OFFSET[:, None], 0, CONSTANTS), log_factor
    first = Rows(X[:1], OFFSET[:1, None], 0, CONSTANTS[:1])
    second = Rows(SIGN * X[1:], OFFSET[1:, None], 0, CONSTANTS[1:, ::-1], first=1)
    return SeveralRows((first, second), np.array([0, 1, 2])), (log_factor, log_factor_turned)


def log_factor(eta, constants, shared, out):
    eta = eta[:, 0]
    gap = constants[:, 0] * eta**2 + constants[:, 1]
    gap -= 0.5 * np.abs(eta) + np.log1p(np.exp(-np.abs(eta)))
    out[:] = np.log(np.expm1(gap))


def augmented_distribution(states):
    """p(theta, z | data) from the definition: prod (L - B)^z B^(1 - z)."""
    log_p = []
    for theta, z in states:
        eta = X[:, 0] * theta + OFFSET
        likelihood, bound = np.exp(log_likelihood(eta)), np.exp(log_bound(eta))
        assert np.all(bound < likelihood)
        factors = np.where(np.array(z), likelihood - bound, bound)
        log_p.append(log_prior(theta) + np.sum(np.log(factors)))
    p = np.exp(np.array(log_p) - max(log_p))
    return p / p.sum()


def transition(scheme, theta, z, cursor):
    """Branches of one (theta, z) transition from a state: probability, new state."""
    levels = None
    if isinstance(scheme, ImplicitResampling):
        q = np.array([0.25, 0.5, 1.0])
        levels = Levels.by_row(q) if scheme.q is None else Levels.single(scheme.q, N)
    rows, factors = all_rows()
    step = LATTICE[1] - LATTICE[0]

    def program(rng):
        plan = make_plan(scheme, N, levels, np.array([cursor]))
        geometry = dense_geometry(np.array([LATTICE[1]]), np.array([[step]]))
        posterior = Posterior(density, factors, 0, 0, 0, Jacobian.of(None), None, rows, geometry)
        n_likelihoods = 1 if factors is log_factor else 2
        chain, bright = make_chain(1, n_likelihoods, N), make_bright_set(N)
        scratch = make_scratch(1, 2)
        chain.v[0] = (theta - LATTICE[1]) / step
        chain.theta[0] = theta
        chain.log_density[0] = call_density(density, chain.theta, None, chain.w)
        odds = np.empty(N)
        log_factor(X * theta + OFFSET[:, None], CONSTANTS, None, odds)
        for n in range(N):
            if z[n]:
                brighten(bright, n, odds[n])
        proposals = new_proposal_mixture(1, np.array([1.0, 0.0, 0.0]))
        proposals.log_scale[:] = 0.0
        update_theta(rng, KIND, posterior, proposals, chain, bright, scratch)
        sweep(rng, plan, rows, factors, chain.w, bright, scratch)
        new_z = [0] * N
        for i in range(bright.count[0]):
            new_z[bright.index[i]] = 1
            assert bright.slot[bright.index[i]] == i + 1
        assert sum(new_z) == bright.count[0] == np.count_nonzero(bright.slot)
        new_theta = LATTICE[np.argmin(np.abs(LATTICE - chain.theta[0]))]
        # The cached density and odds must be those of the state that the chain is in.
        assert_close(chain.log_density[0], call_density(density, chain.theta, None, chain.w), 1e-12)
        log_factor(X * new_theta + OFFSET[:, None], CONSTANTS, None, odds)
        k = bright.count[0]
        assert_close(bright.log_factor[:k], odds[bright.index[:k]], 1e-9)
        return new_theta, tuple(new_z)

    return enumerate_branches(program, Generator if KIND == PCN else BranchingGenerator)


def violations(scheme, cursor=0):
    """Largest |pi P - pi| and largest |sum of a row - 1|."""
    states = list(itertools.product(LATTICE, itertools.product((0, 1), repeat=N)))
    place = {state: i for i, state in enumerate(states)}
    matrix = np.zeros((len(states), len(states)))
    for i, (theta, z) in enumerate(states):
        for probability, state in transition(scheme, theta, z, cursor):
            matrix[i, place[state]] += probability
    pi = augmented_distribution(states)
    return np.max(np.abs(pi @ matrix - pi)), np.max(np.abs(matrix.sum(axis=1) - 1.0)), matrix


if __name__ == "__main__":
    scheme = SCHEMES[sys.argv[1]]
    for cursor in (0, 2) if "cycle" in sys.argv[1] else (0,):
        invariance, row_sums, matrix = violations(scheme, cursor)
        moved = 1.0 - np.mean(np.diag(matrix))
        print(f"{sys.argv[1]}: |pi P - pi| = {invariance:.1e}, |P 1 - 1| = {row_sums:.1e}")
        assert moved > 0.1, "the kernel hardly moves: nothing is tested"
        # (A cycle gets to all rows in several sweeps, each of which has a matrix of its own.)
        assert "cycle" in sys.argv[1] or gets_everywhere(matrix), "some rows are never visited"
        if max(invariance, row_sums) > 1e-12:
            sys.exit(1)
