"""As few rows are bright as the exact posterior says."""

import arviz as az
import numpy as np
import pytest

from pymc_flymc import JaakkolaJordan
from tests.support.data import log_sigmoid
from tests.support.models import logistic_model, logistic_posterior
from tests.support.steps import drive, step_of


def bright_rows_on_mnist(data, bound, transitions, tune, draws):
    arrays = data("mnist_7v9_pca50")
    X = np.column_stack([np.ones(len(arrays["X"])), arrays["X"]]).astype(np.float64)
    y = arrays["y"]
    step = step_of(logistic_model(X, y), bound=bound, transitions=transitions)
    rng = np.random.default_rng(8)
    geometry = step.target.geometry
    # From the Laplace approximation: the burn-in from an overdispersed start would cost too much.
    start = geometry.centre + geometry.factor @ rng.standard_normal(51)
    draws, drawn = drive(step, {"beta": start}, tune=tune, draws=draws)
    return X, y, step, draws, drawn


def mean_and_error(x):
    return x.mean(), float(az.mcse(np.atleast_2d(x), method="mean"))


def weighted_bright(X, y, geometry, xi, n=6000):
    """Posterior and Laplace means of the bright rows, with errors, by importance sampling."""
    v = np.random.default_rng(9).standard_normal((n, X.shape[1]))
    thetas = geometry.centre + v @ geometry.factor.T
    log_p = logistic_posterior(X, y, 1.0)
    log_weight = np.concatenate([log_p(part) for part in np.array_split(thetas, n // 50)])
    log_weight += 0.5 * np.sum(v**2, axis=1)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    assert 1.0 / np.sum(weight**2) > 2000
    bright = expected_bright(X, y, thetas, xi)
    mean = weight @ bright
    error = np.sqrt(np.sum((weight * (bright - mean)) ** 2))
    return mean, error, bright.mean(), bright.std() / np.sqrt(n)


@pytest.mark.slow
@pytest.mark.parametrize("xi", [None, 1.5])
def test_few_rows_on_mnist(data, xi):
    transitions, tune, draws = (100, 200, 1500) if xi is None else (20, 100, 300)
    bound = JaakkolaJordan(xi=xi, slack=0.0)
    X, y, step, draws, drawn = bright_rows_on_mnist(data, bound, transitions, tune, draws)
    touches = np.abs(X @ step.target.geometry.centre) if xi is None else np.full(len(y), xi)
    posterior, posterior_error, laplace, laplace_error = weighted_bright(
        X, y, step.target.geometry, touches
    )
    # The trial's figures hold over the Laplace approximation. They are rounded (1 % of 54), and the
    # trial's search may have ended anywhere within a fraction of a posterior sd of our anchor: 3 %.
    trial = 54 if xi is None else 6040
    assert abs(laplace - trial) < 4 * laplace_error + 0.03 * trial
    # What the package predicts takes each row's gap as normal to second order; the mean gap is
    # exact at three nodes, 1 - exp(-gap) is not (Jensen): an estimate to a few per cent.
    assert step.target.parts[0].expected_bright == pytest.approx(laplace, rel=0.05)
    # The chain itself, against the exact posterior: nothing but Monte Carlo error.
    mean, error = mean_and_error(drawn["n_bright"])
    assert abs(mean - posterior) < 4 * np.hypot(error, posterior_error)
    # And z against its distribution given the very theta of each draw.
    mean, error = mean_and_error(drawn["n_bright"] - expected_bright(X, y, draws[0], touches))
    assert abs(mean) < 4 * error
    assert error < 0.02 * trial
    if xi is None:
        assert drawn["likelihood_queries"].sum() / drawn["transitions"].sum() < 120


def expected_bright(X, y, thetas, xi):
    """Sum over rows of 1 - B/L at each theta."""
    a, b, c = JaakkolaJordan().coefficients(xi, y.astype(float), 0.0)
    out = []
    for part in np.array_split(thetas, max(1, len(thetas) // 50)):
        eta = part @ X.T
        gap = log_sigmoid(np.where(y == 1, eta, -eta)) - (c + b * eta - a * eta**2)
        out.append(-np.expm1(-np.maximum(gap, 0.0)).sum(axis=1))
    return np.concatenate(out)
