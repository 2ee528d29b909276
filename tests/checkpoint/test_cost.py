"""What a checkpoint costs: little of a draw's time, and no more disk for more rows."""

import time

import numpy as np
import pytest

from pymc_flymc import FireflyHMC, FireflyMH
from tests.support.data import logistic_rows
from tests.support.models import logistic_model
from tests.support.steps import sample, step_of

#: Draws of a run, those before the clock is looked at first, and runs.
DRAWS, FIRST, RUNS = 8000, 1000, 7
#: What is aimed at is 1.05; beyond this something else than a record is written in each draw.
LARGEST = 1.2


@pytest.mark.slow
@pytest.mark.parametrize("cls", [FireflyMH, FireflyHMC])
def test_share_of_a_draw(cls, tmp_path):
    """Processor time of the same draws with a checkpoint and without, in turns; a million rows."""
    model = logistic_model(*logistic_rows(1_000_000, 11))
    folders = [tmp_path / str(i) for i in range(RUNS)]
    clock: list[float] = []

    def look(trace, draw):
        if draw.draw_idx in (FIRST, DRAWS - 1):
            clock.append(time.process_time())

    def seconds(step):
        clock.clear()
        sample(model, step, chains=1, tune=500, draws=DRAWS, callback=look)
        return clock[-1] - clock[-2]

    plain = step_of(model, cls)
    times = np.empty((RUNS, 2))
    for i, folder in enumerate(folders):
        kept = step_of(model, cls, checkpoint=folder)
        for k in (0, 1) if i % 2 else (1, 0):
            times[i, k] = seconds((plain, kept)[k])
    # Of the fastest runs: other programs on the machine slow down either by a tenth and more.
    plain_run, kept_run = times.min(axis=0)
    ratio = float(kept_run / plain_run)
    size = sum(file.stat().st_size for file in folders[0].iterdir())
    of_draw = 1e3 * plain_run / (DRAWS - FIRST)
    print(f"{cls.__name__}: {of_draw:.3f} ms per draw, times {ratio:.3f}; {size:,} bytes on disk")
    assert ratio < LARGEST
    # The draws, 8 bytes a number, and a state that knows of no row but those that are bright.
    assert size < 300 * (DRAWS + 500) + 200_000
