"""Local sweeps: global parameters with effects that follow them, then each effect by itself."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np
from numba import types

from pymc_flymc.compat.numba import generator_at, view
from pymc_flymc.kernels.factors import CHUNK, add_gradients, refuse_violations
from pymc_flymc.kernels.layout import MOMENTS
from pymc_flymc.kernels.native import (
    Int32Vector,
    IntVector,
    Matrix,
    Vector,
    add_vjp,
    call_density,
    call_log_factor,
    call_vjp,
    kernel,
    kernel_part,
)
from pymc_flymc.kernels.posterior import (
    Chain,
    accept_conditional_update,
    copy,
    finite_or_minus_inf,
    run_type,
)
from pymc_flymc.kernels.rows import row_predictors, shared_part
from pymc_flymc.kernels.sweeps import Plan, begin, sweep_groups
from pymc_flymc.kernels.trajectory import (
    GAMMA_OF_MANY,
    Dynamics,
    density_and_gradient,
    new_dynamics,
    simulate,
)

TWO_PI = 2.0 * np.pi
#: A bracket of angles that is shorter than this has shrunk to the present point.
LEAST_ANGLE = 1e-12
#: Share of sweeps that slice along a wider normal distribution, and the largest log2 of the ratio
#: of sds. A bound that touches a sharp peak, as of Laplace noise, may be far narrower than the
#: posterior. Along so narrow a distribution an effect moves away step by step, and the steps shrink
#: with the distance: chains saw nothing of tails with a tenth of the posterior.
WIDE, WIDEST = 0.1, 8.0


class Groups(NamedTuple):
    """The effects of one grouping factor, and how the brightness of their rows is resampled.

    G is the number of groups, Q the number of groups with rows, which come first, and N the number
    of rows. The fields from `boost` on are buffers.
    """

    #: Implicit resampling: the rows of group g are ``order[start[g]:start[g + 1]]``. Its
    #: probabilities q are rates: a row is proposed with probability 1 - exp(-c q), c depending on
    #: its group.
    plan: Plan
    #: Address of a function that writes the effects' `Moments` and returns the sum of log sds.
    moments: int
    vjp: int  #: Address of the vector-Jacobian product of slopes in means and sds.
    #: Indices in theta of the effects, (G,); `others` has all other parameters, (D - G,).
    elements: IntVector
    others: IntVector
    column: int  #: Index in w of the first effect's coefficient.
    q_max: Vector  #: Largest rate among the rows of each group, (Q,).
    #: Coefficients at which bounds touch, (Q,); `sd` has their approximate posterior sds.
    touching: Vector
    sd: Vector
    slack: Annotated[float, types.float64]  #: How much bounds are lowered, in expected gaps.
    boost: Vector  #: Factor on the rates of the rows of each group, (Q,).
    end: Int32Vector  #: Where the bright rows of each group end, sorted by group, (Q,).
    code: Int32Vector  #: Group of each bright row, (N,).
    #: Row indices while they are sorted, (N,).
    index: Int32Vector  # type: ignore[assignment]  # hides tuple.index, never wanted here
    #: Predictors of the bright rows, (N, 1); `moved` has those at another value of their effect.
    eta: Matrix
    moved: Matrix
    constants: Matrix  #: Constants of the bright rows, (N, R).
    rate: Vector  #: Rates at which candidates were proposed, (CHUNK,).


def new_groups(n_rows: int, n_constants: int, n_groups: int, **known: Any) -> Groups:
    """Return the record with its buffers; row buffers are committed as they are touched."""
    return Groups(
        **known,
        boost=np.empty(n_groups),
        end=np.empty(n_groups, np.int32),
        code=np.empty(n_rows, np.int32),
        index=np.empty(n_rows, np.int32),
        eta=np.empty((n_rows, 1)),
        moved=np.empty((n_rows, 1)),
        constants=np.empty((n_rows, n_constants)),
        rate=np.empty(CHUNK),
    )


@kernel_part
def moments_at(posterior, groups, theta, moments):
    """Write the effects' `Moments`, (3, G); return the sum of the logs of their sds."""
    return call_density(groups.moments, theta, posterior.statistics, moments.ravel())


@kernel_part
def sort_by_group(rows, groups, bright):
    """Sort the bright rows by group, to be read group by group; write where each group ends."""
    end, n_bright = groups.end, bright.count[0]
    for g in range(end.shape[0]):
        end[g] = 0
    for i in range(n_bright):
        groups.index[i] = bright.index[i]
        groups.moved[i, 0] = bright.log_factor[i]
        groups.code[i] = rows.codes[bright.index[i], 0]
        end[groups.code[i]] += 1
    total = 0
    for g in range(end.shape[0]):
        size = end[g]
        end[g] = total  # where the group begins, until its rows are in their places
        total += size
    for i in range(n_bright):
        g = groups.code[i]
        place = end[g]
        end[g] = place + 1
        bright.index[place] = groups.index[i]
        bright.log_factor[place] = groups.moved[i, 0]
        bright.slot[groups.index[i]] = place + 1


@kernel_part
def _gather_bright(posterior, groups, w, bright, scratch):
    """Write the predictors and the constants of the bright rows, one after the other."""
    rows, start, n_bright = posterior.rows, 0, bright.count[0]
    while start < n_bright:
        size = min(n_bright - start, CHUNK)
        row_predictors(rows, w, bright.index, start, size, scratch.eta, scratch.block)
        for i in range(size):
            groups.eta[start + i, 0] = scratch.eta[i, 0]
            for r in range(rows.constants.shape[1]):
                groups.constants[start + i, r] = rows.constants[bright.index[start + i], r]
        start += size


@kernel_part(inline="always")
def _log_factors_of_group(posterior, groups, first, last, shift, shared, bright, out, scratch):
    """Write a group's log factors, with predictors moved by `shift`; return their sum."""
    for i in range(first, last):
        groups.moved[i, 0] = groups.eta[i, 0] + shift
    eta, constants = groups.moved[first:last], groups.constants[first:last]
    call_log_factor(posterior.log_factor, eta, constants, shared, out[first:last])
    scratch.queries[0] += last - first
    refuse_violations(bright.index, first, last, out, scratch)
    total = 0.0
    for i in range(first, last):
        total += out[i]
    return total


@kernel_part(inline="always")
def draw_spread(rng):
    """Draw the sd of the normal distribution that a sweep slices along; no state changes it."""
    return 2.0 ** (WIDEST * rng.random()) if rng.random() < WIDE else 1.0


@kernel_part(inline="always")
def _slice_effect(
    rng, posterior, groups, first, last, v, spread, scale, shared, bright, out, scratch
):
    """Return a new value of a standardised effect v, of which rows first to last are bright.

    By elliptical slice sampling (Murray, Adams & MacKay 2010, figure 2): without these rows v is
    N(0, 1), which is N(0, spread^2) times another factor. Predictors change by `scale` for each
    unit of v.
    """
    narrower = 0.5 - 0.5 / spread**2
    before = -narrower * v * v
    for i in range(first, last):
        before += bright.log_factor[i]
    level = -rng.standard_exponential()  # log of a uniform height below the present density
    other = spread * rng.standard_normal()
    angle = TWO_PI * rng.random()
    low, high = angle - TWO_PI, angle
    while True:
        new = v * np.cos(angle) + other * np.sin(angle)
        shift = scale * (new - v)
        total = _log_factors_of_group(
            posterior, groups, first, last, shift, shared, bright, out, scratch
        )
        total -= narrower * new * new
        if level < finite_or_minus_inf(total - before, scratch) or angle == 0.0:
            return new
        if angle < 0.0:
            low = angle
        else:
            high = angle
        # Stay if the bracket has shrunk to the present point: rounding may reject even that.
        angle = low + (high - low) * rng.random() if high - low > LEAST_ANGLE else 0.0


@kernel_part
def propose_effects(rng, posterior, groups, moments, spread, chain, bright, scratch):
    """Write updated effects of all groups to chain.theta_new, and their rows' log factors.

    `spread` comes from `draw_spread`. Needs the `Moments` at chain.theta. Returns the change of the
    log density without rows, if the moments are right.
    """
    sort_by_group(posterior.rows, groups, bright)
    _gather_bright(posterior, groups, chain.w, bright, scratch)
    shared, n_with_rows = shared_part(posterior.rows, chain.w), groups.end.shape[0]
    for j in range(chain.theta.shape[0]):
        chain.theta_new[j] = chain.theta[j]
    change, first, out = 0.0, 0, chain.log_factor_new
    for g in range(groups.elements.shape[0]):
        j = groups.elements[g]
        last = groups.end[g] if g < n_with_rows else first
        mean, sd = moments[MOMENTS.mean, g], moments[MOMENTS.sd, g]
        v = (chain.theta[j] - mean) / sd
        if first == last:
            new = rng.standard_normal()
        else:
            scale = sd * moments[MOMENTS.change, g]
            new = _slice_effect(
                rng, posterior, groups, first, last, v, spread, scale, shared, bright, out, scratch
            )
        chain.theta_new[j] = mean + sd * new
        change += 0.5 * (v * v - new * new)
        first = last
    return change


#: Rounding error of an effect, relative to its mean. If sds are as small, the density is too large
#: by exp(v_g^2 / 2) for each effect: chains that reached such points never left. No point is
#: accepted at which rounding changes v by a sum of squares of more than `MOST_LOST`.
ROUNDING, MOST_LOST = 2.0**-52, 1e-6
#: Share of transitions with another trajectory, shorter by the factor `SHORTER`, of as many steps.
#: If effects differ little, the scale's density falls off so much faster above than below that no
#: step that fits all else leads there: a chain had 6 of 50 expected draws in a tail of 0.1 %.
SHORT, SHORTER = 0.25, 8.0


class LocalProposals(NamedTuple):
    """Trajectories of the M global parameters, centre + factor x, and buffers for G effects."""

    gain: Vector  #: Whether the step size is being adapted (0 or 1), (1,).
    dynamics: Dynamics  #: Of global parameters; its gradients are in all parameters.
    centre: Vector
    factor: Matrix
    x: Vector  #: Buffer, (M,), as `x_new` is.
    x_new: Vector
    v: Vector  #: Buffer of standardised effects, (G,).
    #: `Moments` of the effects, (3, G), and at the end of a trajectory in `moments_new`.
    moments: Matrix
    moments_new: Matrix
    log_sds: Vector  #: Sums of the logs of their sds, (1,).
    log_sds_new: Vector
    slope: Matrix  #: Buffer of slopes in means and sds, (2, G).


def new_local_proposals(
    n_parameters: int, n_effects: int, n_coefficients: int, length: float, target: float
) -> LocalProposals:
    """Return proposals, without coordinates, as a chain starts with them."""
    m, g = n_parameters - n_effects, n_effects
    dynamics = new_dynamics(m, n_coefficients, length, target, GAMMA_OF_MANY)._replace(
        gradient=np.zeros(n_parameters),
        gradient_new=np.zeros(n_parameters),
        total_gradient=np.zeros(n_parameters),
    )
    of_globals = np.zeros(m), np.eye(m), np.zeros(m), np.zeros(m)
    moments, log_sds = np.zeros((2, len(MOMENTS), g)), np.zeros((2, 1))
    of_effects = np.zeros(g), *moments, *log_sds, np.zeros((2, g))
    return LocalProposals(np.zeros(1), dynamics, *of_globals, *of_effects)


@kernel_part
def log_density_of_globals(posterior, groups, proposals, chain, bright, scratch):
    """Return log(p(theta, z) prod_g s_g) at chain.v_new, with effects kept at v; write the force.

    Also writes theta_new, the effects' moments there, and what `log_density_and_force` writes.
    """
    theta, factor = chain.theta_new, proposals.factor
    n_globals, n_groups = groups.others.shape[0], groups.elements.shape[0]
    for i in range(n_globals):
        total = proposals.centre[i]
        for j in range(i + 1):
            total += factor[i, j] * chain.v_new[j]
        theta[groups.others[i]] = total
    moments, log_sds = proposals.moments_new, proposals.log_sds_new
    log_sds[0] = moments_at(posterior, groups, theta, moments)
    if not -np.inf < log_sds[0] < np.inf:
        return finite_or_minus_inf(log_sds[0], scratch)
    lost = 0.0
    for g in range(n_groups):
        mean, sd = moments[MOMENTS.mean, g], moments[MOMENTS.sd, g]
        theta[groups.elements[g]] = mean + sd * proposals.v[g]
        lost += (mean / sd) ** 2
    if not lost * ROUNDING**2 < MOST_LOST:
        return -np.inf
    return log_density_and_force(
        posterior, groups, proposals, moments, log_sds[0], chain, bright, scratch
    )


@kernel_part
def log_density_and_force(posterior, groups, proposals, moments, log_sds, chain, bright, scratch):
    """Return `log_density_of_globals` at chain.theta_new, whose effects have the given moments.

    Writes the force, w_new, bright rows' log factors, and the dynamics' log density and gradient.
    """
    dynamics, theta, factor = proposals.dynamics, chain.theta_new, proposals.factor
    n_globals, n_groups = groups.others.shape[0], groups.elements.shape[0]
    log_density = density_and_gradient(posterior, theta, chain.w_new, dynamics.gradient_new)
    dynamics.log_density_new[0] = log_density
    if not -np.inf < log_density < np.inf:
        return finite_or_minus_inf(log_density, scratch)
    slope, count, out = dynamics.slope, bright.count[0], chain.log_factor_new
    for j in range(slope.shape[0]):
        slope[j] = 0.0
    rows, of_rows, w = posterior.rows, posterior.log_factor_gradient, chain.w_new
    add_gradients(rows, of_rows, w, bright.index, 0, count, out, slope, scratch)
    gradient, statistics = dynamics.total_gradient, posterior.statistics
    copy(dynamics.gradient_new, gradient)
    call_vjp(posterior.vjp, posterior.jacobian, theta, statistics, slope, gradient)
    # Effects follow: d a_g = d m_g + v_g d s_g, and the log of the Jacobian changes by d s_g / s_g.
    for g in range(n_groups):
        each = gradient[groups.elements[g]]
        proposals.slope[MOMENTS.mean, g] = each
        proposals.slope[MOMENTS.sd, g] = each * proposals.v[g] + 1.0 / moments[MOMENTS.sd, g]
    add_vjp(groups.vjp, theta, statistics, proposals.slope.ravel(), gradient)
    for j in range(n_globals):
        dynamics.force[j] = 0.0
    for i in range(n_globals):
        for j in range(i + 1):
            dynamics.force[j] += factor[i, j] * gradient[groups.others[i]]
    total = log_density + log_sds
    for i in range(count):
        total += out[i]
    return total


@kernel_part
def place_of_state(groups, proposals, chain):
    """Write where the chain is: coordinates of global parameters, and standardised effects."""
    moments, factor = proposals.moments, proposals.factor
    for i in range(groups.others.shape[0]):
        total = chain.theta[groups.others[i]] - proposals.centre[i]
        for j in range(i):
            total -= factor[i, j] * chain.v[j]
        chain.v[i] = total / factor[i, i]
    for g in range(groups.elements.shape[0]):
        mean, sd = moments[MOMENTS.mean, g], moments[MOMENTS.sd, g]
        proposals.v[g] = (chain.theta[groups.elements[g]] - mean) / sd


@kernel_part(inline="always")
def update_globals(rng, posterior, groups, proposals, shorter, chain, bright, scratch):
    """Update the global parameters once by a Hamiltonian step. Return its acceptance probability.

    `shorter` is an argument of `trajectory.simulate`. Needs the effects' moments at the chain's
    parameters, and updates them if these move.
    """
    dynamics = proposals.dynamics
    place_of_state(groups, proposals, chain)
    copy(chain.theta, chain.theta_new)
    log_density = log_density_and_force(
        posterior,
        groups,
        proposals,
        proposals.moments,
        proposals.log_sds[0],
        chain,
        bright,
        scratch,
    )
    arguments = (posterior, groups, proposals, chain, bright, scratch)
    # Effects that follow a small scale make forces large. A limit kept chains out of that tail.
    largest_kick = np.inf
    follow, before = log_density_of_globals, log_density
    log_ratio = simulate(
        rng, follow, arguments, before, largest_kick, shorter, dynamics, chain, scratch
    )
    if -rng.standard_exponential() < log_ratio:
        accept_conditional_update(chain, dynamics.log_density_new[0], bright)
        copy(proposals.moments_new.ravel(), proposals.moments.ravel())
        copy(proposals.log_sds_new, proposals.log_sds)
    return np.exp(min(0.0, log_ratio))


@kernel_part(inline="always")
def update_effects(rng, posterior, groups, proposals, spread, chain, bright, scratch):
    """Make one local sweep: an update of each effect given all other parameters, and z.

    `spread` comes from `draw_spread`. The update of all effects is reversible for the density that
    their moments imply, times the bright rows' terms. For effects that qualify this is the
    posterior, up to rounding, and updates are accepted. The Metropolis test keeps the update exact
    for any model.
    """
    moments = proposals.moments
    expected = propose_effects(rng, posterior, groups, moments, spread, chain, bright, scratch)
    unused = proposals.dynamics.gradient_new
    log_density = density_and_gradient(posterior, chain.theta_new, chain.w_new, unused)
    log_ratio = finite_or_minus_inf(log_density - chain.log_density[0] - expected, scratch)
    if -rng.standard_exponential() < log_ratio:
        accept_conditional_update(chain, log_density, bright)


@kernel_part(inline="always")
def transition(rng, posterior, groups, proposals, chain, bright, scratch):
    """Make one trajectory of global parameters, or two, then sweeps of effects and brightness.

    Returns the first acceptance probability. Needs, and leaves, the effects' moments at the state.
    """
    accept = 0.0
    for k in range(2 if rng.random() < SHORT else 1):
        shorter = 1.0 if k == 0 else SHORTER
        each = update_globals(rng, posterior, groups, proposals, shorter, chain, bright, scratch)
        accept = each if k == 0 else accept
    for _j in range(groups.plan.sweeps):
        spread = draw_spread(rng)
        update_effects(rng, posterior, groups, proposals, spread, chain, bright, scratch)
        sweep_groups(rng, posterior, groups, chain.w, bright, scratch)
    return accept


@functools.cache
def run_kernel(dtype: np.dtype) -> Callable[..., Any]:
    """Return the compiled ``run(rng, n, posterior, groups, proposals, chain, bright, scratch)``.

    It makes n transitions and returns the mean acceptance probability of trajectories; or starts a
    chain, if n = 0. It does not change ``chain.v``: the caller knows the coordinates.
    """

    @kernel(run_type(Groups, LocalProposals, dtype=dtype))
    def run(rng, n, posterior, groups, proposals, chain, bright, scratch):
        rng = generator_at(rng)
        posterior, groups, proposals = view(posterior), view(groups), view(proposals)
        chain, bright, scratch = view(chain), view(bright), view(scratch)
        if n == 0:
            begin(rng, posterior, groups.plan, chain, bright, scratch)
            return 0.0
        # The same chain, except for trajectories in coordinates of the global parameters alone.
        of_globals = Chain(
            v=proposals.x,
            theta=chain.theta,
            w=chain.w,
            log_density=chain.log_density,
            log_weight=chain.log_weight,
            rescaled=chain.rescaled,
            v_new=proposals.x_new,
            theta_new=chain.theta_new,
            w_new=chain.w_new,
            log_factor_new=chain.log_factor_new,
            dark=chain.dark,
            low=chain.low,
        )
        proposals.dynamics.gain[0] = proposals.gain[0]
        proposals.log_sds[0] = moments_at(posterior, groups, chain.theta, proposals.moments)
        total = 0.0
        for _i in range(n):
            total += transition(rng, posterior, groups, proposals, of_globals, bright, scratch)
        return total / n

    return run  # type: ignore[no-any-return]
