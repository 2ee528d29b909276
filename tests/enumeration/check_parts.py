"""Enumerate transitions under a Taylor bound with a radius for each part; run by the tests.

``NUMBA_DISABLE_JIT=1 python check_parts.py parts``: a Poisson regression with one dense column and
two effects, of which a row may touch both, or one of them twice. On the lattice of theta no part is
beyond its limit, or some are. Constants and statistics are the bound's own, the distribution is the
definition's. For "parts-kept" the last row is kept bright: its bound is zero, and no state has it
dark. For "parts-shifts" the effects are those of two factors, which a common shift leaves alone.
With "-adjusted" the dense part stays, and brightness changes together with theta; with
"-dense-adjusted" it does not, so that brightness must stay. Prints and exits as `check.py`.
"""

import functools
import itertools
import os
import sys

os.environ["NUMBA_DISABLE_JIT"] = "1"

from types import SimpleNamespace

import numpy as np
from branching import BranchingGenerator, Waiting, assert_close, enumerate_branches
from scipy.sparse import csr_array

from pymc_flymc.anchor.anchor import AnchorPart
from pymc_flymc.bounds import taylor_parts
from pymc_flymc.bounds.taylor_parts import TaylorInParts
from pymc_flymc.kernels.adjusted_brightness import adjusted_update, rows_of_columns
from pymc_flymc.kernels.brightness import brighten, make_bright_set
from pymc_flymc.kernels.collapsed import radius_powers
from pymc_flymc.kernels.dark_rates import take_dark
from pymc_flymc.kernels.factors import make_scratch
from pymc_flymc.kernels.geometry import dense_geometry
from pymc_flymc.kernels.layout import HEADER
from pymc_flymc.kernels.metropolis import RANDOM_WALK, new_proposal_mixture, update_theta
from pymc_flymc.kernels.native import Jacobian, call_density
from pymc_flymc.kernels.posterior import Posterior, make_chain
from pymc_flymc.kernels.sweeps import sweep
from pymc_flymc.likelihoods import PoissonLog
from pymc_flymc.regression.design import Design, SparseColumns, stack
from pymc_flymc.regression.expansion import LikelihoodExpansion
from pymc_flymc.regression.matrices import SymmetricMatrix
from pymc_flymc.target.data import make_rows
from pymc_flymc.target.resampling import ImplicitResampling, Levels, make_plan

# Limits near the anchor, where neither bounds nor rows beyond them are all but zero.
taylor_parts.EFFECT_LIMIT = 0.7
taylor_parts.DENSE_QUANTILE, taylor_parts.DENSE_WIDTH = 0.3, 1.0
SHIFTS, ADJUSTED = "-shifts" in sys.argv[1], sys.argv[1].endswith("-adjusted")
N, Q = 3, 4 if SHIFTS else 2
LATTICE = np.array([-0.7, 0.1, 0.9])  # equally spaced
STEP = LATTICE[1] - LATTICE[0]
DIRECTION, SHIFT = np.array([0.3, 0.2, -0.35]), np.array([-0.05, 0.1, 0.1])
if SHIFTS:
    DIRECTION, SHIFT = (
        np.array([0.3, 0.25, -0.1, 0.2, 0.35]),
        np.array([-0.05, 0.25, 0.25, -0.25, -0.27]),
    )
if ADJUSTED and "-dense" not in sys.argv[1]:
    DIRECTION[0] = 0.0
X = np.array([[1.0], [1.5], [0.3]])
OFFSET = np.array([[2.8], [2.3], [2.6]])
Y = np.array([14.0, 16.0, 12.0])
# Row 0 has no effect, row 1 has both, and row 2 has one twice.
SPARSE = csr_array(
    (np.array([1.0, -0.8, 1.0, -0.4]), np.array([0, 1, 0, 0]), [0, 0, 2, 4]), shape=(N, Q)
)
# The same as kernels see it: a code with a number in each row, and what is left.
OTHERS = csr_array((np.array([-0.8, -0.4]), np.array([1, 0]), [0, 0, 1, 2]), shape=(N, Q))
COLUMNS = SparseColumns.of_matrix(OTHERS) + SparseColumns.of_codes(
    np.zeros((N, 1)), np.array([[0.0], [1.0], [1.0]]), Q
)
if SHIFTS:
    FACTORS = [SparseColumns.of_codes(np.array([c]).T, None, 2) for c in ([0, 0, 1], [0, 1, 0])]
    COLUMNS = stack(FACTORS)
    SPARSE = COLUMNS.csr()
ROWS = np.column_stack([X, SPARSE.toarray()])
ANCHOR = np.array([0.1, -0.05, 0.02, 0.03, -0.02])[: 1 + Q]
SDS = np.full(1 + Q, 0.2)


def log_likelihood(eta):
    return Y * eta - np.exp(eta)


def coefficients(theta):
    return ANCHOR + SHIFT + DIRECTION * theta


def prepared():
    """Return the bound's statistics, behind the expansion, its constants, and the expansion."""
    eta = ROWS @ ANCHOR + OFFSET[:, 0]
    information = (ROWS * np.exp(eta)[:, None]).T @ ROWS
    gradient = (Y - np.exp(eta)) @ ROWS
    expansion = LikelihoodExpansion(
        float(np.sum(log_likelihood(eta))), gradient, SymmetricMatrix(information), ANCHOR
    )
    design = Design(X, OFFSET, False, 0, COLUMNS)
    problem = SimpleNamespace(
        design=design,
        y=Y,
        likelihood=PoissonLog(),
        own=AnchorPart(np.diag(SDS), expansion),
    )
    found = TaylorInParts(Q).prepare(problem, None)
    return found.statistics[len(expansion.pack()) :], found.constants, expansion


PACKED, CONSTANTS, EXPANSION = prepared()
# One after the other: the header, two matrices, and vectors of the effects.
LIMIT, SCALE, GROWTH = PACKED[1:4]
METRIC, WITHIN = PACKED[len(HEADER)], PACKED[len(HEADER) + 1 :][:Q]
LIMITS, SCALES, GROWTHS = PACKED[len(HEADER) + 1 + Q :][: 3 * Q].reshape(3, Q)
KEPT = np.array([False, False, "-kept" in sys.argv[1]])


def numbers(u):
    """Effects' distances from the anchor, without what a common shift adds to one factor's."""
    s = u[1:] + WITHIN * u[0]
    if SHIFTS:
        mean = np.average(s[:2], weights=np.diag(EXPANSION.information.array)[1:3])
        s += mean * np.array([-1.0, -1.0, 1.0, 1.0])
    return np.abs(s)


def beyond(x, limit, growth):
    """Power of a part's number beyond its limit."""
    past = np.maximum(0.0, x - limit)
    return past**3 * np.exp(growth * past) / limit**2


def remainders_of(theta):
    """Bounds of all rows' remainders, from the constants, as the definition of the bound says."""
    u = coefficients(theta) - ANCHOR
    radius, s = abs(METRIC * u[0]), numbers(u)
    near, far, half_width = CONSTANTS[:, :3].T
    out = near * half_width * radius**3 * SCALE + far * half_width * beyond(radius, LIMIT, GROWTH)
    for n in range(N):
        for k in range(SPARSE.indptr[n], SPARSE.indptr[n + 1]):
            j, size = SPARSE.indices[k], abs(SPARSE.data[k])
            out[n] += near[n] * size * s[j] ** 3 * SCALES[j]
            out[n] += far[n] * size * beyond(s[j], LIMITS[j], GROWTHS[j])
    return out, np.array([radius > LIMIT, *(s > LIMITS)])


def expansions_of(theta):
    at = ROWS @ ANCHOR + OFFSET[:, 0]
    u = ROWS @ (coefficients(theta) - ANCHOR)
    return log_likelihood(at) + (Y - np.exp(at)) * u - 0.5 * np.exp(at) * u**2


def log_bound(theta):
    return expansions_of(theta) - remainders_of(theta)[0]


def log_prior(theta):
    return -0.5 * theta**2


def density(theta, statistics):
    """Prior and expansions, with what rows share; -inf off the lattice."""
    u, shared = coefficients(theta[0]) - ANCHOR, np.empty(2 + 2 * Q)
    radius_powers(u, PACKED, shared)
    expansion = EXPANSION.value + EXPANSION.gradient @ u - 0.5 * u @ EXPANSION.information.array @ u
    value = log_prior(theta[0]) + expansion
    outside = np.min(np.abs(LATTICE - theta[0])) > 1e-9
    w = np.concatenate([coefficients(theta[0]), shared])
    return w, -np.inf if outside else value, 0.0, 0.0


def log_factor(eta, constants, shared, out):
    """Log of L - B over the expansion, by the bound's formula, from what rows have added up."""
    near, far, half_width, _, at = constants.T
    u = eta[:, 0] - at
    remainder = -np.exp(at) * (np.expm1(u) - u - 0.5 * u**2)
    kept = np.isinf(near)
    near = np.where(kept, 0.0, near)
    rate = near * (half_width * shared[0] + eta[:, 1]) + far * (half_width * shared[1] + eta[:, 2])
    with np.errstate(invalid="ignore"):
        out[:] = np.where(kept, remainder, np.log(np.expm1(remainder + rate)) - rate)


@functools.cache
def factors_at(theta):
    """Log of L - B over the expansion of all rows from the definition."""
    eta = ROWS @ coefficients(theta) + OFFSET[:, 0]
    odds = np.log(np.expm1(log_likelihood(eta) - log_bound(theta)))
    exact = log_likelihood(eta) - expansions_of(theta)
    return np.where(KEPT, exact, odds - remainders_of(theta)[0])


def augmented_distribution(states):
    """p(theta, z | data) from the definition: prod (L - B)^z B^(1 - z)."""
    log_p = []
    for theta, z in states:
        eta = ROWS @ coefficients(theta) + OFFSET[:, 0]
        likelihood, bound = np.exp(log_likelihood(eta)), np.exp(log_bound(theta))
        bound[KEPT] = 0.0
        assert np.all(bound < likelihood)
        factors = np.where(np.array(z), likelihood - bound, bound)
        log_p.append(log_prior(theta) + np.sum(np.log(factors)))
    p = np.exp(np.array(log_p) - max(log_p))
    return p / p.sum()


class Generator(BranchingGenerator):
    def standard_exponential(self):
        return Waiting(self)


def update_adjusted(rng, posterior, chain, bright, scratch):
    """Update theta and z together, by a step of the lattice."""
    take_dark(posterior.rows, bright, chain)
    chain.v_new[0] = chain.v[0] + rng.standard_normal()
    adjusted_update(rng, 0.0, posterior.rows, posterior, chain, bright, scratch)


def transition(theta, z):
    """Branches of one (theta, z) transition from a state: probability, new state."""
    levels = Levels.by_row(np.array([0.25, 0.5, 1.0]))
    constants = CONSTANTS.copy()
    constants[KEPT, 0] = np.inf
    rows = make_rows(Design(X, OFFSET, False, 0, COLUMNS), constants, TaylorInParts(Q))
    columns = rows_of_columns(rows)

    def program(rng):
        plan = make_plan(ImplicitResampling(), N, levels, np.array([0]))
        geometry = dense_geometry(np.array([LATTICE[1]]), np.array([[STEP]]))
        functions = density, log_factor, 0, 0, 0
        posterior = Posterior(*functions, Jacobian.of(None), None, rows, geometry)
        if ADJUSTED:
            posterior = posterior._replace(columns=columns)
        chain, bright = make_chain(1, 1 + Q + 2 + 2 * Q, N), make_bright_set(N)
        scratch = make_scratch(3, 5)
        chain.v[0], chain.theta[0] = (theta - LATTICE[1]) / STEP, theta
        chain.log_density[0] = call_density(density, chain.theta, None, chain.w)
        factors = factors_at(theta)
        for n in range(N):
            if z[n]:
                brighten(bright, n, factors[n])
        chain.dark[1 + Q :] = 0.01  # as another z has left it
        if ADJUSTED:
            update_adjusted(rng, posterior, chain, bright, scratch)
        else:
            proposals = new_proposal_mixture(1, np.array([1.0, 0.0, 0.0]))
            proposals.log_scale[:] = 0.0
            update_theta(rng, RANDOM_WALK, posterior, proposals, chain, bright, scratch)
            sweep(rng, plan, rows, log_factor, chain.w, bright, scratch)
        new_z = [0] * N
        for i in range(bright.count[0]):
            new_z[bright.index[i]] = 1
        new_theta = LATTICE[np.argmin(np.abs(LATTICE - chain.theta[0]))]
        k = bright.count[0]
        assert_close(bright.log_factor[:k], factors_at(new_theta)[bright.index[:k]], 1e-9)
        return new_theta, tuple(new_z)

    return enumerate_branches(program, Generator if ADJUSTED else BranchingGenerator)


def check_bound():
    """Assert that the bound is one near all limits, where it is tightest."""
    for direction in itertools.product((-1.0, 0.0, 1.0), repeat=1 + Q):
        for share in (0.02, 0.3, 0.999, 1.001, 1.3, 5 / 3, 1.7, 2.5, 6.0):
            limits = np.array([LIMIT / METRIC, *LIMITS])
            s = share * limits * np.array(direction)
            u = np.concatenate([s[:1], s[1:] - WITHIN * s[0]])
            shared = np.empty(2 + 2 * Q)
            radius_powers(u, PACKED, shared)
            sums = np.zeros((N, 3))
            sums[:, 0] = ROWS @ (ANCHOR + u) + OFFSET[:, 0]
            for n in range(N):
                for k in range(SPARSE.indptr[n], SPARSE.indptr[n + 1]):
                    j = SPARSE.indices[k]
                    sums[n, 1] += abs(SPARSE.data[k]) * shared[2 + j]
                    sums[n, 2] += abs(SPARSE.data[k]) * shared[2 + Q + j]
            change = sums[:, 0] - CONSTANTS[:, 4]
            at = np.exp(CONSTANTS[:, 4])
            remainder = -at * (np.expm1(change) - change - 0.5 * change**2)
            near, far, half_width = CONSTANTS[:, :3].T
            bound = near * (half_width * shared[0] + sums[:, 1])
            bound = bound + far * (half_width * shared[1] + sums[:, 2])
            assert np.all(bound + remainder >= -1e-14), (direction, share)


def violations():
    """Largest |pi P - pi| and largest |sum of a row - 1|."""
    brightness = [z for z in itertools.product((0, 1), repeat=N) if all(np.array(z)[KEPT])]
    states = list(itertools.product(LATTICE, brightness))
    place = {state: i for i, state in enumerate(states)}
    matrix = np.zeros((len(states), len(states)))
    for i, (theta, z) in enumerate(states):
        for probability, state in transition(theta, z):
            matrix[i, place[state]] += probability
    pi = augmented_distribution(states)
    return np.max(np.abs(pi @ matrix - pi)), np.max(np.abs(matrix.sum(axis=1) - 1.0)), matrix


if __name__ == "__main__":
    past = np.stack([remainders_of(theta)[1] for theta in LATTICE])
    moving = past[:, int(DIRECTION[0] == 0.0) :]
    assert moving.any(axis=0).all() and not moving.all(axis=0).any(), past
    check_bound()
    invariance, row_sums, matrix = violations()
    moved = 1.0 - np.mean(np.diag(matrix))
    print(f"{sys.argv[1]}: |pi P - pi| = {invariance:.1e}, |P 1 - 1| = {row_sums:.1e}")
    assert moved > 0.1, "the kernel hardly moves: nothing is tested"
    if max(invariance, row_sums) > 1e-12:
        sys.exit(1)
