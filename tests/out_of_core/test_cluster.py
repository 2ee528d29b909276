"""Rows on a Dask cluster: the same numbers whatever the workers, and whatever becomes of them."""

import gc
import os
import signal
import threading
import time

import numpy as np
import pytest

from pymc_flymc.out_of_core import cluster
from tests.out_of_core.test_posteriors import rows
from tests.out_of_core.test_source import stored
from tests.support.comparison import assert_matches, reference_from_draws
from tests.support.out_of_core import logistic, step_elsewhere, written_on_head
from tests.support.steps import drive, identical, sample

pytestmark = pytest.mark.slow

dask_array = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")


@pytest.fixture(params=[(1, 1), (2, 1), (1, 2)], ids=["one worker", "two workers", "threads"])
def client(request):
    n_workers, n_threads = request.param
    with new_cluster(n_workers, n_threads, processes=n_threads == 1) as made:
        with distributed.Client(made) as client:
            yield client


def new_cluster(n_workers, n_threads=1, processes=True):
    settings = dict(threads_per_worker=n_threads, processes=processes, dashboard_address=None)
    return distributed.LocalCluster(n_workers=n_workers, **settings)


def on_dask(data, chunks=((900, 0, 700, 1, 1399),)):
    """Arrays with partitions of unequal length, one of them empty, one of a single row."""
    X = dask_array.from_array(data["X"], chunks=(*chunks, (data["X"].shape[1],)))
    y = dask_array.from_array(data["y"], chunks=1000)  # in other partitions
    return {"X": X, "y": y}


def sampled(client, data, chunks=((900, 0, 700, 1, 1399),)):
    model = written_on_head(data, logistic)
    return model, step_elsewhere(model, on_dask(data, chunks), client=client)


@pytest.fixture(scope="module")
def expected():
    """Draws with a client to one worker of one thread, and those of rows in memory."""
    data = rows(3000, 4, dtype=np.float32)
    with new_cluster(1) as made, distributed.Client(made) as client:
        model, step = sampled(client, data)
        draws = sample(model, step, draws=1500)
    model = written_on_head(data, logistic)
    in_memory = step_elsewhere(model, data)
    start = model.initial_point()
    long, _ = drive(in_memory, start, tune=0, draws=6000, chains=2)
    return data, draws, reference_from_draws(long)


def test_the_same_numbers_on_any_cluster(client, expected):
    data, draws, reference = expected
    model, step = sampled(client, data)
    assert len(step.target.weighers[0][1]) == 4
    identical(sample(model, step, draws=1500), draws)
    long, _ = drive(step, model.initial_point(), tune=0, draws=6000, chains=2)
    assert_matches(long, reference)
    # Nobody has copied rows of others.
    source = step.target.source
    holders = client.who_has([each.future for each in source._partitions])
    assert [len(each) for each in holders.values()] == [1] * 4


@pytest.mark.parametrize("kind", ["array", "memmap", "zarr"])
def test_what_is_not_of_dask(kind, expected, tmp_path):
    data, _, reference = expected
    folders = {name: tmp_path / name for name in data}
    for folder in folders.values():
        folder.mkdir()
    kept = {name: stored(kind, values, folders[name]) for name, values in data.items()}
    with new_cluster(1) as made, distributed.Client(made) as client:
        model = written_on_head(data, logistic)
        step = step_elsewhere(model, kept, client=client)
        assert len(step.target.weighers[0][1]) > 10
        long, _ = drive(step, model.initial_point(), tune=0, draws=6000, chains=2)
        assert_matches(long, reference)


def test_an_address_does(expected):
    data, draws, _ = expected
    with new_cluster(1) as made:
        model, step = sampled(made.scheduler_address, data)
        identical(sample(model, step, draws=1500), draws)
        client = step.target.source._client
        del step
        gc.collect()
        waited_for(lambda: client.status == "closed")


def waited_for(condition, seconds=10.0):
    """Wait until something is so; fail if it takes too long."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() < began + seconds
        time.sleep(0.05)


@pytest.mark.parametrize("when", ["setup", "sampling"])
@pytest.mark.parametrize("nanny", [True, False])
def test_a_killed_worker_changes_no_number(when, nanny, expected):
    data, draws, _ = expected
    with new_cluster(1 if not nanny else 2) as made, distributed.Client(made) as client:
        if not nanny:
            worker = start_worker(made.scheduler_address)
            client.wait_for_workers(2, timeout=60)
        victim = worker.pid if not nanny else next(iter(client.run(os.getpid).values()))
        if when == "setup":
            killer = threading.Timer(1.0, os.kill, (victim, signal.SIGKILL))
            killer.start()
        model, step = sampled(client, data)
        if when == "sampling":
            step.target.begin((1, 2), range(1, 3))()
            os.kill(victim, signal.SIGKILL)
        identical(sample(model, step, draws=1500), draws)


def start_worker(address):
    """Start a worker without a nanny."""
    import subprocess
    import sys

    command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny"]
    options = ["--nthreads", "1", "--no-dashboard"]
    quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return subprocess.Popen(command + options, **quiet)


def test_no_workers_left(expected, monkeypatch):
    monkeypatch.setattr(cluster, "LOOK", 0.5)
    monkeypatch.setattr(cluster, "PATIENCE", 2.0)
    data, *_ = expected
    with new_cluster(1) as made, distributed.Client(made) as client:
        model, step = sampled(client, data)
        made.scale(0)
        while client.scheduler_info()["workers"]:
            time.sleep(0.1)
        began = time.monotonic()
        with pytest.raises(RuntimeError, match="has had no workers"):
            sample(model, step)
        assert time.monotonic() < began + 10.0  # not for each place where a chain might start


def test_a_closed_client_and_another_process(expected):
    data, *_ = expected
    with new_cluster(1) as made:
        client = distributed.Client(made)
        model, step = sampled(client, data)
        with pytest.raises(Exception, match="cores=1"):
            sample(model, step, cores=2)
        client.close()
        with pytest.raises(RuntimeError, match="is closed"):
            sample(model, step)


def written(folder, data, n_files=6):
    """Parquet files, and columns of them all."""
    pandas, frames = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    table = pandas.DataFrame(data["X"], columns=list("abcd")).assign(y=data["y"])
    for i, part in enumerate(np.array_split(np.arange(len(table)), n_files)):
        table.iloc[part].to_parquet(folder / f"{i}.parquet")
    read = frames.read_parquet(str(folder / "*.parquet"))
    return {"X": read[list("abcd")], "y": read["y"]}


def test_files_that_change(expected, tmp_path):
    """Before a run all is read again; what is lost in one is not mixed with other rows."""
    data, *_ = expected
    with new_cluster(1) as made, distributed.Client(made) as client:
        model = written_on_head(data, logistic)
        step = step_elsewhere(model, written(tmp_path, data), client=client)
        before = sample(model, step).posterior["beta"].mean(("chain", "draw"))
        written(tmp_path, data | {"y": 1 - data["y"]})
        after = sample(model, step).posterior["beta"].mean(("chain", "draw"))
        np.testing.assert_allclose(after, -before, atol=0.2)
        written(tmp_path, data)
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        with pytest.raises(ValueError, match="were lost and read again, and have changed"):
            step.target.begin((1, 2), range(1, 3))()


def test_files_that_change_while_they_are_loaded(tmp_path, monkeypatch):
    data = {}
    for name, values in rows(300).items():
        (tmp_path / name).mkdir()
        data[name] = stored("memmap", values, tmp_path / name)
    persist = cluster.ClusterSource._persist

    def persist_and_write(source):
        np.load(tmp_path / "y" / "values.npy", mmap_mode="r+")[:] = 0
        return persist(source)

    monkeypatch.setattr(cluster.ClusterSource, "_persist", persist_and_write)
    with new_cluster(1, processes=False) as made, distributed.Client(made) as client:
        model = written_on_head(data, logistic)
        with pytest.raises(ValueError, match="has been written to while it was sampled from"):
            step_elsewhere(model, data, client=client)


def test_a_client_that_is_closed_in_the_middle(expected):
    data, *_ = expected
    with new_cluster(1) as made:
        client = distributed.Client(made)
        _, step = sampled(client, data)
        threading.Timer(1.0, client.close).start()
        with pytest.raises(RuntimeError, match=r"is (closed|closing): connect again"):
            for batch in range(1, 100_000):
                step.target.begin((1, 2), range(batch, batch + 2))()


def test_places_of_bad_rows(expected):
    data = {name: values.astype(float) for name, values in expected[0].items()}
    data["y"][1600] = 2.0
    with new_cluster(1) as made, distributed.Client(made) as client:
        with pytest.raises(ValueError, match="row 1,600, in partition 2: y_obs has values that"):
            sampled(client, data)
        data["y"][1600], data["X"][2000, 1] = 1.0, np.nan
        with pytest.raises(ValueError, match="row 2,000, in partition 3: the data of 'X' have NaN"):
            sampled(client, data)
