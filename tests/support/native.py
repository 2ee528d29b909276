"""Kernels, and parts of them that compiled code alone can call otherwise."""

import numpy as np
from numba import jit, njit

from pymc_flymc.kernels import (
    brightness,
    dark_rates,
    following,
    fresh_brightness,
    geometry,
    posterior,
    rows,
    trajectory,
)
from pymc_flymc.kernels.native import map_fields
from pymc_flymc.kernels.slice import new_slices
from pymc_flymc.kernels.trajectory import new_dynamics

#: Kernels with gradients or slices: where they are, and their settings for d parameters.
KERNELS = {
    "hmc": ("hamiltonian", lambda d, p: new_dynamics(d, p, np.pi, 0.8)),
    "mala": ("hamiltonian", lambda d, p: new_dynamics(d, p, 0.0, 0.574)),
    "slice": ("slice", lambda d, p: new_slices(d, False)),
    "slice-random": ("slice", lambda d, p: new_slices(d, True)),
}


def arrays_of(record):
    """Return copies of all arrays of a record of a kernel."""
    arrays = []
    map_fields(record, lambda array: arrays.append(np.copy(array)))
    return arrays


def from_python(function):
    """Compile a part of kernels, which compiled code alone can call, for calls from Python."""
    wrappers = {"no_cpython_wrapper": False, "no_cfunc_wrapper": False}
    return jit(**function.targetoptions | wrappers)(function.py_func)


brighten, darken, is_bright = map(
    from_python, (brightness.brighten, brightness.darken, brightness.is_bright)
)
unstandardise, standardise, standardise_gradient = map(
    from_python, (geometry.unstandardise, geometry.standardise, geometry.standardise_gradient)
)
accept_conditional_update, log_ratio_at = map(
    from_python, (posterior.accept_conditional_update, posterior.log_ratio_at)
)
density_and_gradient, row_force = map(
    from_python, (trajectory.density_and_gradient, trajectory.row_force)
)
location_of, gather_gradient, log_volume = map(
    from_python, (following.location_of, following.gather_gradient, following.log_volume)
)
adapt_step = from_python(trajectory.adapt_step)
draw_bright, sort = map(from_python, (fresh_brightness.draw_bright, fresh_brightness.sort))
add_rows, row_predictors = map(from_python, (rows.add_rows, rows.row_predictors))


@njit
def rate_at(rows, w, n):
    """Call `rate_of` from Python."""
    return dark_rates.rate_of(rows, w, n)


@njit
def take_dark(rows, bright, chain):
    """Call the kernels' function from Python."""
    dark_rates.take_dark(rows, bright, chain)


def jacobian_of(geometry):
    """Jacobian of the map from standardised coordinates, shape (D, D)."""
    columns = np.empty((len(geometry.centre), len(geometry.centre)))
    for j, e in enumerate(np.eye(len(columns))):
        unstandardise(geometry, e, columns[j])
    return (columns - geometry.centre).T


def assert_is_gradient(gradient, function, v, step, n_terms):
    """Compare the gradient at v of a sum of so many terms with its central differences."""

    def slope_along(e):
        near = function(v + e) - function(v - e)
        far = function(v + 2.0 * e) - function(v - 2.0 * e)
        return (8.0 * near - far) / (12.0 * e.max())

    # Sums have a rounding error for each term.
    rounding = abs(function(v)) * np.finfo(float).eps * n_terms / step
    for slope, e in zip(gradient, step * np.eye(len(v)), strict=True):
        found, rougher = slope_along(e), slope_along(2.0 * e)
        # The error goes with the fourth power of the step: the rougher one's is 16 times as large.
        assert abs(slope - found) < abs(found - rougher) + rounding
