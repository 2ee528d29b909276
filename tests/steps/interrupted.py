"""Run by tests: sample in this process, and be interrupted at random moments.

Prints a line for each interrupt: seconds after which it was sent, and what came of it.
"""

import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pymc as pm

sys.path.insert(0, str(Path(__file__).parents[2]))

import pymc_flymc
from tests.support.data import logistic_rows
from tests.support.models import logistic_model

#: Seconds after an interrupt within which everything must have ended.
PATIENCE = 30.0


def sample(model, build, cores, **settings):
    """Build a step and sample, a chain for each process."""
    options = dict(tune=200, chains=cores, cores=cores, progressbar=False, **settings)
    with model:
        return pm.sample(step=build(), compute_convergence_checks=False, **options)


def interrupted(model, build, delay, cores):
    """Sample until an interrupt comes after `delay` seconds; return what came of it.

    Where chains have processes of their own all of them get it, as by Ctrl-C in a terminal.
    """
    target = os.getpid() if cores == 1 else -os.getpgrp()
    sender = subprocess.Popen(["sh", "-c", f"trap '' INT; sleep {delay}; kill -INT {target}"])
    began = time.monotonic()

    def late(trace, draw):
        if time.monotonic() - began > delay + PATIENCE:
            raise TimeoutError

    try:
        idata = sample(model, build, cores, draws=10**6, callback=late)
        return "some draws" if idata.posterior.sizes["draw"] else "no draws"
    except KeyboardInterrupt:
        return "KeyboardInterrupt"
    except (SystemError, BrokenPipeError) as error:
        # Of PyMC, which records draws of other processes by a compiled function, or writes to one.
        if cores == 1 or not isinstance(error.__cause__ or error, (KeyboardInterrupt, OSError)):
            raise
        return "PyMC's own"
    except TimeoutError:
        return "ignored"
    except ValueError as error:  # PyMC's own, of an interrupt while it tunes
        return "tuning" if "Not enough samples" in str(error) else repr(error)
    finally:
        sender.wait()
        for process in multiprocessing.active_children():
            process.join(PATIENCE)
            assert not process.is_alive(), "a chain goes on alone"


def main(name, settings, times, longest, seed, cores):
    """Interrupt a step `times` times, within `longest` times as long as set-up and tuning take."""
    # The shell that starts tests in the background ignores interrupts, and so would this process.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    model = logistic_model(*logistic_rows(2000))
    rng = np.random.default_rng(seed)
    cls = getattr(pymc_flymc, name)

    def build():
        return cls(**settings)

    sample(model, build, cores, draws=2)  # compiles, or loads
    began = time.monotonic()
    sample(model, build, cores, draws=2)
    longest *= time.monotonic() - began
    for _ in range(times):
        delay = longest * rng.random() ** 2
        print(f"{delay:.3f}", interrupted(model, build, delay, cores), flush=True)


if __name__ == "__main__":
    _, name, settings, times, longest, seed, cores = sys.argv
    settings = eval(settings, {each: getattr(pymc_flymc, each) for each in pymc_flymc.__all__})
    main(name, settings, int(times), float(longest), int(seed), int(cores))
