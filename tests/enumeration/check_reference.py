"""Compare kernels with plain implementations, random number by random number; run by the tests.

``NUMBA_DISABLE_JIT=1 python check_reference.py KERNEL``: from many states (theta, z) of a small
logistic model, a kernel's conditional update of theta ends where the textbook's does, with the same
acceptance probability. Exits with 1 if they differ by more than rounding.
"""

import os
import sys

os.environ["NUMBA_DISABLE_JIT"] = "1"

import numpy as np

from pymc_flymc.bounds import JaakkolaJordan
from pymc_flymc.kernels import hamiltonian, rescaling, slice, surrogate
from pymc_flymc.kernels.brightness import brighten, make_bright_set
from pymc_flymc.kernels.factors import make_scratch
from pymc_flymc.kernels.following import Following
from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.kernels.native import Jacobian
from pymc_flymc.kernels.posterior import Posterior, copy, copy_state, make_chain
from pymc_flymc.kernels.rows import Rows, SeveralRows
from pymc_flymc.kernels.shared_scales import (
    CENTRED,
    NON_CENTRED,
    Locations,
    SharedScales,
)
from pymc_flymc.kernels.shifts import Shifts
from pymc_flymc.kernels.surrogate import Surrogate
from pymc_flymc.kernels.trajectory import LARGEST_KICK, density_and_gradient, new_dynamics

N, N_STATES, N_UPDATES = 5, 60, 3
rng = np.random.default_rng(1)
X = rng.normal(size=(N, 2)) * 2.0
Y = np.array([1.0, 0.0, 0.0, 1.0, 1.0])
BOUND = JaakkolaJordan(xi=np.array([1.5, 0.2, 3.0, 1.0, 0.5]))
CONSTANTS = BOUND.constants(BOUND.xi, Y, np.full(N, 0.1))
# theta[1] is a dense parameter, theta[0] a diagonal one: theta is no affine map of v by a triangle.
DIRECTION, STRETCH = np.array([0.6, 0.8]), 0.5
GEOMETRY = Geometry(
    np.array([0.2, -0.3]),
    np.array([1]),
    np.array([0]),
    np.array([[0.8]]),
    np.array([0.6]),
    np.array([[0.5]]),
    directions=DIRECTION[None],
    stretch=np.array([STRETCH]),
)
#: theta[0] may follow theta[1], around a location that depends on it, too.
SHARE, POWER, ORIGIN, AROUND, DISTANCE = 0.6, 0.8, -0.1, (0.3, 0.5), 0.4
if sys.argv[-1].endswith("following"):
    around = Locations(
        np.array([AROUND[0]]), np.array([0, 1]), np.array([1]), np.array([AROUND[1]])
    )
    effect = map(np.array, ([0, 1], [0], [SHARE], [DISTANCE]))
    scale = map(np.array, ([0, 1], [1], [POWER], [ORIGIN], [1.0]))
    GEOMETRY = GEOMETRY._replace(following=Following(*effect, around, *scale))
# x = centre + MATRIX v, by hand.
MATRIX = np.array([[0.6, -0.5 * 0.8], [0.0, 0.8]])
MATRIX = MATRIX @ (np.eye(2) + STRETCH * np.outer(DIRECTION, DIRECTION))
LENGTH = 2.0


def stretch_of(x):
    """Return how much theta[0] is stretched around what, and moved, by hand."""
    if not sys.argv[-1].endswith("following"):
        return 1.0, 0.0, 0.0
    change = POWER * (x[1] - ORIGIN)
    precision = 1.0 - SHARE + SHARE * np.exp(-2.0 * change)
    mean = DISTANCE * (np.exp(-change) / precision - precision**-0.5)
    return precision**-0.5, AROUND[0] + AROUND[1] * x[1], mean


def theta_of(v):
    x = GEOMETRY.centre + MATRIX @ v
    factor, around, mean = stretch_of(x)
    return np.array([around + factor * (x[0] - around) + mean, x[1]])


def v_of(theta):
    factor, around, mean = stretch_of(theta)
    x = np.array([around + (theta[0] - around - mean) / factor, theta[1]])
    return np.linalg.solve(MATRIX, x - GEOMETRY.centre)


#: theta[1] is the scale of theta[0], around a number, which counts as two effects; then theta[0]
#: that of theta[1], around itself, which leaves it in its place; then theta[1] multiplies theta[0].
POWERS = [CENTRED, CENTRED, CENTRED, NON_CENTRED]
LOCATION = 0.3
LOCATIONS = Locations(
    np.array([LOCATION, LOCATION, 0.0, 0.0]), np.array([0, 0, 0, 1, 1]), np.array([1]), np.ones(1)
)
SCALES = SharedScales(
    *map(np.array, ([1, 0, 1], [0, 2, 3, 4], [0, 0, 1, 0])), LOCATIONS, np.array(POWERS)
)
#: theta[0] moves alone, by what depends on theta[1].
SHIFTS = Shifts(*map(np.array, ([0, 1], [0], [0.7], [1])))
#: With two likelihoods the rows from this one on are the second's. Its coefficients are -theta.
SPLIT = 3
TWO = sys.argv[-1].endswith("two")
#: The surrogate treats some rows exactly, and the coefficients are a product's and a number.
RIDGE = sys.argv[-1] == "rescaling-surrogate"
EXACT = np.array([1, 3], np.int32) if RIDGE else np.zeros(0, np.int32)
#: Intervals may be extended so seldom, and are so short, that this limit is met.
FEW = sys.argv[-1] == "slice-few-extensions"
if FEW:
    slice.MAX_EXTENSIONS = 3
#: Whether each kick of a reference trajectory was held to its limit.
limited: list[bool] = []


def log_prior(theta):
    return -0.5 * theta @ theta - 0.1 * theta[0] ** 4


def coefficients(theta):
    return np.array([theta[0] * np.exp(theta[1]), 0.7]) if RIDGE else theta


def bounds_at(eta, rows=...):
    a, b, c = (each[rows] for each in BOUND.coefficients(BOUND.xi, Y, 0.1))
    return c + b * eta - a * eta**2


def log_bounds(theta):
    return bounds_at(X @ coefficients(theta))


def log_likelihoods(theta):
    eta = X @ coefficients(theta)
    return Y * eta - np.logaddexp(0.0, eta)


def log_joint(theta, z):
    """log p(theta, z) from its definition: prod (L - B)^z B^(1 - z)."""
    likelihood, bound = np.exp(log_likelihoods(theta)), np.exp(log_bounds(theta))
    return log_prior(theta) + np.sum(np.log(np.where(z, likelihood - bound, bound)))


def gradient_of(function, x, step=1e-5):
    """Central differences of fourth order."""
    out = np.empty(len(x))
    for j in range(len(x)):
        e = np.zeros(len(x))
        e[j] = step
        near = function(x + e) - function(x - e)
        far = function(x + 2 * e) - function(x - 2 * e)
        out[j] = (8.0 * near - far) / (12.0 * step)
    return out


# --- plain implementations, in standardised coordinates -------------------------------------------


def hamiltonian_reference(rng, log_p, v, step, length):
    n_steps = 1
    if length:
        total = (0.5 + 0.5 * rng.random()) * length
        n_steps = max(1, int(np.ceil(total / step)))
        step = total / n_steps
    p = rng.standard_normal(len(v))
    start = log_p(v) - 0.5 * p @ p
    new = v.copy()

    def kick(v, p):
        # What there is beyond the distribution whose motion is followed exactly: none, or N(0, I).
        undone = 0.5 * step * (v if length else np.zeros_like(v))
        change = 0.5 * step * gradient_of(log_p, v) + undone
        # What undoes that motion is not limited.
        least, most = np.minimum(undone, -LARGEST_KICK), np.maximum(undone, LARGEST_KICK)
        limited.append(np.any((change < least) | (change > most)))
        return p + np.clip(change, least, most)

    for _ in range(n_steps):
        p = kick(new, p)
        if length:
            turned = (new + 1j * -p) * np.exp(1j * step)
            new, p = turned.real, -turned.imag
        else:
            new = new + step * p
        p = kick(new, p)
    accept = min(1.0, np.exp(log_p(new) - 0.5 * p @ p - start))
    return (new if rng.standard_exponential() > -np.log(accept) else v), accept


def walk_reference(rng, log_p, v, scale):
    new = v + scale * rng.standard_normal(len(v))
    log_accept = min(0.0, log_p(new) - log_p(v))
    return (new if rng.standard_exponential() > -log_accept else v), np.exp(log_accept)


def slice_reference(rng, log_p, v, widths, random):
    directions = np.eye(len(v))
    if random:
        e = rng.standard_normal(len(v))
        directions = [e / np.linalg.norm(e)]
    for e, width in zip(directions, widths, strict=True):
        height = log_p(v) - rng.standard_exponential()
        low = -width * rng.random()
        high = low + width
        left = int(rng.random() * slice.MAX_EXTENSIONS)
        right = slice.MAX_EXTENSIONS - 1 - left
        while left and log_p(v + low * e) > height:
            low, left = low - width, left - 1
        while right and log_p(v + high * e) > height:
            high, right = high + width, right - 1
        while True:
            t = low + (high - low) * rng.random()
            if log_p(v + t * e) > height:
                break
            low, high = (t, high) if t < 0.0 else (low, t)
        v = v + t * e
    return v, 1.0


def rescaling_reference(rng, log_p, v):
    accepts, moves = [], ((1, 0, LOCATION, 2.0), (0, 1, None, 1.0), (1, 0, 0.0, -1.0))
    # After a first move of each, scales that effects follow move three times.
    follows = sys.argv[-1].endswith("following")
    plan = [(move, False) for move in moves]
    for move in (rescaling.REPEATS - 1) * moves:
        plan += [(move, True)] * 3 if follows and move[0] == 1 else [(move, False)]
    for (scale, effect, centre, power), followed in plan:
        narrowest, widest = (0.6, 2.4) if followed else (0.02, 2.0)
        width = np.exp(np.log(narrowest) + np.log(widest / narrowest) * rng.random())
        if followed:
            width /= np.linalg.norm(np.linalg.solve(MATRIX, [0.0, 1.0]))
        change = width * rng.standard_normal()
        theta = theta_of(v)
        if followed:  # theta[0] follows: its coordinate x stays
            new = np.linalg.solve(MATRIX, MATRIX @ v + [0.0, change])
            stretched = np.log(stretch_of(theta_of(new))[0] / stretch_of(theta)[0])
            log_accept = min(0.0, log_p(new) - log_p(v) + stretched)
            v = new if rng.standard_exponential() > -log_accept else v
            accepts.append(np.exp(log_accept))
            continue
        theta[scale] += change
        if centre is not None:
            theta[effect] = centre + np.exp(power * change) * (theta[effect] - centre)
        new = v_of(theta)
        log_accept = min(0.0, log_p(new) - log_p(v) + power * change)
        v = new if rng.standard_exponential() > -log_accept else v
        accepts.append(np.exp(log_accept))
    shifted = theta_of(np.zeros(2))
    shifted[0] += 0.7 * np.exp(-shifted[1])
    at_centre = v_of(shifted)
    for _ in range(rescaling.REPEATS):
        width = np.exp(np.log(0.5) + np.log(10.0) * rng.random()) / np.linalg.norm(at_centre)
        theta = theta_of(v)
        theta[0] += width * rng.standard_normal() * 0.7 * np.exp(-theta[1])
        new = v_of(theta)
        log_accept = min(0.0, log_p(new) - log_p(v))
        v = new if rng.standard_exponential() > -log_accept else v
    return v, np.mean(accepts)


# --- what kernels call ---------------------------------------------------------------------------


def log_density(theta):
    return log_prior(theta) + np.sum(np.delete(log_bounds(theta), EXACT))


def density_gradient(theta, statistics):
    w = np.concatenate([theta, -theta]) if TWO else coefficients(theta)
    return w, gradient_of(log_density, theta), np.empty(0), log_density(theta)


def vjp(theta, statistics, slope):
    return (slope[:2] - slope[2:] if TWO else slope[:2],)


def log_factor(eta, constants, shared, out):
    eta = np.abs(eta[:, 0])
    gap = constants[:, 0] * eta**2 + constants[:, 1] - 0.5 * eta - np.log1p(np.exp(-eta))
    out[:] = np.log(np.expm1(gap))


def log_factor_gradient(eta, constants, shared, out, slopes, slope):
    def total(x):
        values = np.empty(len(eta))
        log_factor(x[:, None], constants, shared, values)
        return np.sum(values)

    slopes[:, 0] = gradient_of(total, eta[:, 0])
    log_factor(eta, constants, shared, out)


def remainder_gradient(eta, constants, shared, out, slopes, slope):
    """Of rows in EXACT, whose bounds the density does without."""
    out[:] = bounds_at(eta[:, 0], EXACT)
    slopes[:, 0] = gradient_of(lambda x: np.sum(bounds_at(x, EXACT)), eta[:, 0])


def turned(function):
    """Make the second likelihood's factor, or its gradient: its constants are in another order."""
    return lambda eta, constants, *rest: function(eta, constants[:, ::-1], *rest)


def posterior():
    rows, factors = Rows(X, np.empty((0, 1)), 0, CONSTANTS), (log_factor, log_factor_gradient)
    if TWO:
        second = Rows(-X[SPLIT:], np.empty((0, 1)), 0, CONSTANTS[SPLIT:, ::-1], first=SPLIT)
        first = rows._replace(X=X[:SPLIT], constants=CONSTANTS[:SPLIT])
        rows = SeveralRows((first, second), np.array([0, 2, 4]))
        factors = tuple((factor, turned(factor)) for factor in factors)
    functions = 0, factors[0], density_gradient, vjp, factors[1]
    functions = *functions, Jacobian.of(None), None, rows, GEOMETRY
    return Posterior(*functions, *((SCALES, SHIFTS) if sys.argv[1].startswith("rescaling") else ()))


def state(theta, z):
    chain, bright = make_chain(2, 2 + 2 * TWO, N), make_bright_set(N)
    chain.v[:], chain.theta[:] = v_of(theta), theta
    chain.w[:], *_, chain.log_density[0] = density_gradient(theta, None)
    chain.log_density[0] += np.sum(log_bounds(theta)[EXACT])
    odds = np.empty(N)
    log_factor((X @ coefficients(theta))[:, None], CONSTANTS, None, odds)
    for n in np.flatnonzero(z):
        brighten(bright, n, odds[n])
    return chain, bright


def make_surrogate():
    """Rows EXACT are not in the density."""
    rows = Rows(X[EXACT], np.empty((0, 1)), 0, CONSTANTS[EXACT])
    numbers = np.arange(len(EXACT), dtype=np.int32)
    walker = make_chain(2, 2, len(EXACT))
    exact = Surrogate(None, rows, numbers, remainder_gradient, walker)
    return exact, surrogate.new_surrogate_proposals(2, 2, LENGTH, 0.8)


def follow_walker(rng, theirs, target, chain, scratch):
    """Update a walker from the chain's state; return how far it is from the textbook's."""
    exact, proposals = make_surrogate()
    dynamics, walker = proposals.dynamics, exact.walker
    copy_state(chain, walker)
    copy(walker.v, walker.v_new)
    surrogate.log_surrogate(target, exact, dynamics, walker, scratch)
    copy(dynamics.force, dynamics.kept_force)
    surrogate.update_walker(rng, target, exact, proposals, scratch)

    def log_q(v):
        theta = theta_of(v)
        return log_density(theta) + np.log(stretch_of(theta)[0])

    step = np.exp(dynamics.step_size.log_step[0])
    v, _ = hamiltonian_reference(theirs, log_q, chain.v.copy(), step, LENGTH)
    return np.max(np.abs(walker.theta - theta_of(v)))


def rescale_by_surrogate(rng, target, chain, bright, scratch):
    """As `rescaling.rescale`, where rows EXACT are not in the density."""
    exact, proposals = make_surrogate()
    surrogate.rescale(rng, target, exact, proposals, chain, bright, scratch)
    expected = log_density(chain.theta) + np.sum(log_bounds(chain.theta)[EXACT])
    assert abs(chain.log_density[0] - expected) < 1e-9


def compare(kernel, seed):
    """Largest difference of theta and acceptance over a few updates from a random state."""
    rng = np.random.default_rng(seed)
    theta, z = rng.normal(size=2), rng.random(N) < 0.5
    target = posterior()
    chain, bright = state(theta, z)
    scratch = make_scratch(1, 2)
    length = LENGTH if kernel.startswith("hamiltonian") else 0.0
    random = kernel == "slice-random"
    dynamics = new_dynamics(2, 2 + 2 * TWO, length, 0.8)
    slices = slice.new_slices(2, random)
    slices.width[:] = 0.3 if FEW else 0.7  # short: intervals have to be extended

    def log_p(v):
        theta = theta_of(v)
        # Moves of scales are compared by the density of theta.
        of_v = 0.0 if kernel.startswith("rescaling") else np.log(stretch_of(theta)[0])
        return log_joint(theta, z) + of_v

    density_and_gradient(target, chain.theta, chain.w, dynamics.gradient)
    ours, theirs = np.random.default_rng(seed), np.random.default_rng(seed)
    v = v_of(theta)
    worst, moved = 0.0, 0
    for _ in range(N_UPDATES):
        before, accept = v, 1.0
        if kernel.startswith("slice"):
            slice.update_theta(ours, target, slices, chain, bright, scratch)
            v, expected = slice_reference(theirs, log_p, v, slices.width, random)
        elif kernel.startswith("surrogate"):
            far = follow_walker(ours, theirs, target, chain, scratch)
            exact, proposals = make_surrogate()
            proposals.log_scale[0] = 0.0
            accept = surrogate.walk(ours, target, exact, proposals, chain, bright, scratch)
            v, expected = walk_reference(theirs, log_p, v, 1.0)
            accept += far
        elif kernel.startswith("rescaling"):
            if RIDGE:
                rescale_by_surrogate(ours, target, chain, bright, scratch)
            else:
                rescaling.rescale(ours, rescaling.REPEATS, target, chain, bright, scratch)
            accept = chain.rescaled[0]
            v, expected = rescaling_reference(theirs, log_p, v)
        else:
            accept = hamiltonian.update_theta(ours, True, target, dynamics, chain, bright, scratch)
            step = np.exp(dynamics.step_size.log_step[0])
            v, expected = hamiltonian_reference(theirs, log_p, v, step, length)
        moved += np.any(v != before)
        distance = np.max(np.abs(chain.theta - theta_of(v)))
        odds = np.empty(N)
        log_factor((X @ coefficients(chain.theta))[:, None], CONSTANTS, None, odds)
        k = bright.count[0]
        stale = np.max(np.abs(bright.log_factor[:k] - odds[bright.index[:k]]), initial=0.0)
        worst = max(worst, distance, abs(accept - expected), stale)
        # Another z, which the next update must take note of.
        z[rng.integers(N)] ^= True
        chain, bright = state(chain.theta.copy(), z) if rng.random() < 0.3 else (chain, bright)
        z[:] = False
        z[bright.index[: bright.count[0]]] = True
    return worst, moved


if __name__ == "__main__":
    results = [compare(sys.argv[1], seed) for seed in range(N_STATES)]
    worst, moved = max(r[0] for r in results), sum(r[1] for r in results)
    print(f"{sys.argv[1]}: largest difference {worst:.1e}, moved {moved} times")
    assert moved > 0.3 * N_STATES * N_UPDATES, "the kernel hardly moves: nothing is tested"
    if limited:
        print(f"{np.mean(limited):.3f} of the kicks are held to the limit")
        assert 0.01 < np.mean(limited) < 0.5, "the limit on kicks is not tested"
    # The gradients are differences: their errors of 1e-10 grow along a trajectory.
    if worst > 1e-6:
        sys.exit(1)
