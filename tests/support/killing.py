"""Runs in processes of their own that are killed, and begun again."""

import fcntl
import multiprocessing
import os
import signal
import time

import numpy as np

from pymc_flymc import checkpoint
from pymc_flymc.checkpoint import read_object
from pymc_flymc.reporting import TIMES
from tests.support.steps import sample

_FORK = multiprocessing.get_context("fork")
#: Seconds in which chains must have ended.
PATIENCE = 60.0


def values(idata):
    """All draws and statistics, those of tuning among them, as arrays by name."""
    return {
        f"{group} {name}": np.asarray(each)
        for group in ("posterior", "sample_stats", "warmup_posterior", "warmup_sample_stats")
        for name, each in idata[group].data_vars.items()
        if name not in TIMES
    }


def same(a, b):
    """Check that two runs have the same draws and statistics, to the last bit."""
    assert a.keys() == b.keys()
    for name, each in a.items():
        np.testing.assert_array_equal(each, b[name], err_msg=name)


def _run(folder, build, settings, out):
    checkpoint.INTERVAL, checkpoint.RATIO = 0.01, 0.0
    # What a process has written outlives it: a kill is no power cut.
    os.fsync = lambda _: None
    model, step = build(folder)
    idata = sample(model, step, discard_tuned_samples=False, **settings)
    np.savez(out.with_suffix(".new.npz"), **values(idata))
    out.with_suffix(".new.npz").rename(out)


def run_killed(folder, build, settings, moments):
    """Run in other processes that are killed, one at each moment, until one is through.

    Parameters
    ----------
    folder : path
        For the checkpoint, and the result.
    build : callable
        Returns model and step for the folder of a checkpoint.
    settings : dict
        Of ``pm.sample``.
    moments : iterable of float or int
        Seconds, or draws of the first chain that are on disk.

    Returns
    -------
    found : dict of array
        As of `values`.
    on_disk : list of int
        Draws of the first chain that were on disk when a process was killed.
    """
    out, on_disk = folder / "result.npz", []
    for moment in (*moments, np.inf):
        process = _FORK.Process(target=_run, args=(folder / "run", build, settings, out))
        process.start()
        began = time.monotonic()
        while process.exitcode is None:
            time.sleep(0.005)
            drawn = _n_draws(folder / "run")
            if (drawn if isinstance(moment, int) else time.monotonic() - began) >= moment:
                process.kill()
                process.join()
                on_disk.append(_n_draws(folder / "run"))
                _wait_for_chains(folder / "run")
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
    with np.load(out, allow_pickle=True) as found:
        return dict(found), on_disk


def _n_draws(folder):
    saved = read_object(folder / "chain-0.state")
    return 0 if saved is None else saved.n_draws


def _wait_for_chains(folder):
    """Wait until nobody holds a folder: chains' own processes end soon after the one killed."""
    if not (folder / "lock").exists():
        return
    with (folder / "lock").open() as lock:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                time.sleep(0.01)
    raise TimeoutError("a chain outlives the process that began it")
