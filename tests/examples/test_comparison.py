"""The comparison with other methods: those on NumPy against an exact posterior, and its counts."""

import csv
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from examples.comparison import independence, langevin, reference, subsampling
from examples.comparison.__main__ import compare
from examples.comparison.laplace import laplace, log_densities
from examples.comparison.measurement import Curve, Moments, Task, TooSlow, chosen
from examples.comparison.methods import METHODS
from examples.comparison.nuts import average
from examples.comparison.output import draw, read_csv, write_csv
from examples.comparison.problem import Problem, adult, awkward

N_ROWS = 400


@pytest.fixture(scope="module")
def problem():
    """Two parameters, of which one has few positive labels to go by."""
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(N_ROWS), rng.normal(size=N_ROWS)])
    y = (rng.random(N_ROWS) < 1 / (1 + np.exp(1.5 - X[:, 1]))).astype(float)
    return Problem("toy", "toy", X, y)


@pytest.fixture(scope="module")
def task(problem):
    """Moments by quadrature."""
    start = laplace(problem)
    grid = np.linspace(-7, 7, 201)
    v = np.stack(np.meshgrid(grid, grid)).reshape(2, -1)
    theta = start.mode[:, None] + start.factor @ v
    log = log_densities(problem, theta)
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    mean = theta @ weights
    sd = np.sqrt((theta - mean[:, None]) ** 2 @ weights)
    return Task(problem, start, Moments(mean, sd, 0.0, 0.0), np.inf, 6000, 0)


def assert_close(task, curve):
    errors = task.reference.errors(curve.mean[-1], curve.sd[-1])
    assert errors[0] < 4 * curve.own_error[0]
    assert errors[1] < 4 * curve.own_error[1]


def test_the_prior_is_that_of_its_rows(problem):
    X, y = problem.with_prior_as_rows()
    theta = np.random.default_rng(0).normal(size=(2, 5)) * 3
    eta = X @ theta
    by_rows = y @ eta - np.logaddexp(0, eta).sum(axis=0)
    np.testing.assert_allclose(log_densities(problem, theta), by_rows, rtol=1e-12)


def test_the_search_ends_at_the_mode(task):
    X, y = task.problem.with_prior_as_rows()
    gradient = X.T @ (y - 1 / (1 + np.exp(-X @ task.laplace.mode)))
    assert np.abs(task.laplace.factor.T @ gradient).max() < 1e-4


@pytest.mark.parametrize(
    "run",
    [
        independence.run,
        subsampling.run_exact,
        partial(subsampling.run, rule=partial(subsampling.t_test, epsilon=0.01), batch=100),
        partial(
            subsampling.run,
            rule=partial(subsampling.bernstein, epsilon=0.01),
            batch=100,
            growth=1.0,
        ),
    ],
    ids=["independence", "all rows", "t-test", "Bernstein"],
)
def test_samplers_on_numpy_sample_the_posterior(task, run):
    curve = run(task)
    assert_close(task, curve)
    assert curve.draws >= task.draws


def test_a_careless_test_shows_a_bias(task):
    """The measure of errors sees what is wrong with draws: half of the tests end at ten rows."""
    rule = partial(subsampling.t_test, epsilon=0.45)
    curve = subsampling.run(task, rule, batch=10)
    errors = task.reference.errors(curve.mean[-1], curve.sd[-1])
    assert max(np.array(errors) / curve.own_error) > 5


def test_hamiltonian_chains_sample_the_posterior(task):
    chains = reference.Hamiltonian(task.problem, task.laplace, np.random.default_rng(0))
    chains.tune()
    draws = np.concatenate([chains.advance() for _ in range(300)]).swapaxes(0, 1)
    found = Moments.of(draws)
    errors = task.reference.errors(found.mean, found.sd)
    assert errors[0] < 4 * found.error_mean
    assert errors[1] < 4 * found.error_sd


def test_a_concentrated_posterior_takes_independent_proposals(task):
    _, origin = reference.reference(task.problem, task.laplace, 0, np.inf, 1000)
    assert "independence MH" in origin


@pytest.mark.parametrize(("growth", "read"), [(0.0, 30), (1.0, 40), (2.0, 90)])
def test_rows_are_counted(task, growth, read):
    """A test that stops after its third batch of ten rows, or of ten and ever more."""
    sampler = subsampling.Sampler(task, lambda *args: args[4] == 3, 10, growth)
    assert {sampler.draw()[1] for _ in range(20)} == {read}


def test_a_test_that_never_stops_reads_all_rows_once(task):
    sampler = subsampling.Sampler(task, lambda *args: False, 150, 0.0)
    assert {sampler.draw()[1] for _ in range(5)} == {N_ROWS}
    curve = subsampling.run_exact(replace(task, draws=50))
    assert curve.rows[-1] == task.laplace.rows + 50 * N_ROWS


def test_a_t_test_reads_fewer_rows_the_less_is_asked_of_it(task):
    def rows(epsilon):
        rule = partial(subsampling.t_test, epsilon=epsilon)
        return subsampling.run(replace(task, draws=300), rule, batch=20).rows[-1]

    assert rows(0.3) < rows(0.05) < rows(1e-9) <= task.laplace.rows + 300 * N_ROWS


def test_consensus_of_normal_shards_is_exact():
    """Precisions add up, and means are weighted with them."""
    rng = np.random.default_rng(0)
    factors = np.array([[[1.0, 0.0], [0.5, 0.7]], [[2.0, 0.0], [-1.0, 0.5]]])
    means = np.array([[0.0, 1.0], [1.0, -1.0]])
    noise = rng.standard_normal((2, 100_000, 2))
    draws = means[:, None] + np.einsum("jde,jte->jtd", factors, noise)
    precisions = np.linalg.inv(factors @ factors.swapaxes(1, 2))
    covariance = np.linalg.inv(precisions.sum(axis=0))
    mean = covariance @ np.einsum("jde,je->d", precisions, means)
    found = average(draws)
    sd = np.sqrt(np.diag(covariance))
    np.testing.assert_array_less(np.abs(found.mean(axis=0) - mean) / sd, 0.02)
    np.testing.assert_allclose(np.cov(found, rowvar=False), covariance, atol=0.02 * sd.max() ** 2)


def test_the_setting_of_least_error_is_chosen(task):
    asked = []

    def run(task, epsilon):
        asked.append((epsilon, task.draws))
        if epsilon == 0:
            raise TooSlow
        found = task.reference.mean[None] + epsilon, task.reference.sd[None]
        return Curve(np.ones(1), np.ones(1), *found)

    curve = chosen(task, (0.5, 0.1, 0), run, "epsilon")
    assert asked == [(0.5, 1500), (0.1, 1500), (0, 1500), (0.1, 6000)]
    assert curve.note == "epsilon 0.1"
    with pytest.raises(TooSlow):
        chosen(task, (0,), run, "epsilon")


def test_awkward_problem_is_awkward():
    problem = awkward(20_000)
    assert 0.008 < problem.y.mean() < 0.012
    shares = problem.X[:, 7:].mean(axis=0)
    assert shares.min() < 0.001
    assert shares.max() < 0.11


def test_census_is_read(tmp_path):
    X = np.column_stack([np.arange(6), [0, 1, 0, 0, 1, 0]])
    np.savez(tmp_path / "adult.npz", X=X, y=np.array([0, 1, 1, 0, 0, 1]))
    found = adult(tmp_path)
    np.testing.assert_allclose(found.X.mean(axis=0), [1, 0, 1 / 3], atol=1e-12)
    np.testing.assert_array_equal(found.X[:, 2], X[:, 1])


def test_command_writes_table_figure_and_points(problem, tmp_path, capsys, monkeypatch):
    missing = replace(METHODS["sgld"], libraries=("no_such_library",))
    monkeypatch.setitem(METHODS, "sgld", missing)
    curves = compare(problem, ["random-walk", "t-test", "sgld"], 1.0, 0, tmp_path, draws=400)
    printed = capsys.readouterr().out
    assert "skipped, no_such_library not installed" in printed
    assert printed.count("\n| MH, t-test | no | 400 |") == 1
    assert list(curves) == ["random-walk", "t-test"]
    with (tmp_path / "comparison_toy.csv").open() as file:
        points = list(csv.DictReader(file))
    assert {point["exact"] for point in points} == {"True", "False"}
    assert all(float(point["error_mean"]) > 0 for point in points)
    assert (tmp_path / "comparison_toy.png").stat().st_size > 10_000


def test_langevin_counts_minibatches(task):
    pytest.importorskip("blackjax")
    curve = langevin.run(replace(task, draws=200), 0.01, control_variates=True)
    first = task.laplace.rows + N_ROWS
    assert curve.draws == 200
    assert curve.rows[-1] == first + 200 * langevin.THIN * langevin.BATCH


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_every_method_runs(task, name):
    method = METHODS[name]
    if missing := method.missing():
        pytest.skip(f"needs {', '.join(missing)}")
    curve = method.run(replace(task, draws=1000, seconds=20.0))
    assert np.all(np.diff(curve.rows) >= 0)  # a draw of Firefly may read none
    assert curve.rows[-1] > curve.rows[0]
    if method.exact:
        assert_close(task, curve)


def test_figures_are_redrawn_from_their_points(tmp_path):
    """What is written is read again, also where there are no seconds."""
    points = {
        "firefly": np.array([[10.0, 0.5, 0.25, 0.125], [20.0, 1.0, 0.125, 0.0625]]),
        "mhss": np.array([[10.0, np.nan, 0.5, 0.25]]),
    }
    write_csv(points, (0.01, 0.02), tmp_path / "points.csv")
    again, own = read_csv(tmp_path / "points.csv")
    assert own == (0.01, 0.02)
    assert again.keys() == points.keys()
    for name, found in points.items():
        np.testing.assert_array_equal(again[name], found)
    draw(again, own, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").exists()
