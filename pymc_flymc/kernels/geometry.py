"""Coordinates in which the posterior is about standard normal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import numpy as np
from numba import types
from scipy.linalg import solve_triangular

from pymc_flymc.kernels.following import (
    NO_FOLLOWING,
    Following,
    gather_effects,
    gather_gradient,
    spread_effects,
)
from pymc_flymc.kernels.native import IntVector, Matrix, Vector, kernel_part

#: Least variance along a direction: the map must be invertible.
LEAST_VARIANCE = 1e-4
_NO_PAIRS, _NO_MIXING = np.empty((0, 3), np.int64), np.empty(0)
_NO_DIRECTIONS, _NO_STRETCH = np.empty((0, 0)), np.empty(0)


class Geometry(NamedTuple):
    r"""Standardised coordinates v: theta = centre + L^-T v, where L L' is the Laplace precision.

    With few parameters that precision is a dense matrix, and ``L^-T`` a Cholesky factor of its
    inverse. With many effects of groups it is approximated by

    .. math:: \begin{pmatrix} C & B \\ B^\top & \mathrm{diag}(d) \end{pmatrix},

    an arrow matrix: *diagonal* elements are coupled to the *dense* ones, and not to each other.
    This is exact for random intercepts of one grouping factor. For other models the coupling among
    diagonal elements is left out, but for a few directions in which it matters most. That guides
    proposals and the tightness of bounds only: the draws' distribution does not depend on it.

    ``x[dense] = factor u[dense]`` and ``x[diagonal] = S u[diagonal] - coupling' x[dense]``, where
    x = theta - centre and ``u = v + sum_k c_k (q_k . v) q_k``, with orthonormal q_k. All of v, u
    and theta are in the order of theta.

    With several effects per group, such as correlated intercepts and slopes, diag(d) is a matrix
    of small blocks, one for each group. The diagonal elements come in runs, the first effect of all
    groups, then the second, and S has diagonals beside its own, one for each pair of runs.

    Where effects follow their scales, these are the coordinates of x, and theta is a function of it
    that is not linear; see `following`.

    Attributes
    ----------
    centre : ndarray, shape (D,)
    dense : ndarray, shape (M,), int64
        Elements of theta that are correlated with one another.
    diagonal : ndarray, shape (D - M,), int64
        Elements that are independent given the dense ones.
    factor : ndarray, shape (M, M)
        Lower-triangular F with F F' = (C - B diag(d)^-1 B')^-1, about the posterior covariance of
        the dense elements.
    scale : ndarray, shape (D - M,)
        d^(-1/2), conditional posterior sds of the diagonal ones: the diagonal of S.
    coupling : ndarray, shape (M, D - M)
        B diag(d)^-1.
    pairs : ndarray, shape (R, 3), int64
        For each pair: where a run begins among the diagonal elements, where an earlier run begins
        that it depends on, and how long both are. Ordered by the first.
    mixing : ndarray
        The elements of S for all pairs, one after the other.
    directions : ndarray, shape (R, D)
        q_k: directions that couple diagonal elements. Geometries without these have none.
    stretch : ndarray, shape (R,)
        c_k: the posterior sd along q_k, in coordinates u, less one.
    following : Following
    """

    centre: Vector
    dense: IntVector
    diagonal: IntVector
    factor: Matrix
    scale: Vector
    coupling: Matrix
    pairs: Annotated[np.ndarray, types.Array(types.int64, 2, "C")] = _NO_PAIRS
    mixing: Vector = _NO_MIXING
    directions: Matrix = _NO_DIRECTIONS
    stretch: Vector = _NO_STRETCH
    following: Following = NO_FOLLOWING

    def unstandardise(self, v: np.ndarray) -> np.ndarray:
        """Return theta for standardised v, shape (D,)."""
        return self.following.spread(self.centre + self.spread(v))

    def standardise(self, theta: np.ndarray) -> np.ndarray:
        """Return v for theta, the inverse of `unstandardise`."""
        x = self.following.gather(theta) - self.centre
        v = np.empty_like(theta, dtype=np.float64)
        v[self.dense] = solve_triangular(self.factor, x[self.dense], lower=True)
        diagonal = x[self.diagonal] + self.coupling.T @ x[self.dense]
        for run, before, mixing in self._mixed():
            diagonal[run] -= mixing * diagonal[before] / self.scale[before]
        v[self.diagonal] = diagonal / self.scale
        return self._stretched(v, -self.stretch / (1.0 + self.stretch))

    def spread(self, v: np.ndarray) -> np.ndarray:
        """Return x = L^-T v, shape (D,): it has the Laplace covariance if v is standard normal."""
        v = self._stretched(v, self.stretch)
        x = np.empty_like(v, dtype=np.float64)
        x[self.dense] = self.factor @ v[self.dense]
        diagonal = self.scale * v[self.diagonal] - self.coupling.T @ x[self.dense]
        for run, before, mixing in self._mixed():
            diagonal[run] += mixing * v[self.diagonal[before]]
        x[self.diagonal] = diagonal
        return x

    def standardise_gradient(self, g: np.ndarray) -> np.ndarray:
        """Return L^-1 g: the gradient in v of a function with gradient g in theta."""
        out = np.empty_like(g, dtype=np.float64)
        out[self.dense] = self.factor.T @ (g[self.dense] - self.coupling @ g[self.diagonal])
        diagonal = self.scale * g[self.diagonal]
        for run, before, mixing in self._mixed():
            diagonal[before] += mixing * g[self.diagonal[run]]
        out[self.diagonal] = diagonal
        return self._stretched(out, self.stretch)

    def _stretched(self, v: np.ndarray, stretch: np.ndarray) -> np.ndarray:
        """Return ``v + sum_k c_k (q_k . v) q_k``; with ``-c / (1 + c)`` for c it is the inverse."""
        if not len(stretch):
            return v
        return np.asarray(v + (stretch * (self.directions @ v)) @ self.directions)

    def rescaled(self, factors: np.ndarray, root: np.ndarray) -> Geometry:
        """Return coordinates for draws of v with a variance other than one.

        `factors` (D - M,): sds of the diagonal elements. `root` (M, M): Cholesky factor of the
        covariance of the dense ones.
        """
        mixing = [each * factors[before] for _, before, each in self._mixed()]
        changed = self._replace(
            factor=np.ascontiguousarray(self.factor @ root),
            scale=self.scale * factors,
            mixing=np.concatenate([self.mixing[:0], *mixing]),
        )
        if not len(self.stretch):
            return changed
        # What directions add to the covariance of theta stays as it is.
        q = np.empty_like(self.directions)
        q[:, self.diagonal] = self.directions[:, self.diagonal] / factors
        q[:, self.dense] = solve_triangular(root, self.directions[:, self.dense].T, lower=True).T
        basis, corner = np.linalg.qr(q.T)
        excess, vectors = np.linalg.eigh((corner * ((1.0 + self.stretch) ** 2 - 1.0)) @ corner.T)
        directions = np.ascontiguousarray((basis @ vectors).T)
        stretch = np.sqrt(np.maximum(1.0 + excess, LEAST_VARIANCE)) - 1.0
        return changed._replace(directions=directions, stretch=stretch)

    def conditional_sds(self) -> np.ndarray:
        """Return the lengths of the rows of S, shape (D - M,)."""
        squares = self.scale**2
        for run, _, mixing in self._mixed():
            squares[run] += mixing**2
        return np.sqrt(squares)

    def followed(self, following: Following) -> Geometry:
        """Return about the same distribution in coordinates in which effects follow scales.

        These are exact at the centre, but for scales and locations among the diagonal elements.
        """
        if not len(following.effects):
            return self
        theta, factor, mixing = self.centre, self.factor, self.mixing.copy()
        growth, _, along = following.factors(theta)
        around = following.locations
        # dx = (dtheta - change) / growth, where scales and locations change.
        change = np.zeros((len(self.dense), len(growth)))
        for k, effects in enumerate(map(slice, following.first[:-1], following.first[1:])):
            for t in range(following.first_scale[k], following.first_scale[k + 1]):
                at = self.dense == following.scale[t]
                change[at, effects] += following.power[t] * along[effects]
        rows = np.repeat(np.arange(len(growth)), np.diff(around.first))
        for i, place, weight in zip(rows, around.place, around.weight, strict=True):
            change[self.dense == place, i] += (1.0 - growth[i]) * weight
        divisor, linear = np.ones(len(theta)), np.eye(len(self.dense))
        divisor[following.effects] = growth
        is_dense = np.isin(following.effects, self.dense)
        places = np.searchsorted(self.dense, following.effects[is_dense])
        linear[places] = (linear[places] - change[:, is_dense].T) / growth[is_dense, None]
        if is_dense.any():
            root = np.linalg.qr((linear @ factor).T, mode="r").T
            factor = np.ascontiguousarray(root * np.sign(np.diag(root)))
        place_of = np.empty(len(theta), np.int64)
        place_of[self.diagonal] = np.arange(len(self.diagonal))
        places = place_of[following.effects[~is_dense]]
        coupling, divisor = self.coupling.copy(), divisor[self.diagonal]
        coupling[:, places] += change[:, ~is_dense]
        if is_dense.any():  # with dense elements of x, not of theta
            coupling = np.linalg.solve(linear.T, coupling)
        at = 0
        for run, _, each in self._mixed():
            mixing[at : at + len(each)] = each / divisor[run]
            at += len(each)
        return self._replace(
            centre=following.gather(theta),
            factor=factor,
            scale=self.scale / divisor,
            coupling=np.ascontiguousarray(coupling / divisor),
            mixing=mixing,
            following=following,
        )

    def _mixed(self) -> Iterator[tuple[slice, slice, np.ndarray]]:
        """Yield pairs of runs, with the elements of S for them."""
        at = 0
        for start, before, length in self.pairs:
            mixing = self.mixing[at : at + length]
            yield slice(start, start + length), slice(before, before + length), mixing
            at += length


def dense_geometry(centre: np.ndarray, factor: np.ndarray) -> Geometry:
    """Return coordinates without diagonal elements."""
    d, none = len(centre), np.empty(0, np.int64)
    return Geometry(centre, np.arange(d), none, factor, np.empty(0), np.empty((d, 0)))


@kernel_part(fastmath={"reassoc", "contract", "nsz"})
def add_stretch(geometry, v):
    """Replace v by ``v + sum_k c_k (q_k . v) q_k``: one after the other, for q_k are orthogonal."""
    for k in range(geometry.stretch.shape[0]):
        direction, along = geometry.directions[k], 0.0
        for j in range(v.shape[0]):
            along += direction[j] * v[j]
        along *= geometry.stretch[k]
        for j in range(v.shape[0]):
            v[j] += along * direction[j]


@kernel_part
def unstandardise(geometry, v, theta):
    """Write theta for standardised v."""
    _unstandardise(geometry, v, theta)
    spread_effects(geometry.following, theta)


@kernel_part(fastmath={"reassoc", "contract", "nsz"})
def _unstandardise(geometry, v, theta):
    """Write x = centre + L^-T v, to theta."""
    n_diagonal = geometry.diagonal.shape[0]
    if n_diagonal == 0:  # the elements in their order: no gathering, one vector loop
        for i in range(v.shape[0]):
            total = 0.0
            for j in range(i + 1):
                total += geometry.factor[i, j] * v[j]
            theta[i] = geometry.centre[i] + total
        return
    if geometry.stretch.shape[0] > 0:
        v = v.copy()
        add_stretch(geometry, v)
    n_dense = geometry.dense.shape[0]
    for i in range(n_dense):
        total = 0.0
        for j in range(i + 1):
            total += geometry.factor[i, j] * v[geometry.dense[j]]
        # The centre is added once the diagonal elements have been computed from this.
        theta[geometry.dense[i]] = total
    # Diagonal elements are many: they are gathered first, so that loops over them are vectorised.
    diagonal = np.empty(n_diagonal)
    for i in range(n_diagonal):
        diagonal[i] = geometry.scale[i] * v[geometry.diagonal[i]]
    at = 0
    for k in range(geometry.pairs.shape[0]):
        start, before, length = geometry.pairs[k]
        for i in range(length):
            diagonal[start + i] += geometry.mixing[at + i] * v[geometry.diagonal[before + i]]
        at += length
    for j in range(n_dense):
        coupling, each = geometry.coupling[j], theta[geometry.dense[j]]
        for i in range(n_diagonal):
            diagonal[i] -= each * coupling[i]
    for i in range(n_diagonal):
        theta[geometry.diagonal[i]] = geometry.centre[geometry.diagonal[i]] + diagonal[i]
    for i in range(n_dense):
        theta[geometry.dense[i]] += geometry.centre[geometry.dense[i]]


@kernel_part
def standardise(geometry, theta, v):
    """Write v for theta: the inverse of `unstandardise`."""
    if geometry.following.effects.shape[0] > 0:
        theta = theta.copy()
        gather_effects(geometry.following, theta)
    standardise_x(geometry, theta, v)


@kernel_part(fastmath={"reassoc", "contract", "nsz"})
def standardise_x(geometry, theta, v):
    """Write v for x, theta."""
    n_dense, n_diagonal = geometry.dense.shape[0], geometry.diagonal.shape[0]
    diagonal = np.empty(n_diagonal)
    for i in range(n_diagonal):
        diagonal[i] = theta[geometry.diagonal[i]] - geometry.centre[geometry.diagonal[i]]
    for i in range(n_dense):
        x = theta[geometry.dense[i]] - geometry.centre[geometry.dense[i]]
        for k in range(n_diagonal):
            diagonal[k] += geometry.coupling[i, k] * x
        for j in range(i):
            x -= geometry.factor[i, j] * v[geometry.dense[j]]
        v[geometry.dense[i]] = x / geometry.factor[i, i]
    at = 0
    for k in range(geometry.pairs.shape[0]):
        start, before, length = geometry.pairs[k]
        for i in range(length):
            # The earlier run has its final values.
            diagonal[start + i] -= geometry.mixing[at + i] * (
                diagonal[before + i] / geometry.scale[before + i]
            )
        at += length
    for i in range(n_diagonal):
        v[geometry.diagonal[i]] = diagonal[i] / geometry.scale[i]
    for k in range(geometry.stretch.shape[0]):
        direction, along = geometry.directions[k], 0.0
        for j in range(v.shape[0]):
            along += direction[j] * v[j]
        along *= geometry.stretch[k] / (1.0 + geometry.stretch[k])
        for j in range(v.shape[0]):
            v[j] -= along * direction[j]


@kernel_part
def standardise_gradient(geometry, theta, g_theta, g_v):
    """Write the gradient in v of a log density with gradient g_theta at theta, as one of v.

    `g_theta` is overwritten. The log density of v has one more term, `following.log_volume`.
    """
    gather_gradient(geometry.following, theta, g_theta)
    _standardise_gradient(geometry, g_theta, g_v)


@kernel_part(fastmath={"reassoc", "contract", "nsz"})
def _standardise_gradient(geometry, g_theta, g_v):
    """Write g_v = L^-1 g_theta; overwrite the dense elements of `g_theta`."""
    n_dense, n_diagonal = geometry.dense.shape[0], geometry.diagonal.shape[0]
    if n_diagonal == 0:  # as above: vector loops
        for j in range(n_dense):
            g_v[j] = 0.0
        for i in range(n_dense):
            g = g_theta[i]
            for j in range(i + 1):
                g_v[j] += geometry.factor[i, j] * g
        return
    diagonal = np.empty(n_diagonal)
    for i in range(n_diagonal):
        diagonal[i] = g_theta[geometry.diagonal[i]]
        g_v[geometry.diagonal[i]] = geometry.scale[i] * diagonal[i]
    at = 0
    for k in range(geometry.pairs.shape[0]):
        start, before, length = geometry.pairs[k]
        for i in range(length):
            g_v[geometry.diagonal[before + i]] += geometry.mixing[at + i] * diagonal[start + i]
        at += length
    for j in range(n_dense):
        coupling, total = geometry.coupling[j], 0.0
        for i in range(n_diagonal):
            total += coupling[i] * diagonal[i]
        g_theta[geometry.dense[j]] -= total
    for j in range(n_dense):
        g_v[geometry.dense[j]] = 0.0
    for i in range(n_dense):
        g = g_theta[geometry.dense[i]]
        for j in range(i + 1):
            g_v[geometry.dense[j]] += geometry.factor[i, j] * g
    add_stretch(geometry, g_v)
