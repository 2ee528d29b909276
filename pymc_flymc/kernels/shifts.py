"""Moves along common shifts: sums of elements of theta that change no coefficient of a row.

In ``mu + (tau * z)[group]``, mu and all of tau * z can move against each other, and the prior alone
holds them. The direction, one of mu and -1/tau of each z, depends on tau. So no single
preconditioner knows it, and trajectories that suit one tau are too long for another.
"""

from typing import NamedTuple

import numpy as np

from pymc_flymc.kernels.geometry import standardise, unstandardise
from pymc_flymc.kernels.native import IntVector, Vector, kernel_part

#: Smallest and largest standard deviation of a move, in units of the Laplace approximation's along
#: it. It is uniform in its logarithm: the prior's width varies with the scale of the effects.
NARROWEST, WIDEST = 0.5, 5.0


class Shifts(NamedTuple):
    """Directions in theta, each of which depends on scales that it leaves alone.

    Attributes
    ----------
    first : ndarray, shape (K + 1,), int64
        Where the elements of a direction begin among all of them.
    place : ndarray, shape (T,), int64
        Place in theta of each element, which is not a scale.
    weight : ndarray, shape (T,)
        Its change, where the logarithm of its scale is zero.
    scale : ndarray, shape (T,), int64
        Place in theta of the logarithm of the scale that divides the change; -1 if there is none.
    """

    first: IntVector
    place: IntVector
    weight: Vector
    scale: IntVector

    @property
    def n_shifts(self) -> int:
        """Number of directions, K."""
        return len(self.first) - 1


NO_SHIFTS = Shifts(np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64))


@kernel_part
def add_shift(shifts, k, change, at, theta):
    """Add direction k at parameters `at`, times a number, to theta."""
    for t in range(shifts.first[k], shifts.first[k + 1]):
        weight = shifts.weight[t]
        if shifts.scale[t] >= 0:
            weight *= np.exp(-at[shifts.scale[t]])
        theta[shifts.place[t]] += change * weight


@kernel_part
def propose_shift(rng, posterior, k, chain):
    """Propose chain.v_new, moved along direction k.

    The move back is as likely, for the direction depends on what does not move, and the Jacobian is
    one. The width is that at the centre, whatever the state.
    """
    shifts, geometry, theta = posterior.shifts, posterior.geometry, chain.theta_new
    for j in range(theta.shape[0]):
        chain.v_new[j] = 0.0
    unstandardise(geometry, chain.v_new, theta)
    # Scales stay, on which the direction depends.
    add_shift(shifts, k, 1.0, theta, theta)
    standardise(geometry, theta, chain.v_new)
    square = 0.0
    for j in range(theta.shape[0]):
        square += chain.v_new[j] * chain.v_new[j]
    width = NARROWEST * (WIDEST / NARROWEST) ** rng.random() / np.sqrt(square)
    change = width * rng.standard_normal()
    for j in range(theta.shape[0]):
        theta[j] = chain.theta[j]
    add_shift(shifts, k, change, chain.theta, theta)
    standardise(geometry, theta, chain.v_new)
