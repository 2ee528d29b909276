"""Enumerate the transition matrix of the joint kernel under a Taylor bound; run by the tests.

``NUMBA_DISABLE_JIT=1 python check_joint.py MOVE``: as `check`. With "-kept" behind the move the
last row is kept bright: its bound is zero, and no state has it dark. Where another step has moved
theta z is drawn given it, which is invariant, too. Normal variates are on the lattice, with
probabilities in proportion to the normal density: the independence proposal is then in proportion
to exp(-v^2/2), as the kernel assumes.
"""

import itertools
import os
import sys
from functools import partial

os.environ["NUMBA_DISABLE_JIT"] = "1"

import numpy as np
from branching import BranchingGenerator, assert_close, end_with_verdict, enumerate_branches
from logistic import expansion_of, log_likelihood_of

from pymc_flymc.kernels.brightness import make_bright_set
from pymc_flymc.kernels.dark_rates import total_rates
from pymc_flymc.kernels.factors import make_scratch
from pymc_flymc.kernels.fresh_brightness import AliasTables, log_weight_of_z
from pymc_flymc.kernels.geometry import dense_geometry
from pymc_flymc.kernels.joint import REFRESHMENT, log_weight, transition
from pymc_flymc.kernels.metropolis import new_proposal_mixture, pick
from pymc_flymc.kernels.native import Jacobian, call_density
from pymc_flymc.kernels.posterior import Posterior, make_chain
from pymc_flymc.kernels.rows import Rows

N = 3
V = np.array([-1.0, 0.0, 1.0])  # lattice of the standardised parameter
CENTRE, FACTOR = 0.2, 0.8
ANCHOR, METRIC, LIMIT = 0.3, 0.7, 0.9
X = np.array([1.0, -0.4, 2.5])
Y = np.array([1.0, 0.0, 0.0])
KAPPA = np.abs(METRIC * X) ** 3 / 6 / (6 * np.sqrt(3))
KAPPA = np.column_stack([KAPPA, 20.0 * KAPPA])  # a valid bound, and a further rate beyond LIMIT
KEPT = np.array([False, False, sys.argv[1].endswith("-kept")])
KAPPA[KEPT, 0] = np.inf
NUISANCE = -0.7  # what nothing depends on stands between the coefficient and what rows share
#: Weights of the kinds of transitions; none where another step has moved.
MOVES = {"independent": (0.0, 0.0, 1.0), "walk": (1.0, 0.0, 0.0), "joint-moved": None}

log_likelihood = partial(log_likelihood_of, Y)
expansion = partial(expansion_of, X, Y, ANCHOR)


def powers_at(theta):
    """Powers of the radius, and of what it is beyond its limit."""
    radius = abs(theta - ANCHOR) / METRIC
    return np.array([radius**3, max(0.0, radius - LIMIT) ** 3])


def log_bound(theta):
    return expansion(X * theta) - KAPPA @ powers_at(theta)


def density(theta, statistics):
    """Prior and expansions."""
    value = -0.5 * theta[0] ** 2 + np.sum(expansion(X * theta[0]))
    outside = np.min(np.abs(CENTRE + FACTOR * V - theta[0])) > 1e-9
    return np.array([theta[0], NUISANCE]), -np.inf if outside else value, *powers_at(theta[0])


def log_factor(eta, constants, shared, out):
    """Log of L - B over the expansion."""
    theta = eta[:, 0] / constants[:, 2]
    for i, t in enumerate(theta):
        n = int(np.argmin(np.abs(X - constants[i, 2])))
        gap = (log_likelihood(X * t) - log_bound(t))[n]
        assert gap > 0
        if KEPT[n]:
            out[i] = (log_likelihood(X * t) - expansion(X * t))[n]
        else:
            out[i] = np.log(np.expm1(gap)) - (KAPPA @ powers_at(t))[n]


class Generator(BranchingGenerator):
    """Normals on the lattice: in proportion to their density, or steps of one for a walk."""

    walk = False

    def standard_normal(self):
        if self.walk:
            return super().standard_normal()
        weights = np.exp(-0.5 * V**2)
        return V[self.choose(list(weights / weights.sum()))]

    def poisson(self, rate):
        assert rate == 0.0  # all rows are visited one by one
        return 0


def distribution(states):
    log_p = []
    for v, z in states:
        theta = CENTRE + FACTOR * v
        bound, likelihood = np.exp(log_bound(theta)), np.exp(log_likelihood(X * theta))
        assert np.all(bound < likelihood)
        factors = np.where(np.array(z), likelihood - bound, bound)
        log_p.append(-0.5 * theta**2 + np.sum(np.log(factors)))
    p = np.exp(np.array(log_p) - max(log_p))
    return p / p.sum()


def weight_of(rows, chain, bright):
    of_z = log_weight_of_z(rows, chain.w, bright.index, bright.log_factor, bright.count[0])
    return log_weight(chain.log_density[0], chain.v, of_z)


def rows_of(kappa):
    rows = Rows(X[:, None], np.empty((0, 1)), 0, np.column_stack([kappa, X, Y]), n_nuisances=1)
    return rows._replace(totals=total_rates(rows, 2))


def branches(weights, v, z):
    rows = rows_of(KAPPA)
    geometry = dense_geometry(np.array([CENTRE]), np.array([[FACTOR]]))
    posterior = Posterior(density, log_factor, 0, 0, 0, Jacobian.of(None), None, rows, geometry)
    heavy = np.arange(N, dtype=np.int32)
    nothing, nobody = np.ones(N), np.zeros(N, np.int32)
    tables = AliasTables(
        heavy, np.zeros(2), nothing, nobody, nothing, nobody, np.empty(2 * N, np.int32)
    )

    def program(rng):
        chain, bright, scratch = make_chain(1, 4, N), make_bright_set(N), make_scratch(1, 4)
        chain.v[0], chain.theta[0] = v, CENTRE + FACTOR * v
        chain.log_density[0] = call_density(density, chain.theta, None, chain.w)
        members = [n for n in range(N) if z[n]]
        k = bright.count[0] = len(members)
        bright.index[:k] = members
        eta = X[members, None] * chain.theta[0]
        log_factor(eta, rows.constants[members], None, bright.log_factor[:k])
        chain.log_weight[0] = weight_of(rows, chain, bright)
        if weights is None:
            kind, bright.count[0], chain.log_weight[0] = REFRESHMENT, 0, -np.inf
        proposals = new_proposal_mixture(1, np.array(weights or MOVES["walk"]))
        proposals.log_scale[:] = 0.0
        if weights is not None:
            kind = pick(rng, proposals.weight)
        transition(rng, kind, weights is None, posterior, tables, proposals, chain, bright, scratch)
        new_z = [0] * N
        for i in range(bright.count[0]):
            new_z[bright.index[i]] = 1
        place = int(np.argmin(np.abs(V - chain.v[0])))
        assert_close(chain.log_weight[0], weight_of(rows, chain, bright), 1e-12)
        return V[place], tuple(new_z)

    return enumerate_branches(program, Generator)


def verdict(name, states, pi, branches_of):
    """Exit with 1 unless the kernel of these branches leaves the distribution pi invariant."""
    place = {state: i for i, state in enumerate(states)}
    matrix = np.zeros((len(states), len(states)))
    for i, (v, z) in enumerate(states):
        for probability, state in branches_of(v, z):
            matrix[i, place[state]] += probability
    end_with_verdict(name, pi, matrix)


if __name__ == "__main__":
    move = sys.argv[1].removesuffix("-kept")
    weights = MOVES[move]
    Generator.walk = move == "walk"
    brightness = [z for z in itertools.product((0, 1), repeat=N) if all(np.array(z)[KEPT])]
    states = list(itertools.product(V, brightness))
    verdict(sys.argv[1], states, distribution(states), lambda v, z: branches(weights, v, z))
