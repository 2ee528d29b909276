"""Exceptions in callbacks of the user's, in this process and where chains have their own."""

import multiprocessing

import pytest

from tests.support.steps import identical, sample


class MineError(Exception):
    """An exception of a user's own."""


@pytest.mark.parametrize("cores", [1, 2])
def test_it_ends_the_run_and_the_step_is_as_new(shared, cores):
    model, step = shared()
    before = sample(model, step, cores=1)

    def raises(trace, draw):
        if draw.draw_idx == 30:
            raise MineError("enough")

    with pytest.raises(MineError, match="enough"):
        sample(model, step, cores=cores, callback=raises, draws=10**6)
    for process in multiprocessing.active_children():
        process.join(30.0)
        assert not process.is_alive(), "a chain goes on alone"
    identical(before, sample(model, step, cores=1))
