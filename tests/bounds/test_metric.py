"""The metric of a Taylor bound's radius, and the radius' distribution."""

import subprocess
import sys
import warnings

import numpy as np
import pymc as pm
import pytest
from scipy.stats import chi

from pymc_flymc.bounds.taylor import chi_moment, chi_quantile, spans_of
from tests.support.steps import drive, step_of

X = np.random.default_rng(3).normal(size=300)
Y = np.random.default_rng(4).integers(0, 2, 300)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["auto", "joint"])
def test_a_product_of_two_parameters(kernel):
    """Its mode is at zero, where the product has no gradient; moments of it by quadrature."""
    with pm.Model() as model:
        a, b = pm.Normal("a"), pm.Normal("b")
        pm.Bernoulli("y", logit_p=a * b * X, observed=Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        step = step_of(model, kernel=kernel)
    draws, _ = drive(step, model.initial_point(), tune=500, draws=2000, chains=4)
    found = draws.prod(axis=-1)  # (chains, draws)

    grid = np.linspace(-6.0, 6.0, 601)
    product = np.multiply.outer(grid, grid)
    slopes = np.linspace(-36.0, 36.0, 14_401)
    eta = slopes[:, None] * X
    log_likelihood = (Y * eta - np.logaddexp(0.0, eta)).sum(axis=1)
    log_density = np.interp(product, slopes, log_likelihood)
    log_density -= 0.5 * np.add.outer(grid**2, grid**2)
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    for power in (1, 2):
        expected = (weights * product**power).sum()
        # Of batch means, which hold most of the dependence of draws.
        means = (found**power).reshape(40, -1).mean(axis=1)
        assert abs(means.mean() - expected) < 4.0 * means.std(ddof=1) / np.sqrt(len(means))


def test_spans_reach_the_differences_of_all_classes():
    """And no further: the reference class, zero, is one of them."""
    rng = np.random.default_rng(0)
    k, p = 3, 2
    metric, x = rng.normal(size=(k * p, k * p)), rng.normal(size=p)
    of_predictors = metric.reshape(k, p, k * p).transpose(0, 2, 1) @ x  # (k, k p): eta = this @ v
    classes = np.concatenate([np.zeros((1, k * p)), of_predictors])
    furthest = [np.linalg.norm(a - b) for i, a in enumerate(classes) for b in classes[:i]]
    reached = [np.linalg.norm(x @ span) for span in spans_of(metric, k)]
    np.testing.assert_allclose(np.sort(reached), np.sort(furthest), rtol=1e-12)
    of_each = np.linalg.norm(of_predictors, axis=1)  # the first are those of predictors themselves
    np.testing.assert_allclose(reached[:k], of_each, rtol=1e-12)


@pytest.mark.parametrize("degrees", [1, 2, 7, 51, 1701])
def test_as_scipy_s(degrees):
    for order in (3, 4):
        expected = chi.expect(lambda r, k=order: r**k, args=(degrees,))
        np.testing.assert_allclose(chi_moment(order, degrees), expected, rtol=1e-7)
    for probability in (0.5, 0.99, 1 - 1e-9):
        expected = chi.ppf(probability, degrees)
        np.testing.assert_allclose(chi_quantile(probability, degrees), expected, rtol=1e-12)


def test_imports_leave_out_what_takes_longest():
    """They would double the time that `import pymc` takes."""
    code = "import sys, pymc_flymc; print({'scipy.stats', 'arviz_stats'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
