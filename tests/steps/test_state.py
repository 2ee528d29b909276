"""What a saved state resumes are the draws that would have followed."""

import pickle

import cloudpickle
import numpy as np
import pytest

from pymc_flymc import JaakkolaJordan
from tests.support.data import logistic_rows
from tests.support.models import logistic_model
from tests.support.steps import SCHEMES, advance, begin, drive, step_of


def begun(step, model, tuning):
    """Make 15 draws of a chain, whose tuning goes on or ends with them."""
    point, _ = advance(step, begin(step, model, tune=100), 15)
    if not tuning:
        step.stop_tuning()
    return point


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("tuning", [True, False])
def test_state_round_trip(shared, scheme, tuning):
    model, step = shared(scheme)
    point = begun(step, model, tuning)
    saved, here = step.sampling_state, {k: v.copy() for k, v in point.items()}
    _, expected = advance(step, point, 25)
    step.sampling_state = saved
    _, again = advance(step, here, 25)
    np.testing.assert_array_equal(expected, again)
    # ... and after a journey of the state.
    step.sampling_state = pickle.loads(pickle.dumps(saved))
    _, again = advance(step, here, 25)
    np.testing.assert_array_equal(expected, again)


@pytest.mark.parametrize("tuning", [True, False])
def test_running_step_survives_a_pickle(shared, tuning):
    model, step = shared("cycle")
    point = begun(step, model, tuning)
    moved, here = (
        cloudpickle.loads(cloudpickle.dumps(step)),
        {k: v.copy() for k, v in point.items()},
    )
    _, expected = advance(step, point, 25)
    _, again = advance(moved, here, 25)
    np.testing.assert_array_equal(expected, again)


def test_state_moves_to_a_fresh_step(shared):
    """A state saved in one process continues in another, tuning included."""
    model, step = shared()
    source = step_of(model, bound=step.bounds[0])  # its pickles are good for as long as it lives
    fresh = cloudpickle.loads(cloudpickle.dumps(source))
    for tuning in (True, False):
        point = begun(step, model, tuning)
        saved, here = step.sampling_state, {k: v.copy() for k, v in point.items()}
        _, expected = advance(step, point, 25)
        fresh.chain_state = None  # as it came from the constructor
        fresh.sampling_state = saved
        _, again = advance(fresh, here, 25)
        np.testing.assert_array_equal(expected, again, err_msg=f"tuning: {tuning}")


def test_state_of_a_step_with_other_settings_is_refused(shared):
    """With all rows read, those that a bound had left dark would stay so for ever."""
    model, step = shared()
    begun(step, model, tuning=False)
    saved = step.sampling_state
    for settings in ({"bound": None}, {"bound": JaakkolaJordan(slack=4.0)}):
        other = step_of(model, **settings)
        begin(other, model)
        with pytest.raises(ValueError, match="the same moves, bounds and anchor"):
            other.sampling_state = saved


def test_state_does_not_grow_with_the_rows():
    sizes = []
    for n in (2_000, 50_000):
        model = logistic_model(*logistic_rows(n))
        step = step_of(model)
        drive(step, model.initial_point(), tune=20, draws=5)
        sizes.append(len(pickle.dumps(step.sampling_state)) - 12 * step.chain.n_bright)
    assert abs(sizes[0] - sizes[1]) < 1_000
