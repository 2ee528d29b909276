"""``FireflyMH(data=...)``: what is refused, and chains of rows outside the model."""

import os

import cloudpickle
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_flymc import FireflyMH, ImplicitResampling, JaakkolaJordan
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.out_of_core import source as sources
from tests.support.out_of_core import logistic, step_elsewhere, written_on_head
from tests.support.steps import STATS, advance, begin, identical, sample


def rows(n=1500, d=3, seed=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = (rng.random(n) < 1 / (1 + np.exp(-X.sum(axis=1)))).astype(np.int8)
    return {"X": X, "y": y}


@pytest.fixture(autouse=True)
def partitions(monkeypatch):
    """Some partitions, cut into some chunks."""
    monkeypatch.setattr(sources, "SINGLE", 100)
    monkeypatch.setattr(sources, "CHUNK", 100)


@pytest.fixture(scope="module")
def shared():
    with pytest.MonkeyPatch.context() as patch:
        for limit in ("SINGLE", "CHUNK"):
            patch.setattr(sources, limit, 100)
        model = written_on_head(rows(), logistic)
        return model, step_elsewhere(model, rows())


@pytest.mark.slow
def test_one_process_or_two(shared):
    model, step = shared
    one = sample(model, step)
    assert set(STATS) <= set(one.sample_stats.data_vars)
    identical(one, sample(model, step, cores=2))
    identical(one, sample(model, step, cores=2, mp_ctx="spawn"))


@pytest.mark.slow
def test_from_a_map_in_processes(tmp_path):
    data = rows()
    for name, values in data.items():
        np.save(tmp_path / f"{name}.npy", values)
    maps = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in data}
    model = written_on_head(data, logistic)
    identical(
        sample(model, step_elsewhere(model, data)),
        sample(model, step_elsewhere(model, maps), cores=2, mp_ctx="spawn"),
    )


def test_state_is_saved_and_restored(shared):
    model, step = shared
    point, _ = advance(step, begin(step, model, seed=4), 30)
    state = step.sampling_state
    _, expected = advance(step, point, 1500)  # into another unit
    step.sampling_state = state
    np.testing.assert_array_equal(advance(step, point, 1500)[1], expected)
    again = cloudpickle.loads(cloudpickle.dumps(step))
    again.sampling_state = state
    np.testing.assert_array_equal(advance(again, point, 1500)[1], expected)


def test_rows_that_are_rewritten_are_read_again(tmp_path, caplog):
    data = rows()
    for name, values in data.items():
        np.save(tmp_path / f"{name}.npy", values)
    maps = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in data}
    model = written_on_head(data, logistic)
    step = step_elsewhere(model, maps)
    before = sample(model, step).posterior["beta"].mean(("chain", "draw"))
    point, _ = advance(step, begin(step, model, seed=4), 30)
    state = step.sampling_state
    written = np.load(tmp_path / "y.npy", mmap_mode="r+")
    written[:] = 1 - written
    written.flush()
    with pytest.raises(ValueError, match=r"y\.npy has been written to while it was sampled from"):
        advance(step, point, 5000)
    with caplog.at_level("INFO", "pymc.flymc"):
        after = sample(model, step).posterior["beta"].mean(("chain", "draw"))
    assert "have changed: they are read again" in caplog.text
    np.testing.assert_allclose(after, -before, atol=0.15)
    # Brightness of the old rows says nothing: such a state is not gone on with.
    step.sampling_state = state
    assert step.chain is None
    os.replace(tmp_path / "X.npy", tmp_path / "old.npy")
    np.save(tmp_path / "X.npy", data["X"])
    with pytest.raises(ValueError, match=r"X\.npy is no longer the file that was opened"):
        sample(model, step)


def test_a_chain_begins_where_it_is_told(shared):
    model, step = shared
    start = {"beta": np.array([0.9, 1.1, 1.0])}
    begin(step, model)
    _, [stats] = step.step(start)
    assert stats["acceptance_probability"] > 0 and step.chain.started


def test_how_many_rows_there_are(shared):
    model, step = shared
    idata = sample(model, step)
    assert np.all(idata.sample_stats["n_rows"] == 1500)
    assert idata.observed_data["y_obs"].size == 40


def test_likelihoods_are_not_scaled():
    """Their values for each row would be those of many."""

    def scaled(data):
        beta = pm.Normal("beta", 0.0, 1.0, shape=3)
        eta = data["X"] @ beta
        pm.Bernoulli("y_obs", logit_p=eta, observed=data["y"], total_size=1500)

    with pytest.raises(UnsupportedModelError, match="'y_obs' has a total_size=: leave it out"):
        step_elsewhere(written_on_head(rows(), scaled), rows())


def spoiled(name, row, value):
    data = {key: values.astype(float) for key, values in rows().items()}
    data[name][row] = value
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (spoiled("X", 1307, np.nan), r"row 1,307, in partition 3: the data of 'X' have NaN"),
        (spoiled("X", 3, np.inf), r"row 3, in partition 0: the data of 'X' have NaN"),
        (spoiled("y", 801, np.nan), r"row 801, in partition 2: the data of 'y' have NaN"),
        (spoiled("y", 801, 2.0), r"row 801, in partition 2: y_obs has values that are not 0 or 1"),
        (spoiled("y", 700, 0.5), r"row 700, in partition 1: the data of 'y' hold 0.5, .* of int32"),
        (
            spoiled("y", 700, 2.0**32 + 1),
            r"row 700, in partition 1: the data of 'y' hold 429",
        ),
        ({**rows(), "Z": np.ones(1500)}, "'Z', which is no data container of the model"),
        ({"X": np.ones((1500, 4)), "y": rows()["y"]}, r"'X' has the shape \(3,\) in the model"),
        ({"X": rows()["X"].astype(str), "y": rows()["y"]}, "'X' is of dtype"),
        ({"X": rows()["X"]}, "no observed variable is made of the containers"),
        (
            {"y": rows()["y"]},
            r"'y_obs' depend.*a value for each row \(X\) that no container of data=",
        ),
    ],
)
def test_data_are_refused_with_the_place(data, message):
    model = written_on_head(rows(), logistic)
    with pytest.raises(ValueError, match=message):
        step_elsewhere(model, data)


@pytest.mark.parametrize(
    ("head", "later", "dtype"), [(1, 300, "uint8"), (1, 2**31, "int64"), (True, 2, "bool")]
)
def test_values_that_containers_cannot_hold(head, later, dtype):
    """Of types of the head that later rows do not have."""
    data = rows() | {"k": np.full(1500, head, np.int64)}
    data["k"][1307] = later

    def build(data):
        b = pm.Normal("b", 0, 1)
        pm.Bernoulli("y_obs", logit_p=b * data["k"] + data["X"][:, 0], observed=data["y"])

    model = written_on_head(data | {"k": data["k"].astype(dtype)}, build)
    with pytest.raises(ValueError, match=rf"row 1,307, in partition 3: .* 'k' hold {later}"):
        step_elsewhere(model, data)


def test_a_group_without_a_coefficient():
    data = rows() | {"g": np.arange(1500) // 100}

    def build(data):
        effects = pm.Normal("effects", 0, 1, shape=14)
        pm.Bernoulli("y_obs", logit_p=effects[data["g"]] + data["X"][:, 0], observed=data["y"])

    with pytest.raises(ValueError, match=r"row 1,400, in partition 3: .* number the groups"):
        step_elsewhere(written_on_head({"X": data["X"], **data}, build), data)


def on_predictor(predictor):
    """Logistic regression whose predictor is a function of data, coefficients and a scalar."""

    def build(data):
        beta, a = pm.Normal("beta", 0.0, 1.0, shape=3), pm.Normal("a", 0.0, 1.0)
        pm.Bernoulli("y_obs", logit_p=predictor(data["X"], data["y"], beta, a), observed=data["y"])

    return build


def with_rows_of_its_own(data):
    beta = pm.Normal("beta", 0.0, 1.0, shape=3)
    offset = np.arange(40.0)
    pm.Bernoulli("y_obs", logit_p=data["X"] @ beta + offset, observed=data["y"])


def with_a_shape_of_rows(data):
    beta = pm.Normal("beta", 0.0, 1.0, shape=3)
    time = data["y"] + 0.5
    pm.Weibull("y_obs", alpha=data["X"].max(), beta=pm.math.exp(data["X"] @ beta), observed=time)


def with_a_potential(data):
    logistic(data)
    pm.Potential("more", data["X"].sum())


def with_a_mean_that_is_recorded(data):
    logistic(data)
    pm.Deterministic("share", data["y"].mean())


def test_numbers_of_each_row_may_be_recorded():
    """Those of the rows that the model is written on."""

    def build(data):
        logistic(data)
        pm.Deterministic("chance", pm.math.sigmoid(data["X"][:, 0]))

    step_elsewhere(written_on_head(rows(), build), rows())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (on_predictor(lambda X, y, b, a: a + (X - X.mean(axis=0)) @ b), "a sum, mean or variance"),
        (on_predictor(lambda X, y, b, a: a + X @ (b / X.std(axis=0))), "a sum, mean or variance"),
        (on_predictor(lambda X, y, b, a: a + X @ b / X.max()), "a maximum or minimum"),
        (on_predictor(lambda X, y, b, a: X @ b + a * X.shape[0]), "the number of rows"),
        (on_predictor(lambda X, y, b, a: X @ b + a + y.mean()), "'y'.*a sum, mean or variance"),
        (on_predictor(lambda X, y, b, a: X @ b + a * (y > y.mean())), "a sum, mean or variance"),
        (on_predictor(lambda X, y, b, a: a + (X @ b)[::-1]), "takes each row alone"),
        (on_predictor(lambda X, y, b, a: a + pt.cumsum(X, axis=0) @ b), "Cumsum.* along rows"),
        (with_rows_of_its_own, "a value for each row"),
        (with_a_shape_of_rows, "a maximum or minimum"),
        (with_a_potential, "'X' in more than the rows"),
        (with_a_mean_that_is_recorded, "deterministic 'share' contains a sum, mean"),
    ],
)
def test_rows_that_do_not_stand_alone(build, message):
    with pytest.raises(UnsupportedModelError, match=message):
        step_elsewhere(written_on_head(rows(), build), rows())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "metropolis"}, "rows in memory"),
        ({"brightness": ImplicitResampling()}, "rows in memory"),
        ({"proposal": "pcn"}, "rows in memory"),
        ({"transitions": 3}, "rows in memory"),
        ({"bound": JaakkolaJordan()}, "bound=Taylor"),
        ({"bound": None}, "bound=Taylor"),
    ],
)
def test_other_moves_need_rows_in_memory(settings, message):
    with pytest.raises(ValueError, match=message):
        step_elsewhere(written_on_head(rows(), logistic), rows(), **settings)


def test_posteriors_far_from_normal_are_refused():
    def funnel(data):
        scale = pm.HalfCauchy("scale", 1.0)
        raw = pm.Normal("raw", 0, 1, shape=3)
        pm.Bernoulli("y_obs", logit_p=data["X"] @ (scale * raw), observed=data["y"])

    data = rows(60)
    data["X"] = 0.01 * data["X"]  # nothing is learnt of the scale
    with pytest.raises(UnsupportedModelError, match="without data="):
        step_elsewhere(written_on_head(data, funnel), data)


def test_kinks_are_refused_before_a_pass(monkeypatch):
    def robust(data):
        beta = pm.Normal("beta", 0.0, 1.0, shape=3)
        pm.Laplace("y_obs", mu=data["X"] @ beta, b=1.0, observed=data["y"])

    monkeypatch.setattr(sources.Partition, "read", None)
    with pytest.raises(UnsupportedModelError, match="smooth"):
        step_elsewhere(written_on_head(rows(), robust), rows())


def test_rows_are_counted_once_each_pass(caplog):
    model = written_on_head(rows(), logistic)
    with model, caplog.at_level("INFO", "pymc.flymc"):
        FireflyMH(data=rows())
    assert "joint moves read" in caplog.text and "1,500 rows" in caplog.text
