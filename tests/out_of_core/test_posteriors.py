"""Rows outside the model: the exact posterior, whatever they lie in."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import Taylor
from pymc_flymc.out_of_core import batch_target
from pymc_flymc.out_of_core import source as sources
from tests.out_of_core.test_source import KINDS, stored
from tests.support.comparison import assert_matches, quadrature, reference_from_draws
from tests.support.models import logistic_posterior
from tests.support.out_of_core import logistic, step_elsewhere, written_on_head
from tests.support.steps import drive, sample, step_of


def rows(n, d=2, seed=3, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[:, 0] = 1.0
    eta = X @ np.linspace(-0.4, 1.2, d)
    X = X.astype(dtype)
    return {"X": X, "y": (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(np.int8)}


def draws_of(model, step, draws=6000, **settings):
    return drive(step, model.initial_point(), tune=10, draws=draws, chains=2, **settings)


@pytest.mark.parametrize(
    ("n", "order"),
    [(30, 2), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((30, 3), (300, 2)))],
)
def test_few_rows_against_quadrature(n, order, monkeypatch, caplog):
    # Of 30 rows many are bright in each proposal, and the posterior is skew.
    monkeypatch.setattr(sources, "SINGLE", 20)
    monkeypatch.setattr(batch_target, "ENOUGH", 100)
    data = rows(n)
    model = written_on_head(data, logistic, 10)
    monkeypatch.setattr(batch_target, "PATIENCE", 0.0)
    with caplog.at_level("INFO", "pymc.flymc"):
        step = step_elsewhere(model, data, bound=Taylor(order=order))
    assert "rows per second" in caplog.text and "MB per second" in caplog.text
    assert len(step.target.weighers[0][1]) > 3
    draws, stats = draws_of(model, step, 12_000)
    assert stats["n_bright"].mean() > 0.2 or n > 100
    reference = quadrature(logistic_posterior(data["X"], data["y"], 1.0), [-4, -4], [4, 5])
    assert_matches(draws, reference)


@pytest.mark.slow
def test_two_likelihoods_against_quadrature(monkeypatch):
    """Of a coefficient that both have; brightness of one says nothing of the other's."""
    monkeypatch.setattr(sources, "SINGLE", 20)
    rng = np.random.default_rng(8)
    data = rows(40) | {"k": rng.poisson(0.8, 40)}

    def build(data):
        a, b = pm.Normal("a", 0.0, 1.0), pm.Normal("b", 0.0, 1.0)
        pm.Bernoulli("y_obs", logit_p=a + b * data["X"][:, 1], observed=data["y"])
        pm.Poisson("k_obs", pm.math.exp(b * data["X"][:, 1]), observed=data["k"])

    def log_density(points):
        eta = points[:, 1:] * data["X"][:, 1]
        of_counts = eta @ data["k"] - np.exp(eta).sum(axis=1)
        return logistic_posterior(data["X"], data["y"], 1.0)(points) + of_counts

    model = written_on_head(data, build, 10)
    step = step_elsewhere(model, data)
    assert len(step.target.weighers) == 2
    draws, stats = draws_of(model, step, 12_000)
    assert stats["n_bright"].mean() > 0.2
    assert_matches(draws, quadrature(log_density, [-4, -4], [4, 5]))


def test_brightness_of_two_likelihoods():
    """Rows that are the same in both are bright at other times: draws of either are its own."""
    data = rows(300)

    def build(data):
        beta = pm.Normal("beta", 0.0, 1.0, shape=2)
        for name in ("first", "second"):
            pm.Bernoulli(name, logit_p=data["X"] @ beta, observed=data["y"])

    target = step_elsewhere(written_on_head(data, build, 10), data).target
    one, other = (
        weigher.weigh_batches(target.source.partitions[0], tables[0], (1,), range(1, 2))
        for weigher, tables in target.weighers
    )
    assert len(one.places) > 20 and len(other.places) > 20
    assert not np.array_equal(one.places, other.places)


def test_another_step_on_the_same_variables_is_refused():
    """It would see the few rows that the model holds."""
    data = rows(300)
    model = written_on_head(data, logistic, 10)
    step = step_elsewhere(model, data)
    step.setup_chain(np.random.default_rng(0), 0, 1)
    point, _ = step.step(model.initial_point())
    with pytest.raises(RuntimeError, match="another step method moves variables"):
        step.step({name: value + 0.1 for name, value in point.items()})


def test_what_a_result_says_of_its_rows():
    data = rows(300)
    model = written_on_head(data, logistic, 10)
    step = step_elsewhere(model, data)
    idata = sample(model, step, draws=20)
    assert np.all(idata["sample_stats"]["n_rows"] == 300)
    assert "log_likelihood" not in idata.children
    idata.attrs.update(step.provenance)
    assert idata.attrs["n_rows"] == 300 and idata.attrs["data X"] == "memory"


@pytest.fixture(scope="module")
def in_memory():
    data = rows(3000, 4, dtype=np.float32)
    with pm.Model() as model:
        logistic({name: pm.Data(name, values) for name, values in data.items()})
    draws, _ = draws_of(model, step_of(model))
    return data, reference_from_draws(draws)


# Layouts of files have tests of their own.
SELDOM = "array", "frame", "zarr"


@pytest.mark.parametrize(
    "kind", [pytest.param(each, marks=pytest.mark.slow if each in SELDOM else ()) for each in KINDS]
)
def test_all_sources_agree_with_rows_in_memory(kind, in_memory, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "SINGLE", 1000)
    monkeypatch.setattr(sources, "CHUNK", 200)
    data, reference = in_memory
    model = written_on_head(data, logistic)
    folders = {name: tmp_path / name for name in data}
    for folder in folders.values():
        folder.mkdir()
    stored_data = {name: stored(kind, values, folders[name]) for name, values in data.items()}
    draws, _ = draws_of(model, step_elsewhere(model, stored_data))
    assert_matches(draws, reference)


@pytest.mark.slow
def test_offsets_groups_and_row_data():
    rng = np.random.default_rng(5)
    n, groups = 4000, 5
    data = {
        "x": rng.normal(size=n).astype(np.float32),
        "g": np.minimum(rng.integers(0, groups, n), np.arange(n) // 20),  # the head has few groups
        "trials": rng.integers(1, 9, n),
        "exposure": rng.uniform(0.5, 2.0, n),
    }
    effects = rng.normal(size=groups)
    eta = 0.3 + 0.7 * data["x"] + effects[data["g"]] + np.log(data["exposure"])
    data["y"] = rng.binomial(data["trials"], 1 / (1 + np.exp(-eta)))

    def build(data):
        a, b = pm.Normal("a", 0, 1), pm.Normal("b", 0, 1)
        e = pm.Normal("e", 0, 1, shape=groups)
        eta = a + b * data["x"] + e[data["g"]] + pm.math.log(data["exposure"])
        pm.Binomial("k", n=data["trials"], logit_p=eta, observed=data["y"])

    assert_as_in_memory(data, build)


@pytest.mark.slow
def test_codes_that_the_first_rows_do_not_have():
    """Two columns of codes of the same levels, which are apart in the first rows."""
    rng = np.random.default_rng(5)
    n = 4000
    codes = rng.integers(0, 4, (n, 2))
    codes[:40] = [0, 1]
    eta = (np.array([1.4, -0.5, 0.4, 0.0])[codes] * [1.0, 0.5]).sum(1)
    data = {"codes": codes, "y": rng.binomial(1, 1 / (1 + np.exp(-eta)))}

    def build(data):
        a, w = pm.Normal("a", 0, 1, shape=4), pm.math.stack([1.0, pm.Normal("w", 0.5, 0.3)])
        pm.Bernoulli("y_obs", logit_p=(a[data["codes"]] * w).sum(axis=1), observed=data["y"])

    assert_as_in_memory(data, build)


def assert_as_in_memory(data, build, draws=6000):
    """Compare draws of a model on the head of the data with those of one on all of them."""
    with pm.Model() as whole:
        build({name: pm.Data(name, values) for name, values in data.items()})
    reference, _ = draws_of(whole, step_of(whole), draws)
    model = written_on_head(data, build)
    found, _ = draws_of(model, step_elsewhere(model, data), draws)
    assert_matches(found, reference_from_draws(reference))


def poisson(data):
    beta = pm.Flat("beta", shape=3)
    pm.Poisson("k_obs", mu=pm.math.exp(0.2 * (data["X"] @ beta)), observed=data["k"])


def softmax(data):
    W = pm.Normal("W", 0, 1, shape=(3, 3))
    pm.Categorical("c_obs", logit_p=data["X"] @ W, observed=data["c"])


def varying_intercepts(data):
    a = pm.Normal("a", 0, 1, shape=8)
    pm.Bernoulli("y_obs", logit_p=a[data["g"]] + data["X"][:, 1] * a.sum(), observed=data["y"])


@pytest.mark.slow
@pytest.mark.parametrize("build", [poisson, softmax, varying_intercepts])
def test_other_families_and_priors(build):
    n = 5000
    rng = np.random.default_rng(6)
    data = rows(n, 3)
    data |= {"k": rng.poisson(1.3, n), "c": rng.integers(0, 3, n), "g": rng.integers(0, 8, n)}
    used = {
        poisson: ("X", "k"),
        softmax: ("X", "c"),
        varying_intercepts: ("X", "g", "y"),
    }[build]
    data = {name: data[name] for name in used}
    assert_as_in_memory(data, build, draws=24_000)


@pytest.mark.slow
def test_zero_inflated_counts_are_read():
    """PyMC numbers the rows of a mixture: nothing that the model makes of them."""
    data = rows(200, 3)
    data["y"] = np.random.default_rng(0).poisson(1.0, 200) * data["y"]

    def build(data):
        beta = pm.Normal("beta", 0, 1, shape=3)
        pm.ZeroInflatedPoisson("o", 0.7, pm.math.exp(data["X"] @ beta), observed=data["y"])

    assert step_elsewhere(written_on_head(data, build), data).target.source.n_rows == 200
