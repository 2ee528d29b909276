"""Steps on several likelihoods: settings, saved states, rows read."""

import warnings

import cloudpickle
import numpy as np
import pymc as pm
import pytest

from pymc_flymc import ExplicitResampling, FireflyHMC, FireflyMH, JaakkolaJordan, Tangent, Taylor
from tests.support.several import both_have_bright_rows, counts, shop
from tests.support.steps import advance


def test_settings_that_do_not_fit(any_size):
    with shop():
        with pytest.raises(ValueError, match=r"not one on student-t.*'spent'"):
            FireflyMH(bound=JaakkolaJordan())
        with pytest.raises(ValueError, match="one likelihood"):
            FireflyMH(proposal="independent")
        with pytest.raises(ValueError, match=r"names 'sold'.*are 'bought', 'spent'"):
            FireflyMH(bound={"sold": Tangent()})
        with pytest.raises(ValueError, match="not for 'spent' alone"):
            FireflyMH(bound={"spent": None})
        with pytest.raises(ValueError, match="not 'tangent'"):
            FireflyHMC(bound={"spent": "tangent"})


def test_bounds_by_name(any_size):
    with shop():
        step = FireflyHMC(bound={"spent": Tangent(slack=1.0)})
    bought, spent = step.bounds
    assert isinstance(bought, JaakkolaJordan) and spent.slack == 1.0


@pytest.mark.parametrize("kind", [FireflyMH, pytest.param(FireflyHMC, marks=pytest.mark.slow)])
def test_saved_state_continues_in_another_process(any_size, kind):
    model = counts()
    with model:
        step = kind(brightness=ExplicitResampling(0.1, "cycle"))
    fresh = cloudpickle.loads(cloudpickle.dumps(step))
    step.setup_chain(np.random.default_rng(0), 50, 50)
    point = model.initial_point()
    for _ in range(200):
        point, _ = advance(step, point, 1)
        if both_have_bright_rows(step.chain):
            break
    assert both_have_bright_rows(step.chain)
    saved, here = step.sampling_state, {k: v.copy() for k, v in point.items()}
    _, draws = advance(step, point, 25)
    fresh.sampling_state = saved
    np.testing.assert_array_equal(draws, advance(fresh, here, 25)[1])


def test_sampling_reads_few_rows_of_each():
    """As users run it; both likelihoods are subsampled, each under a bound of its own."""
    model = shop(20_000, 8_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        with model:
            step = FireflyMH()
    bought, spent = step.bounds
    assert isinstance(bought, JaakkolaJordan) and isinstance(spent, Tangent)
    with model:
        idata = pm.sample(
            draws=100, tune=200, chains=1, step=step, progressbar=False, random_seed=1,
            compute_convergence_checks=False,
        )  # fmt: skip
    assert idata.sample_stats["n_bright"].mean() < 100
    per_transition = idata.sample_stats["likelihood_queries"] / idata.sample_stats["transitions"]
    assert per_transition.mean() < 100
    assert not any(isinstance(bound, Taylor) for bound in step.bounds)
