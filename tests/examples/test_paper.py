"""The paper's experiments, at toy size."""

import csv
import io
import tarfile

import numpy as np
import pytest

from examples.paper import originals
from examples.paper.__main__ import main
from examples.paper.agreement import compare_all
from examples.paper.data import FILES, load
from examples.paper.ess import autocorrelation, effective_size
from examples.paper.experiments import EXPERIMENTS
from examples.paper.figure_1 import XI, bound
from examples.paper.figure_2 import draw_figure_2
from examples.paper.models import logistic, robust, softmax
from examples.paper.running import Run, _once
from examples.paper.simulated import SIMULATED
from examples.paper.table import speedups, table_1

RNG = np.random.default_rng(0)


def series(phi, n, rng=RNG):
    """First-order autoregressive series of unit variance."""
    noise = rng.normal(size=n) * np.sqrt(1.0 - phi**2)
    noise[0] /= np.sqrt(1.0 - phi**2)
    x = np.empty(n)
    x[0] = noise[0]
    for i in range(1, n):
        x[i] = phi * x[i - 1] + noise[i]
    return x


@pytest.mark.parametrize("phi", [-0.5, 0.0, 0.5, 0.95])
def test_effective_size_of_an_autoregression(phi):
    """It has n (1 - phi) / (1 + phi) effective draws; the estimate is normal around that."""
    n, repeats = 4000, 40
    found = np.array([effective_size(series(phi, n)) for _ in range(repeats)])
    expected = n * (1.0 - phi) / (1.0 + phi)
    ratio = found / expected
    # An estimated phi has a bias of order 1/n, some dozens of times as large in 1 / (1 - phi)^2.
    bias = 20.0 / (n * (1.0 - phi))
    assert abs(ratio.mean() - 1.0) < 4.0 * ratio.std() / np.sqrt(repeats) + bias
    assert ratio.std() < 0.3
    lag = autocorrelation(series(phi, 20_000), 3)
    np.testing.assert_allclose(lag, phi ** np.arange(4.0), atol=4.0 * np.sqrt(40.0 / 20_000))


def test_a_constant_has_no_effective_size():
    assert effective_size(np.ones(100)) == 0.0


def test_the_bound_of_figure_1():
    eta = np.linspace(-8.0, 8.0, 400)
    assert np.all(bound(eta) <= 1.0 / (1.0 + np.exp(-eta)) * (1.0 + 1e-12))
    touch = np.array([-XI, XI])
    np.testing.assert_allclose(bound(touch), 1.0 / (1.0 + np.exp(-touch)), rtol=1e-12)


def run_of(draws, key="regular", queries=100):
    line = next(line for line in EXPERIMENTS["mnist"].lines if line.key == key)
    counts = np.full(draws.shape[:2], queries)
    return Run(line, draws, draws[:, :0], counts, counts[:, :0], counts)


def test_agreement_of_samplers():
    """Draws of the same distribution agree; a shift or a chunk of a fifth of an sd does not."""
    first, second = RNG.normal(size=(2, 2, 2000, 5))
    [same] = compare_all([run_of(first), run_of(second, "tuned")])
    assert same.agree and same.compared == 10 and same.left_out == 0
    for other in (second + 0.2 * (np.arange(5) == 3), second * np.where(np.arange(5) == 3, 1.2, 1)):
        [comparison] = compare_all([run_of(first), run_of(other, "tuned")])
        assert not comparison.agree
    stuck = np.repeat(second[:, :4], 500, axis=1)
    [unknown] = compare_all([run_of(first), run_of(stuck, "tuned")])
    assert unknown.compared == 0 and unknown.left_out == 10


def test_speedups_are_of_effective_draws_for_a_query():
    fast, slow = RNG.normal(size=(2, 2, 500, 3))
    runs = [run_of(slow, queries=1000), run_of(fast, "tuned", queries=10)]
    ratio = [np.median(runs[1].ess) / np.median(runs[0].ess), runs[1].ess.min() / runs[0].ess.min()]
    np.testing.assert_allclose(speedups(runs)[1], 100.0 * np.array(ratio))
    assert table_1("mnist", runs)[1][6] == "207, 1.40, 22"


def test_rows_whose_gradient_is_kept_are_read_once():
    bright = np.array([[3, 5, 4]])
    np.testing.assert_array_equal(_once(np.array([[10, 12, 11]]), bright), [[7, 9, 6]])


# --- data ---------------------------------------------------------------------------------------


def test_mnist_is_prepared():
    images, labels = RNG.integers(0, 256, size=(80, 784)), np.arange(80) % 10
    X, y = originals.prepare_mnist(images, labels.astype(str), 5)
    assert X.shape == (16, 5)
    np.testing.assert_array_equal(y, np.tile([0, 1], 8))
    covariance = X.T @ X
    np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-9)
    assert np.all(np.diff(np.diag(covariance)) < 0)


def test_cifar_is_prepared():
    batches = [RNG.integers(0, 10, size=(30, 3073)).astype(np.uint8) for _ in range(2)]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for i, content in enumerate([*(batch.tobytes() for batch in batches), b"names"]):
            member = tarfile.TarInfo(f"batches/{i}.{'bin' if i < 2 else 'txt'}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    pixels, labels = originals.read_cifar(buffer.getvalue())
    np.testing.assert_array_equal(pixels, np.concatenate(batches)[:, 1:])
    X, y = originals.prepare_cifar(pixels, labels, 4)
    assert len(X) == np.sum(labels < 3) and set(y) <= {0, 1, 2}
    assert np.all(np.abs(X.mean(axis=0) - 0.5) < 1.0 / len(X))


def test_molecules_are_read(tmp_path):
    a, b = RNG.normal(size=(2, 50))
    path, header = tmp_path / "table.csv", "name,PCE,a,b,same,constant\n"
    lines = [f"m{i},{a[i] - b[i]},{a[i]},{b[i]},{2 * a[i]},1" for i in range(50)]
    path.write_text(header + "\n".join(lines))
    X, y = originals.read_molecules(path)
    assert X.shape == (50, 3)
    np.testing.assert_allclose([X.mean(), y.mean(), y.std()], [0, 0, 1], atol=1e-12)
    data = load("molecules", None, path)
    assert data.X.shape == (50, 3) and not data.simulated  # one of two equal columns, and the bias
    path.write_text("name,a\nm,1\n")
    with pytest.raises(OSError, match="has no column PCE"):
        originals.read_molecules(path)


def test_what_cannot_be_fetched_is_simulated(monkeypatch, capsys):
    def offline():
        raise OSError("no network")

    monkeypatch.setattr(originals, "fetch_mnist", offline)
    data = load("mnist", None)
    assert data.simulated and "SIMULATED" in data.source
    assert data.X.shape == (12_214, 51)
    assert "mnist: no network" in capsys.readouterr().out
    assert "SIMULATED" in data.some(100).source and len(data.some(100).y) == 101


# --- models and commands ------------------------------------------------------------------------

MODELS = {"mnist": logistic, "cifar": softmax, "molecules": robust}


@pytest.mark.parametrize("name", MODELS)
def test_log_posterior_is_that_of_the_model(name):
    """Up to a constant: its differences are those of the model's own density."""
    from examples.paper.data import Data

    X, y = SIMULATED[name](40, 3)
    model = MODELS[name](Data.of(X, y, "simulated", True))
    density = model.pymc.compile_logp()
    points = [model.draw_prior(np.random.default_rng(i)) for i in range(3)]
    ours = [model.log_posterior(point) for point in points]
    theirs = [float(density({"beta": point})) for point in points]
    np.testing.assert_allclose(np.diff(ours), np.diff(theirs), rtol=1e-10)


def test_toy(tmp_path):
    """Which rows are bright follows from theta: those far from the line are."""
    thetas, bright = draw_figure_2(tmp_path / "figure.png", n=120)
    assert thetas.shape == (120, 3) and bright.shape == (120, 60)
    assert 0 < bright.mean() < 1 and (tmp_path / "figure.png").stat().st_size > 0
    assert np.any(bright[1:] != bright[:-1])


@pytest.mark.slow
def test_experiment(tmp_path, capsys):
    """Regular MCMC and FlyMC on a few rows: table, CSV and figure, and samplers that agree."""
    X, y = SIMULATED["mnist"](200, 2)
    np.savez(tmp_path / FILES["mnist"], X=X, y=y)
    command = f"mnist --data {tmp_path} --output {tmp_path} --lines regular tuned --length 0.2"
    main([*command.split(), "--cores", "1"])
    with (tmp_path / "paper_mnist.csv").open() as file:
        regular, tuned = csv.DictReader(file)
    assert regular["queries per iteration"] == "200"
    assert float(tuned["queries per iteration"]) < 200
    assert "Regular MCMC and MAP-tuned FlyMC: agree" in capsys.readouterr().out
    figure = tmp_path / "paper_figure_4_mnist.png"
    drawn = figure.read_bytes()
    figure.unlink()
    main(["mnist", "--redraw", "--output", str(tmp_path)])
    assert figure.read_bytes() == drawn
