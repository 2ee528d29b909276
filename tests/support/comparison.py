"""Reference posteriors, and the comparison of draws with them."""

from dataclasses import dataclass

import arviz as az
import numpy as np
from scipy import stats
from scipy.interpolate import CubicSpline

QUANTILES = (0.05, 0.95)
MIN_ESS = 2000
#: Differences allowed, in Monte Carlo standard errors.
N_ERRORS = 4.0
#: Chance that a comparison of very many parameters may have of failing an exact sampler.
FALSE_ALARMS = 0.01


@dataclass(frozen=True)
class Reference:
    """Mean, sd and quantiles of each parameter, with their own Monte Carlo standard errors.

    Each is a dict from ``"mean"``, ``"sd"`` and the levels in `QUANTILES` to arrays of shape (D,).
    """

    values: dict
    errors: dict


def _statistics():
    yield "mean", "mean", None
    yield "sd", "sd", None
    for level in QUANTILES:
        yield level, "quantile", level


def errors_of(draws, least=MIN_ESS):
    """Monte Carlo standard errors of draws (chain, draw, D), asserting a least ESS for each."""
    errors = {}
    for key, method, prob in _statistics():
        options = {} if prob is None else {"prob": prob}
        ess = np.min(az.ess(draws, method=method, **options))
        assert ess >= least, f"ESS of the {key} is {ess:.0f}: the comparison would be weak"
        errors[key] = az.mcse(draws, method=method, **options)
    return errors


def values_of(draws):
    flat = draws.reshape(-1, draws.shape[-1])
    values = {"mean": flat.mean(axis=0), "sd": flat.std(axis=0, ddof=1)}
    return values | {level: np.quantile(flat, level, axis=0) for level in QUANTILES}


def reference_from_draws(draws, least=MIN_ESS):
    """Reference from another sampler's draws (chain, draw, D)."""
    return Reference(values_of(draws), errors_of(draws, least))


def assert_matches(draws, reference, n_numbers=0):
    """Check draws (chain, draw, D) against a reference, within `N_ERRORS` combined errors.

    Of thousands of numbers one is farther off by chance: more errors are allowed then.

    Parameters
    ----------
    n_numbers : int, optional
        How many are compared in all, where many tests do the same and none should fail by chance.
    """
    errors, values = errors_of(draws), values_of(draws)
    n_numbers = max(n_numbers, sum(value.size for value in values.values()))
    allowed = max(N_ERRORS, stats.norm.isf(0.5 * FALSE_ALARMS / n_numbers))
    for key, value in values.items():
        error = np.hypot(errors[key], reference.errors[key])
        z = (value - reference.values[key]) / error
        assert np.all(np.abs(z) < allowed), f"{key} is {z} errors off, at {value}"


def quadrature(log_density, lower, upper, size=201):
    """Reference by the trapezoidal rule in one or two dimensions.

    The box is given; a first, coarse look finds the part of it where there is any mass.

    Parameters
    ----------
    log_density : callable
        From points (M, D) to unnormalised log densities (M,).
    """
    lower, upper = np.array(lower, dtype=float), np.array(upper, dtype=float)
    for look in (161, 41, 41):  # each shrinks the box to what is above exp(-40) of the peak
        axes, log_p = _on_grid(log_density, lower, upper, look)
        inside = log_p > log_p.max() - 40.0
        for d, axis in enumerate(axes):
            others = tuple(k for k in range(len(axes)) if k != d)
            places = np.flatnonzero(inside.any(axis=others))
            lower[d] = axis[max(places[0] - 1, 0)]
            upper[d] = axis[min(places[-1] + 1, len(axis) - 1)]
    axes, log_p = _on_grid(log_density, lower, upper, size)
    p = np.exp(log_p - log_p.max())
    keys = [key for key, _, _ in _statistics()]
    values = {key: np.empty(len(axes)) for key in keys}
    for d, axis in enumerate(axes):
        marginal = p.sum(axis=tuple(k for k in range(len(axes)) if k != d))
        marginal = marginal / marginal.sum()
        values["mean"][d] = marginal @ axis
        values["sd"][d] = np.sqrt(marginal @ (axis - values["mean"][d]) ** 2)
        cdf = CubicSpline(axis, marginal).antiderivative()
        for level in QUANTILES:
            (values[level][d],) = cdf.solve(level * cdf(axis[-1]), extrapolate=False)
    return Reference(values, {key: np.zeros(len(axes)) for key in keys})


def _on_grid(log_density, lower, upper, size):
    axes = [np.linspace(a, b, size) for a, b in zip(lower, upper, strict=True)]
    points = np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=1)
    log_p = np.concatenate([log_density(part) for part in np.array_split(points, 64)])
    return axes, log_p.reshape([size] * len(axes))
