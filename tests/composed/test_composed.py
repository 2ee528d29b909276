"""Models that are put together at random: whether they are read, and some against NUTS."""

import pytest

from tests.composed.__main__ import is_wrong
from tests.composed.comparison import compare
from tests.composed.models import composed
from tests.composed.predictors import RARE

#: Of the quick suite: these are read within three seconds.
QUICK = 11, 13, 24
SEEDS = [pytest.param(each, marks=() if each in QUICK else pytest.mark.slow) for each in range(60)]
#: Models that are read, with chains that converge; each has a share in the chance of a false alarm.
SAMPLED = 200, 202, 203, 208, 209, 210


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.slow_cases("11", "13")
def test_what_is_read_is_the_model(searches, seed):
    """A step compares all rows, and all else, with the model when it is built."""
    searches(composed(seed).model)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [24])
@pytest.mark.parametrize("rare", RARE)
def test_rare_terms_are_read(searches, seed, rare):
    searches(composed(seed, rare).model)


@pytest.mark.slow
def test_a_search_that_gains_little_ends(searches):
    """Of three groupings and scales that differ: it took a hundred passes, and fifteen minutes."""
    assert searches(composed(100).model).passes < 40.0


@pytest.mark.slow
@pytest.mark.parametrize("seed", SAMPLED)
def test_posterior_against_nuts(seed):
    verdict = compare(seed)
    assert verdict.said == "compared"
    assert not is_wrong(verdict, len(SAMPLED)), str(verdict)
