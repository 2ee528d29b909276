"""Data, reference posteriors, and the comparison of draws with them."""

import os
from dataclasses import dataclass
from pathlib import Path

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from hypothesis import settings
from numba import jit
from scipy import stats

# Time is no criterion: the first example may compile.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

QUANTILES = (0.05, 0.95)
MIN_ESS = 2000
#: Differences allowed, in Monte Carlo standard errors.
N_ERRORS = 4.0
#: Chance that a comparison of very many parameters may have of failing an exact sampler.
FALSE_ALARMS = 0.01


def load_data(name):
    """Arrays of a real data set, as a dict; skip the test where the data folder is absent."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    path = Path(os.environ.get("PYMC_FLYMC_DATA", default)) / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"needs {name}.npz: set PYMC_FLYMC_DATA to the folder that holds it")
    with np.load(path, allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


@pytest.fixture(scope="session")
def data():
    """``data(name)`` loads a real data set or skips the test."""
    return load_data


def standardised(X):
    """Float64 columns of mean 0 and sd 1, constant ones left at 0, after a column of ones."""
    X = np.asarray(X, dtype=np.float64)
    sd = X.std(axis=0)
    return np.column_stack([np.ones(len(X)), (X - X.mean(axis=0)) / np.where(sd > 0, sd, 1.0)])


def log_sigmoid(s):
    return -np.logaddexp(0.0, -s)


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


def errors_of(draws):
    """Monte Carlo standard errors of draws (chain, draw, D), asserting `MIN_ESS` for each."""
    errors = {}
    for key, method, prob in _statistics():
        options = {} if prob is None else {"prob": prob}
        ess = np.min(az.ess(draws, method=method, **options))
        assert ess >= MIN_ESS, f"ESS of the {key} is {ess:.0f}: the comparison would be weak"
        errors[key] = az.mcse(draws, method=method, **options)
    return errors


def values_of(draws):
    flat = draws.reshape(-1, draws.shape[-1])
    values = {"mean": flat.mean(axis=0), "sd": flat.std(axis=0, ddof=1)}
    return values | {level: np.quantile(flat, level, axis=0) for level in QUANTILES}


def reference_from_draws(draws):
    """Reference from another sampler's draws (chain, draw, D)."""
    return Reference(values_of(draws), errors_of(draws))


def assert_matches(draws, reference):
    """Check draws (chain, draw, D) against a reference, within `N_ERRORS` combined errors.

    Of thousands of numbers one is farther off by chance: more errors are allowed then.
    """
    errors, values = errors_of(draws), values_of(draws)
    n_numbers = sum(value.size for value in values.values())
    allowed = max(N_ERRORS, stats.norm.isf(0.5 * FALSE_ALARMS / n_numbers))
    for key, value in values.items():
        error = np.hypot(errors[key], reference.errors[key])
        z = (value - reference.values[key]) / error
        assert np.all(np.abs(z) < allowed), f"{key} is {z} errors off, at {value}"


def quadrature(log_density, lower, upper, size=401):
    """Reference by the trapezoidal rule in one or two dimensions.

    The box is given; a first, coarse look finds the part of it where there is any mass.

    Parameters
    ----------
    log_density : callable
        From points (M, D) to unnormalised log densities (M,).
    """
    lower, upper = np.array(lower, dtype=float), np.array(upper, dtype=float)
    for _ in range(3):  # each look shrinks the box to what is above exp(-40) of the peak
        axes, log_p = _on_grid(log_density, lower, upper, 161)
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
        cdf = np.cumsum(0.5 * (marginal[1:] + marginal[:-1]))
        for level in QUANTILES:
            values[level][d] = np.interp(level, cdf / cdf[-1], axis[1:])
    return Reference(values, {key: np.zeros(len(axes)) for key in keys})


def _on_grid(log_density, lower, upper, size):
    axes = [np.linspace(a, b, size) for a, b in zip(lower, upper, strict=True)]
    points = np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=1)
    log_p = np.concatenate([log_density(part) for part in np.array_split(points, 64)])
    return axes, log_p.reshape([size] * len(axes))


def logistic_posterior(X, y, prior_sd):
    """Log density of a logistic regression with N(0, prior_sd) coefficients, for `quadrature`."""
    signed = X * (2.0 * np.asarray(y) - 1.0)[:, None]

    def log_density(points):
        return log_sigmoid(points @ signed.T).sum(axis=1) - 0.5 * np.sum(
            (points / prior_sd) ** 2, axis=1
        )

    return log_density


def from_python(function):
    """Compile a part of kernels, which compiled code alone can call, for calls from Python."""
    wrappers = {"no_cpython_wrapper": False, "no_cfunc_wrapper": False}
    return jit(**function.targetoptions | wrappers)(function.py_func)


def softmax_rows(n, d, k, seed=0):
    """Design (n, d), its first column ones, and classes of a softmax regression."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, d - 1))])
    eta = X @ rng.normal(size=(d, k))
    return X, np.argmax(eta + rng.gumbel(size=eta.shape), axis=1)


def softmax_model(X, y, k, reference=False):
    """Softmax regression with coefficients W, of all classes or all but the first."""
    with pm.Model() as model:
        W = pm.Normal("W", 0.0, 1.5, shape=(X.shape[1], k - reference))
        eta = pt.dot(X, W)
        if reference:
            eta = pt.concatenate([np.zeros((len(X), 1)), eta], axis=1)
        pm.Categorical("y", logit_p=eta, observed=y)
    return model


def drive(step, point, *, tune, draws, chains=1, seed=0):
    """Drive a step as ``pm.sample`` does, without its overhead of 100 microseconds a draw.

    Returns
    -------
    draws : ndarray, shape (chains, draws, D)
        All variables of the points, raveled in the order of the point.
    stats : dict of ndarray, shape (chains, draws)
    """
    values, stats = [], []
    initial = step.sampling_state
    for rng in np.random.default_rng(seed).spawn(chains):
        step.sampling_state = initial
        step.setup_chain(rng, tune, draws)
        step.tune = bool(tune)
        here = point
        for i in range(tune + draws):
            if i == tune:
                step.stop_tuning()
            here, [stat] = step.step(here)
            if i >= tune:
                values.append(np.concatenate([np.ravel(value) for value in here.values()]))
                stats.append(stat)
    shaped = {key: np.reshape([s[key] for s in stats], (chains, draws)) for key in stats[0]}
    return np.reshape(values, (chains, draws, -1)), shaped
