"""Plots of a run: what they show is what was read, and how bright rows are."""

import copy

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytest

from pymc_flymc import JaakkolaJordan, plot_brightness, plot_cost
from pymc_flymc.plots import row_brightness
from pymc_flymc.run_report import Run
from tests.support.data import logistic_rows
from tests.support.steps import logistic_step, sample, step_of
from tests.test_run_report import ROWS, normal_draws, run_of

N, XI = 1_000, 1.5


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_cost_of_each_parameter():
    draws = normal_draws()
    draws[..., 2] = np.repeat(draws[:, ::10, 2], 10, axis=1)  # each lasts for ten draws
    idata = run_of(draws, likelihood_queries=10.0)
    plot = plot_cost(idata)
    points = plot.get_viz("cost", "cost").get_offsets()
    run = Run(idata)
    np.testing.assert_allclose(points[:, 0], np.sort(run.read_for))
    assert run.read_for.argmax() == run.slowest == 2
    axes = plot.get_viz("plot", "cost")
    assert [label.get_text() for label in axes.get_yticklabels()][-1] == "beta[sex]"
    lines = [line.get_xdata()[0] for line in axes.get_lines()]
    assert lines == [ROWS]


def test_costs_of_many_parameters():
    idata = run_of()
    many = np.concatenate([normal_draws(seed) for seed in range(30)], axis=-1)
    idata["posterior"] = (
        idata["posterior"].to_dataset().assign(effect=(("chain", "draw", "group"), many))
    )
    points = plot_cost(idata).get_viz("cost", "cost").get_offsets()
    np.testing.assert_allclose(points[:, 0], np.sort(Run(idata).read_for)[-40:])


def test_labels_are_within_the_figure():
    """As `savefig` draws it, which cuts off what is not."""
    (axes,) = plot_cost(run_of()).viz["figure"].item().axes
    axes.figure.draw_without_rendering()
    assert axes.xaxis.label.get_window_extent().y0 >= 0.0


def test_other_backends():
    plot = plot_cost(run_of(), backend="none")
    assert plot.backend == "none" and "cost" in plot.viz


def scaled_model():
    """Coefficients that depend on a variable with a transform."""
    X, y = logistic_rows(N, 3)
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1)
        z = pm.Normal("z", 0, 1, shape=3)
        pm.Bernoulli("y", logit_p=X @ (tau * z), observed=y)
    return model, X, y


@pytest.fixture(scope="module")
def scaled():
    model, X, y = scaled_model()
    step = step_of(model, bound=JaakkolaJordan(xi=XI, slack=0.0))
    return step, sample(model, step), X, y


def test_brightness_is_that_of_the_bound(scaled):
    """Against the bound of Jaakkola and Jordan, written down."""
    step, idata, X, y = scaled
    (found,) = row_brightness(idata, step, N, 10_000)
    posterior = idata["posterior"]
    w = posterior["tau"].to_numpy()[..., None] * posterior["z"].to_numpy()
    t = np.where(y, 1.0, -1.0) * (w.reshape(-1, 3) @ X.T)
    quadratic = -np.tanh(XI / 2) / (4 * XI) * (t**2 - XI**2) + (t - XI) / 2
    log_bound = quadratic - np.logaddexp(0, -XI)
    expected = -np.expm1(log_bound + np.logaddexp(0, -t))
    np.testing.assert_allclose(found.probability, expected.mean(axis=0), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.spread, t.std(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.predictor[:, 0], (w.reshape(-1, 3) @ X.T).mean(axis=0))


@pytest.mark.parametrize("kernel", ["joint", "surrogate"])
def test_brightness_is_that_of_the_run(kernel):
    """Of all rows it adds up to the number of bright ones."""
    X, y = logistic_rows(N, 3)
    step_and = logistic_step(X, y, kernel=kernel)
    idata = sample(*step_and, draws=2000)
    (found,) = row_brightness(idata, step_and[1], N, 500)
    seen = idata["sample_stats"]["n_bright"].to_numpy()
    error = seen.std() / np.sqrt(seen.size / 4)
    always = (found.probability == 1.0).sum()  # exact rows of a surrogate are not counted
    assert found.probability.sum() - always == pytest.approx(seen.mean(), abs=4 * error)
    assert seen.mean() > 10 * error  # or it would prove nothing


def test_panels(scaled):
    step, idata, *_ = scaled
    plot = plot_brightness(idata, step, rows=100, draws=5)
    assert list(plot.data) == ["y, by leverage", "y, by predictor"]
    assert len(plot.get_viz("rows", "y, by leverage").get_offsets()) == 100
    assert plot.get_viz("plot", "y, by leverage").get_yscale() == "log"


def test_what_cannot_be_plotted(scaled):
    step, idata, *_ = scaled
    with pytest.raises(ValueError, match="no draws of \\['z'\\]"):
        row_brightness({"posterior": idata["posterior"].to_dataset()[["tau"]]}, step, 10, 10)
    with pytest.raises(ValueError, match="all rows are read"):
        row_brightness(idata, step_of(step.model, bound=None), 10, 10)
    with pytest.raises(ValueError, match="give the step that was copied"):
        row_brightness(idata, copy.copy(step), 10, 10)
