"""What a model says of each row is evaluated in one pass, wherever rows are."""

import arviz as az
import numpy as np
import pymc as pm
import pytest
from scipy.special import expit, log_expit

from pymc_flymc import UnsupportedModelError, random_rows, summarize_rows
from pymc_flymc.out_of_core import row_summaries
from pymc_flymc.out_of_core import source as sources
from tests.out_of_core.test_source import stored
from tests.support.out_of_core import logistic, written_on_head

N = 1500
RNG = np.random.default_rng(0)
DATA = {
    "X": RNG.normal(size=(N, 2)).astype(np.float32),
    "y": RNG.integers(0, 2, N).astype(np.int8),
}
BETA = RNG.normal(size=(2, 30, 2))


@pytest.fixture(autouse=True)
def partitions(monkeypatch):
    """Several partitions, of several chunks, of several blocks."""
    monkeypatch.setattr(sources, "SINGLE", 500)
    monkeypatch.setattr(sources, "CHUNK", 200)
    monkeypatch.setattr(row_summaries, "BLOCK", 90)


@pytest.fixture(scope="module")
def model():
    return written_on_head(DATA, logistic)


@pytest.fixture(scope="module")
def idata():
    return az.from_dict({"posterior": {"beta": BETA}})


def expressions(model):
    eta = model["X"] @ model["beta"]
    return {"chance": pm.math.sigmoid(eta), "lpd": pm.logp(model["y_obs"], model["y"])}


def assert_right(found, draws):
    """Compare with NumPy."""
    eta = DATA["X"].astype(float) @ draws.T
    sign = 2.0 * DATA["y"][:, None] - 1.0
    for name, values in (("chance", expit(eta)), ("lpd", log_expit(sign * eta))):
        np.testing.assert_allclose(found[f"{name}_mean"], values.mean(axis=1), rtol=1e-10)
        np.testing.assert_allclose(found[f"{name}_sd"], values.std(axis=1, ddof=1), rtol=1e-8)


@pytest.mark.parametrize("kind", ["array", "memmap", "zarr", "parquet"])
def test_means_and_deviations_of_each_row(kind, model, idata, tmp_path):
    folders = {name: tmp_path / name for name in DATA}
    for folder in folders.values():
        folder.mkdir()
    data = {name: stored(kind, values, folders[name]) for name, values in DATA.items()}
    with model:
        found = summarize_rows(idata, expressions(model), data=data)
    assert found.sizes == {"row": N}
    assert_right(found, BETA.reshape(-1, 2))


def test_draws_in_another_order():
    """Those of all variables belong together, however their axes lie."""
    with pm.Model() as model:
        a, b = pm.Normal("a"), pm.Normal("b")
        x = pm.Data("x", DATA["y"][:10].astype(float))
        pm.Bernoulli("y", logit_p=a - b + x, observed=np.zeros(10))
    draws = RNG.normal(size=(2, 30))
    found = az.from_dict({"posterior": {"a": draws, "b": draws}})
    posterior = found["posterior"].to_dataset()
    found["posterior"] = posterior.assign(b=posterior["b"].transpose("draw", "chain"))
    with model:
        fitted = summarize_rows(found, {"eta": a - b + x}, data={"x": np.arange(5.0)})
    np.testing.assert_array_equal(fitted["eta_sd"], 0.0)


def test_files_by_partitions(model, idata, tmp_path):
    pandas = pytest.importorskip("pandas")
    with model:
        folder = summarize_rows(
            idata, expressions(model), data=DATA, draws=7, to=tmp_path / "fitted"
        )
        found = pandas.read_parquet(folder)
        np.testing.assert_array_equal(found["row"], np.arange(N))
        places = np.linspace(0, 59, 7).astype(int)
        assert_right(found, BETA.reshape(-1, 2)[places])
        assert len(list(folder.iterdir())) == 4
        with pytest.raises(ValueError, match="to must be a folder that is new or empty"):
            summarize_rows(idata, expressions(model), data=DATA, to=folder)


def test_what_is_none_of_each_row(model, idata):
    eta = model["X"] @ model["beta"]
    with model:
        for wrong, message in (
            (eta - eta.mean(), "depend on each other"),
            (eta.sum(), "no vector of one number"),
            (model["y_obs"], "drawn at random"),
            (eta + np.ones(40), "no container of data="),
        ):
            with pytest.raises(UnsupportedModelError, match=message):
                summarize_rows(idata, {"wrong": wrong}, data=DATA)
        with pytest.raises(ValueError, match="no draws of beta") as caught:
            summarize_rows(az.from_dict({"posterior": {"b": BETA}}), {"eta": eta}, data=DATA)
        assert "step=" not in str(caught.value)  # nothing samples here


def test_codes_of_categories_of_another_table(idata):
    """They may be of other groups: only a step has rows to compare them with."""
    pandas = pytest.importorskip("pandas")
    table = {"group": pandas.Series(["b", "c"], dtype="category")}
    with pm.Model():
        of_rows = pm.Normal("beta", shape=2)[pm.Data("group", [0, 1])]
        with pytest.raises(ValueError, match="'group' holds categories, whose codes"):
            summarize_rows(idata, {"of_rows": of_rows}, data=table)
        with pytest.raises(ValueError, match="'group' holds categories, whose codes"):
            random_rows(table, 2)


def test_ids_are_read_by_the_coordinates_of_the_effects_of_an_expression(idata):
    """The model itself need not have the container."""
    pandas = pytest.importorskip("pandas")
    with pm.Model(coords={"letter": [1, 0]}):
        of_rows = pm.Normal("beta", dims="letter")[pm.Data("group", [0, 1])]
        table = {"group": pandas.Series([0, 0, 1])}
        found = summarize_rows(idata, {"of_rows": of_rows}, data=table, draws=60)["of_rows_mean"]
    np.testing.assert_allclose(found, BETA.mean(axis=(0, 1))[[1, 1, 0]])


def test_random_rows_are_of_all(model, idata):
    numbers, rows = random_rows(DATA, 200, random_seed=3, model=model)
    assert len(np.unique(numbers)) == 200 and (np.diff(numbers) > 0).all()
    assert numbers.min() < 100 and numbers.max() > N - 100
    for name, values in DATA.items():
        np.testing.assert_array_equal(rows[name], values[numbers])
    assert len(random_rows(DATA, 10**6, model=model)[0]) == N


def test_leave_one_out_of_a_sample_is_corrected_by_all_rows(model, idata):
    """As the page on large data has it: exact on some rows, and a difference for all others."""
    numbers, rows = random_rows(DATA, 300, random_seed=3, model=model)
    with written_on_head(DATA, logistic) as other:
        near = az.from_dict({"posterior": {"beta": 0.03 * BETA + [0.1, -0.1]}})
        every = summarize_rows(near, expressions(other), data=DATA)["lpd_mean"].to_numpy()
        pm.set_data(rows)
        pm.compute_log_likelihood(near, progressbar=False)
        sampled = az.loo(near, pointwise=True).elpd_i.to_numpy()
        pm.set_data(DATA)
        pm.compute_log_likelihood(near, progressbar=False)
        expected = az.loo(near).elpd
    estimate = every.sum() + N * (sampled - every[numbers]).mean()
    error = N * (sampled - every[numbers]).std() / np.sqrt(300)
    assert abs(estimate - expected) < 4 * error < 1.0


@pytest.mark.slow
def test_workers_of_a_cluster_write_their_partitions(model, idata, tmp_path):
    pandas, distributed = pytest.importorskip("pandas"), pytest.importorskip("distributed")
    settings = dict(threads_per_worker=1, dashboard_address=None)
    with (
        distributed.LocalCluster(n_workers=2, **settings) as cluster,
        distributed.Client(cluster) as client,
        model,
    ):
        where = dict(data=DATA, client=client)
        folder = summarize_rows(idata, expressions(model), to=tmp_path / "fitted", **where)
        found = summarize_rows(idata, expressions(model), **where)
        numbers, rows = random_rows(DATA, 100, random_seed=1, client=client)
    written = pandas.read_parquet(folder)
    np.testing.assert_array_equal(written["row"], np.arange(N))
    for each in (found, written):
        assert_right(each, BETA.reshape(-1, 2))
    np.testing.assert_array_equal(rows["X"], DATA["X"][numbers])
