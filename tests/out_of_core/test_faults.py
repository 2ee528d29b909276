"""Workers, schedulers and files that fail, for a while and for good: the same numbers, or an error.

Afterwards no connection, process or file is left.
"""

import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest

from pymc_flymc.out_of_core import cluster, source
from pymc_flymc.out_of_core.columns import ArrayColumn
from pymc_flymc.out_of_core.source import LocalSource
from tests.out_of_core.test_cluster import (  # noqa: F401
    expected,
    new_cluster,
    on_dask,
    sampled,
    waited_for,
)
from tests.support.data import logistic_rows
from tests.support.killing import run_killed, same
from tests.support.out_of_core import logistic, step_elsewhere, written_on_head
from tests.support.steps import identical, sample

dask = pytest.importorskip("dask")
dask_array = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")


@pytest.fixture
def nothing_left(tmp_path, monkeypatch):
    """A place for the files of workers, where none is left, nor a process or an open client."""
    monkeypatch.chdir(tmp_path)
    with dask.config.set({"temporary-directory": str(tmp_path)}):
        yield
    waited_for(lambda: not multiprocessing.active_children())
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and "lock" not in path.name]
    with pytest.raises(ValueError, match="No global client"):
        distributed.get_client(timeout=0)


def pids(client):
    return list(client.run(os.getpid).values())


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("when", ["setup", "sampling"])
def test_a_worker_that_is_stopped_for_a_while(when, expected):  # noqa: F811
    data, draws, _ = expected
    with new_cluster(2) as made, distributed.Client(made) as client:
        pid = pids(client)[0]
        stop = threading.Timer(0.7, os.kill, (pid, signal.SIGSTOP))
        go_on = threading.Timer(30.7, os.kill, (pid, signal.SIGCONT))
        began = time.monotonic()
        if when == "setup":
            stop.start(), go_on.start()
        model, step = sampled(client, data)
        if when == "sampling":
            stop.start(), go_on.start()
        found = sample(model, step, draws=1500)
        while time.monotonic() < began + 32.0:
            identical(found, draws)
            found = sample(model, step, draws=1500)
        identical(found, draws)
        assert time.monotonic() < began + 90.0


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_left")
def test_workers_that_come_and_go(expected):  # noqa: F811
    data, draws, _ = expected
    seen = set()
    with new_cluster(1) as made, distributed.Client(made) as client:
        made.adapt(minimum=1, maximum=3, interval="100 ms", wait_count=1, target_duration="100 ms")
        model, step = sampled(client, data)
        for n in (3, 1, 2, 1):
            made.adapt(minimum=n, maximum=n, interval="100 ms", wait_count=1)
            identical(sample(model, step, draws=1500), draws)
            waited_for(lambda n=n: len(client.scheduler_info(n_workers=-1)["workers"]) == n, 30.0)
            seen |= set(client.scheduler_info(n_workers=-1)["workers"])
            identical(sample(model, step, draws=1500), draws)
    assert len(seen) > 3


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_left")
def test_workers_without_enough_memory(expected):  # noqa: F811
    """They are killed by their nannies, several times."""
    data, *_ = expected
    many = dask_array.ones((40_000_000, 4), chunks=(-1, 4), dtype=np.float32)
    y = dask_array.zeros(40_000_000, chunks=-1, dtype=np.int8)
    settings = dict(n_workers=1, threads_per_worker=1, memory_limit="700 MB")
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        distributed.LocalCluster(dashboard_address=None, **settings) as made,
        distributed.Client(made) as client,
    ):
        began = time.monotonic()
        with pytest.raises(Exception, match="Workers need memory for all rows"):
            step_elsewhere(written_on_head(data, logistic), {"X": many, "y": y}, client=client)
        assert time.monotonic() < began + 120.0


@contextmanager
def served():
    """Address of a scheduler with a worker, and both processes."""
    quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    port = str(8000 + os.getpid() % 1000)
    address = f"tcp://127.0.0.1:{port}"
    start = [sys.executable, "-m"]
    options = ["--host", "127.0.0.1", "--port", port, "--no-dashboard"]
    scheduler = subprocess.Popen([*start, "distributed.cli.dask_scheduler", *options], **quiet)
    options = [address, "--no-nanny", "--nthreads", "1", "--no-dashboard"]
    worker = subprocess.Popen([*start, "distributed.cli.dask_worker", *options], **quiet)
    try:
        yield address, scheduler, worker
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_left")
def test_a_scheduler_that_is_killed(expected):  # noqa: F811
    data, *_ = expected
    with served() as (address, scheduler, worker):
        with distributed.Client(address, timeout=30) as client:
            client.wait_for_workers(1, timeout=60)
            _, step = sampled(client, data)
            threading.Timer(0.5, scheduler.kill).start()
            began = time.monotonic()
            with pytest.raises(RuntimeError, match="connect again, and make a new step"):
                for batch in range(1, 100_000):
                    step.target.begin((1, 2), range(batch, batch + 2))()
            assert time.monotonic() < began + 60.0
        worker.wait(90)  # it ends by itself


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_client_that_is_killed(tmp_path):
    """With a checkpoint the next one goes on, to the last bit."""
    for name, values in zip("Xy", logistic_rows(20_000), strict=True):
        np.save(tmp_path / f"{name}.npy", values)

    with served() as (address, *_):

        def build(folder):
            data = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "Xy"}
            settings = dict(client=address, checkpoint=folder)
            model = written_on_head(data, logistic)
            return model, step_elsewhere(model, data, **settings)

        settings = dict(cores=1, tune=100, draws=20_000)
        folders = tmp_path / "whole", tmp_path / "killed"
        for folder in folders:
            folder.mkdir()
        expected, on_disk = run_killed(folders[0], build, settings, [])
        assert not on_disk
        found, on_disk = run_killed(folders[1], build, settings, [2.0, 100, 1500, 15_000])
    assert 100 <= on_disk[1] < on_disk[2] < on_disk[3]
    same(found, expected)


def failing(values, path):
    """The rows of `on_dask`, of which the last block cannot be read as often as a file says."""

    def block(i, part):
        left = int(path.read_text()) if path.exists() else 0
        if i == 3 and left > 0:
            path.write_text(str(left - 1))
            raise OSError("the disk has failed")
        return part

    parts = [values[a:b] for a, b in itertools.pairwise([0, 900, 1600, 1601, 3000])]
    made = [
        dask_array.from_delayed(dask.delayed(block)(i, part), part.shape, part.dtype)
        for i, part in enumerate(parts)
    ]
    return dask_array.concatenate(made)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["setup", "sampling"])
@pytest.mark.parametrize("tries", [2, 10**6])
def test_a_chunk_that_workers_cannot_read(when, tries, expected, tmp_path, caplog, monkeypatch):  # noqa: F811
    monkeypatch.setattr(cluster, "PAUSES", (0.1, 0.1, 0.1))
    data, draws, _ = expected
    path = tmp_path / "failing"
    arrays = on_dask(data) | {"X": failing(data["X"], path)}
    with new_cluster(1) as made, distributed.Client(made) as client:
        model = written_on_head(data, logistic)

        def run():
            if when == "setup":
                path.write_text(str(tries))
            step = step_elsewhere(model, arrays, client=client)
            if when == "sampling":
                path.write_text(str(tries))
                os.kill(pids(client)[0], signal.SIGKILL)
            identical(sample(model, step, draws=1500), draws)

        if tries == 2:
            run()
        else:
            with pytest.raises(OSError, match=r"(?s)the disk has failed.*partition 3 of data="):
                run()
    assert "partitions 3 of data= could not be read (OSError: the disk has failed)" in caplog.text


class Failing:
    """An array that cannot be read for some tries."""

    shape, dtype, chunks = (10, 2), np.dtype(np.float64), (5, 2)

    def __init__(self, tries, error=OSError):
        self.left, self.error = tries, error

    def __getitem__(self, rows):
        self.left -= 1
        if self.left >= 0:
            raise self.error("the disk has failed")
        return np.ones(self.shape)[rows]


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(source, "PAUSES", (0.01, 0.01))


@pytest.mark.usefixtures("short")
def test_rows_that_cannot_be_read_for_a_while(caplog):
    source = LocalSource({"X": ArrayColumn(Failing(2))}, [0, 5, 10])
    assert source.partitions[1].read(slice(0, 5))["X"].sum() == 10
    assert caplog.text.count("'X', in partition 1, could not be read (OSError: the disk") == 2


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    ("error", "tries"), [(OSError, 3), (FileNotFoundError, 1), (ValueError, 1)]
)
def test_rows_that_cannot_be_read(error, tries):
    array = Failing(100, error)
    source = LocalSource({"X": ArrayColumn(array)}, [0, 5, 10])
    with pytest.raises(error, match=r"(?s)the disk has failed.*'X', in partition 1, cannot be"):
        source.partitions[1].read(np.array([1, 3]))
    assert array.left == 100 - tries
