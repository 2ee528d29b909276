"""Enumerate the transition matrix of the surrogate kernel; run by the tests.

``NUMBA_DISABLE_JIT=1 python check_surrogate.py MOVE``: as `check_joint`, whose model this is; row
EXACT is treated exactly. The force is zero, under which a trajectory of momentum plus or minus one
stays on the lattice: it is reversible for whatever force, as long as it is a function of the place.
"""

import itertools
import sys

import check_joint as joint  # (the first of all: it turns the compiler off)
import numpy as np
from branching import BranchingGenerator, assert_close, enumerate_branches

from pymc_flymc.kernels.brightness import make_bright_set
from pymc_flymc.kernels.factors import make_scratch
from pymc_flymc.kernels.fresh_brightness import AliasTables, log_weight_of_z
from pymc_flymc.kernels.geometry import dense_geometry
from pymc_flymc.kernels.native import Jacobian
from pymc_flymc.kernels.posterior import Posterior, make_chain
from pymc_flymc.kernels.surrogate import Surrogate, new_surrogate_proposals, transition

EXACT = 2
KAPPA = np.where(np.arange(joint.N)[:, None] == EXACT, 0.0, joint.KAPPA)
#: Trajectories in a proposal, by move; none in a walk.
MOVES = {"surrogate": 1, "surrogate-twice": 2, "surrogate-walk": 0, "surrogate-moved": 0}


def log_surrogate(theta):
    """Log of the surrogate: prior, and expansions of all rows but one, by hand."""
    terms = joint.expansion(joint.X * theta)
    terms[EXACT] = joint.log_likelihood(joint.X * theta)[EXACT]
    return -0.5 * theta**2 + terms.sum()


def density_gradient(theta, statistics):
    value = -0.5 * theta[0] ** 2 + joint.expansion(joint.X * theta[0]).sum()
    outside = np.min(np.abs(joint.CENTRE + joint.FACTOR * joint.V - theta[0])) > 1e-9
    w = np.array([theta[0], joint.NUISANCE, *joint.powers_at(theta[0])])
    return w, np.zeros(1), np.empty(0), -np.inf if outside else value


def remainder_gradient(eta, constants, shared, out, slopes, slope):
    theta = eta[0, 0] / joint.X[EXACT]
    remainder = joint.log_likelihood(joint.X * theta) - joint.expansion(joint.X * theta)
    out[0], slopes[:] = remainder[EXACT], 0.0


def vjp(theta, statistics, slope):
    assert not slope.any()
    return (np.zeros(1),)


def distribution(states):
    log_p = []
    for v, z in states:
        theta = joint.CENTRE + joint.FACTOR * v
        likelihood = np.exp(joint.log_likelihood(joint.X * theta))
        bound = np.exp(joint.log_bound(theta))
        factors = np.where(np.array(z), likelihood - bound, bound)
        factors[EXACT] = likelihood[EXACT] if not z[EXACT] else 0.0
        log_p.append(-0.5 * theta**2 + np.sum(np.log(factors)))
    p = np.exp(np.array(log_p) - max(log_p))
    return p / p.sum()


def branches(move, v, z):
    repeats, moved = MOVES[move], move.endswith("moved")
    rows = joint.rows_of(KAPPA)
    exact = rows._replace(X=joint.X[[EXACT], None], constants=rows.constants[[EXACT]])
    geometry = dense_geometry(np.array([joint.CENTRE]), np.array([[joint.FACTOR]]))
    functions = 0, joint.log_factor, density_gradient, vjp, None
    posterior = Posterior(*functions, Jacobian.of(None), None, rows, geometry)
    heavy = np.array([n for n in range(joint.N) if n != EXACT], dtype=np.int32)
    nothing, nobody = np.ones(joint.N), np.zeros(joint.N, np.int32)
    drawn = np.empty(2 * joint.N, np.int32)
    tables = AliasTables(heavy, np.zeros(2), nothing, nobody, nothing, nobody, drawn)
    one = np.zeros(1, np.int32)
    surrogate = Surrogate(tables, exact, one, remainder_gradient, make_chain(1, 4, 1))

    def program(rng):
        chain, bright = make_chain(1, 4, joint.N), make_bright_set(joint.N)
        scratch = make_scratch(1, 4)
        chain.v[0], chain.theta[0] = v, joint.CENTRE + joint.FACTOR * v
        chain.w[:] = [chain.theta[0], joint.NUISANCE, *joint.powers_at(chain.theta[0])]
        chain.log_density[0] = log_surrogate(chain.theta[0])
        members = [n for n in range(joint.N) if z[n]]
        k = bright.count[0] = len(members)
        bright.index[:k] = members
        eta = joint.X[members, None] * chain.theta[0]
        joint.log_factor(eta, rows.constants[members], None, bright.log_factor[:k])
        weight = log_weight_of_z(rows, chain.w, bright.index, bright.log_factor, k)
        chain.log_weight[0] = weight
        proposals = new_surrogate_proposals(1, 4, 0.0, 0.8)
        proposals.log_scale[:] = proposals.dynamics.step_size.log_step[:] = 0.0
        if moved:
            bright.count[0], chain.log_weight[0] = 0, -np.inf
        arguments = posterior, surrogate, proposals, chain, bright, scratch
        transition(rng, repeats == 0 and not moved, repeats, moved, *arguments)
        k, theta = bright.count[0], chain.theta[0]
        w = np.array([theta, joint.NUISANCE, *joint.powers_at(theta)])
        weight = log_weight_of_z(rows, w, bright.index, bright.log_factor, k)
        assert_close(chain.log_weight[0], weight, 1e-12)
        assert_close(chain.log_density[0], log_surrogate(theta), 1e-12)
        new_z = [0] * joint.N
        for i in range(k):
            new_z[bright.index[i]] = 1
        return joint.V[int(np.argmin(np.abs(joint.V - chain.v[0])))], tuple(new_z)

    return enumerate_branches(program, Generator)


class Generator(BranchingGenerator):
    """As that of joint moves; its normals are those of a lattice walk."""

    poisson = joint.Generator.poisson


if __name__ == "__main__":
    dark = (0,)  # whoever is exact is never bright
    members = [(0, 1) if n != EXACT else dark for n in range(joint.N)]
    states = list(itertools.product(joint.V, itertools.product(*members)))
    joint.verdict(
        sys.argv[1], states, distribution(states), lambda v, z: branches(sys.argv[1], v, z)
    )
