"""Enumerate the transition matrix of local sweeps on a model of two groups; run by the tests.

``NUMBA_DISABLE_JIT=1 python check_local.py WHAT``: "local-globals" for updates of a global
parameter that effects follow, "local-effects" for those of effects, "local-wide" for those along a
wider distribution, and "local-brightness" for those of z. Each is to keep the distribution given
what it does not move. Prints and exits as `check.py`.

The global parameter is the mean and the log scale of the effects, so that their conditional means
and sds depend on it. It stays on a lattice under a force of zero; standardised effects stay on one
as slices try quarters of an ellipse alone. The normal distribution becomes that on the lattice with
the same ratios.
"""

import functools
import itertools
import os
import sys

os.environ["NUMBA_DISABLE_JIT"] = "1"

import numpy as np
from branching import (
    BranchingGenerator,
    Waiting,
    assert_close,
    end_with_verdict,
    enumerate_branches,
)

from pymc_flymc.bounds import JaakkolaJordan
from pymc_flymc.kernels.brightness import brighten, make_bright_set
from pymc_flymc.kernels.factors import make_scratch
from pymc_flymc.kernels.local import new_groups, new_local_proposals, update_effects, update_globals
from pymc_flymc.kernels.native import Jacobian
from pymc_flymc.kernels.posterior import Posterior, make_chain
from pymc_flymc.kernels.rows import Rows
from pymc_flymc.kernels.sweeps import sweep_groups
from pymc_flymc.target.resampling import ImplicitResampling, Levels, make_plan

N, G = 4, 2
CODES = np.array([0, 1, 0, 1], np.int32)
X = np.array([[1.0], [-0.4], [1.5], [0.3]])
OFFSET = np.array([[0.3], [0.0], [-0.2], [0.1]])
Y = np.array([1.0, 0.0, 0.0, 1.0])
BOUND = JaakkolaJordan(xi=np.array([1.5, 0.2, 3.0, 0.8]))
SLACK = np.array([0.05, 0.3, 0.02, 0.1])
CONSTANTS = BOUND.constants(BOUND.xi, Y, SLACK)
A, B, _ = BOUND.coefficients(BOUND.xi, Y, 0.0)
Q = np.array([0.5, 0.25, 0.125, 0.5])
LEVELS = Levels.by_row(Q).by_group(CODES, G)
CENTRE, STEP = 0.2, 0.7
LATTICE, EFFECTS = (-1, 0, 1), (-1.0, 0.0, 1.0)
WEIGHTS = np.exp(-0.5 * np.array(EFFECTS) ** 2)
#: Those given which theta is updated: with one bright row in each group, and with two in one.
BRIGHT = [(1, 1, 0, 0), (1, 0, 1, 0)]
#: Angles that slices try are this, times integers.
QUARTER = 0.5 * np.pi


class _Angle:
    """A uniform number that is multiplied by the length of a bracket of angles."""

    def __init__(self, generator):
        self.generator = generator

    def __rmul__(self, length):
        first, self.generator.first = self.generator.first, False
        n = round(length / QUARTER)
        # The whole circle to begin with, then what is strictly within a bracket.
        places = range(n) if first else range(1, n)
        return QUARTER * places[self.generator.choose([1.0 / len(places)] * len(places))]

    def __lt__(self, bound):
        return self.generator.flip(min(max(float(bound), 0.0), 1.0))


class Generator(BranchingGenerator):
    first, spread = True, 1.0

    def random(self):
        return _Angle(self)

    def standard_exponential(self):
        return Waiting(self)

    def standard_normal(self):
        self.first = True  # of an ellipse it is the other axis: the next angle is the first
        weights = WEIGHTS**self.spread**-2
        return EFFECTS[self.choose(list(weights / weights.sum()))] / self.spread


class WideGenerator(Generator):
    """Normal numbers times the spread are on the lattice."""

    spread = 2.0


def log_prior(theta):
    b, a = theta[0], theta[1:]
    scale = np.exp(0.5 * b)
    return -0.5 * b**2 + np.sum(-0.5 * ((a - 0.3 * b) / scale) ** 2 - np.log(scale))


def predictors(theta):
    return X[:, 0] * theta[0] + OFFSET[:, 0] + theta[1:][CODES]


def log_bound(eta):
    a, b, c = BOUND.coefficients(BOUND.xi, Y, 0.0)
    return c + b * eta - a * eta**2 - SLACK


@functools.cache
def moments(b):
    """Conditional means and sds of the effects, without bright rows."""
    scale, given = np.exp(0.5 * b), X[:, 0] * b + OFFSET[:, 0]
    precision = scale**-2 + np.bincount(CODES, 2.0 * A)
    return (0.3 * b / scale**2 + np.bincount(CODES, B - 2.0 * A * given)) / precision, (
        precision**-0.5
    )


def conditional(theta, statistics):
    mean, sd = moments(theta[0])
    return np.concatenate([mean, sd, np.ones(G)]), np.sum(np.log(sd)), 0.0, 0.0


def density_gradient(theta, statistics):
    value = log_prior(theta) + np.sum(log_bound(predictors(theta)))
    place = (theta[0] - CENTRE) / STEP
    outside = min(abs(place - x) for x in LATTICE) > 1e-9
    return theta.copy(), np.zeros(1 + G), np.empty(0), -np.inf if outside else value


def vjp(theta, statistics, slope):
    return (np.zeros(1 + G),)


def log_factor(eta, constants, shared, out):
    eta = eta[:, 0]
    gap = constants[:, 0] * eta**2 + constants[:, 1]
    gap -= 0.5 * np.abs(eta) + np.log1p(np.exp(-np.abs(eta)))
    out[:] = np.log(np.expm1(gap))


def log_factor_gradient(eta, constants, shared, out, slopes, slope):
    log_factor(eta, constants, shared, out)
    slopes[:] = 0.0


def theta_of(x, v):
    b = CENTRE + STEP * x
    mean, sd = moments(b)
    return np.array([b, *(mean + sd * np.array(v))])


def distribution(states):
    """p(theta, z) prod_g s_g, for uniform counting in (x, v), from the definition."""
    log_p = []
    for x, v, z in states:
        theta = theta_of(x, v)
        eta = predictors(theta)
        likelihood, bound = np.exp(Y * eta - np.logaddexp(0.0, eta)), np.exp(log_bound(eta))
        assert np.all(bound < likelihood)
        factors = np.where(np.array(z), likelihood - bound, bound)
        log_sds = np.sum(np.log(moments(theta[0])[1]))
        log_p.append(log_prior(theta) + log_sds + np.sum(np.log(factors)))
    p = np.exp(np.array(log_p) - max(log_p))
    return p / p.sum()


def groups_of_rows():
    return new_groups(
        N,
        CONSTANTS.shape[1],
        G,
        plan=make_plan(ImplicitResampling(), N, LEVELS, np.zeros(1, np.int64)),
        moments=conditional,
        vjp=vjp,
        elements=np.array([1, 2]),
        others=np.array([0]),
        column=1,
        q_max=np.array([0.5, 0.5]),
        touching=np.array([0.4, -0.3]),
        sd=np.array([0.5, 0.8]),
        slack=0.7,
    )


def branches(what, x, v, z):
    rows = Rows(X, OFFSET, 0, CONSTANTS, n_sparse=G, codes=CODES[:, None])
    functions = 0, log_factor, density_gradient, vjp, log_factor_gradient
    posterior = Posterior(*functions, Jacobian.of(None), None, rows, None)

    def program(rng):
        chain, bright, groups = make_chain(1 + G, 1 + G, N), make_bright_set(N), groups_of_rows()
        scratch, proposals = make_scratch(1, 2), new_local_proposals(1 + G, G, 1 + G, 0.0, 0.8)
        chain = chain._replace(v=proposals.x, v_new=proposals.x_new)
        proposals.dynamics.step_size.log_step[:] = 0.0
        proposals.centre[0], proposals.factor[0, 0] = CENTRE, STEP
        chain.theta[:] = theta_of(x, v)
        chain.w[:], _, _, chain.log_density[0] = density_gradient(chain.theta, None)
        proposals.moments.ravel()[:], proposals.log_sds[0], *_ = conditional(chain.theta, None)
        odds = np.empty(N)
        log_factor(predictors(chain.theta)[:, None], CONSTANTS, None, odds)
        for n in np.flatnonzero(z)[::-1]:  # not in the order of their groups
            brighten(bright, n, odds[n])
        if what == "local-globals":
            update_globals(rng, posterior, groups, proposals, 1.0, chain, bright, scratch)
        elif what in ("local-effects", "local-wide"):
            spread = rng.spread
            update_effects(rng, posterior, groups, proposals, spread, chain, bright, scratch)
        else:
            sweep_groups(rng, posterior, groups, chain.w, bright, scratch)
        new_z = np.zeros(N, int)
        new_z[bright.index[: bright.count[0]]] = 1
        assert sum(new_z) == bright.count[0] == np.count_nonzero(bright.slot)
        assert all(bright.slot[n] == i + 1 for i, n in enumerate(bright.index[: sum(new_z)]))
        new_x = round((chain.theta[0] - CENTRE) / STEP)
        mean, sd = moments(chain.theta[0])
        new_v = (chain.theta[1:] - mean) / sd
        assert np.all(np.abs(new_v - np.round(new_v)) < 1e-9)
        # What is kept must be that of the state that the chain is in.
        assert_close(chain.log_density[0], density_gradient(chain.theta, None)[-1], 1e-12)
        expected, log_sds, *_ = conditional(chain.theta, None)
        assert_close(proposals.moments.ravel(), expected, 1e-12)
        assert_close(proposals.log_sds, log_sds, 1e-12)
        assert_close(chain.w, chain.theta, 1e-12)
        log_factor(predictors(chain.theta)[:, None], CONSTANTS, None, odds)
        k = bright.count[0]
        assert_close(bright.log_factor[:k], odds[bright.index[:k]], 1e-9)
        return new_x, tuple(np.round(new_v) + 0.0), tuple(int(n) for n in new_z)

    return enumerate_branches(program, WideGenerator if what == "local-wide" else Generator)


def transition_matrix(what):
    all_v, all_z = (list(itertools.product(*each)) for each in (G * [EFFECTS], N * [(0, 1)]))
    states = {
        "local-globals": list(itertools.product(LATTICE, all_v, BRIGHT)),
        "local-effects": list(itertools.product([0], all_v, BRIGHT)),
        # A group without bright rows has a normal number itself.
        "local-wide": list(itertools.product([0], all_v, BRIGHT[:1])),
        "local-brightness": list(itertools.product([1], all_v[1:3], all_z)),
    }[what]
    place = {state: i for i, state in enumerate(states)}
    matrix = np.zeros((len(states), len(states)))
    for i, state in enumerate(states):
        for probability, new in branches(what, *state):
            matrix[i, place[new]] += probability
    return distribution(states), matrix


if __name__ == "__main__":
    end_with_verdict(sys.argv[1], *transition_matrix(sys.argv[1]))
