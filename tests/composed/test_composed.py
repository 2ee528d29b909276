"""Models that are put together at random: whether they are read, and some against NUTS."""

import re

import pytest

from pymc_flymc import UnsupportedModelError
from tests.composed.__main__ import is_wrong
from tests.composed.comparison import compare
from tests.composed.models import composed

#: What is not read says so, and which terms have it.
REFUSED = "joins rows of several terms|takes an element of each row"
REFUSED_TERMS = {"blocks", "columns"}
#: Of the quick suite: these are read within three seconds.
QUICK = 11, 13, 24
SEEDS = [pytest.param(each, marks=() if each in QUICK else pytest.mark.slow) for each in range(60)]
#: Models that are read, with chains that converge; each has a share in the chance of a false alarm.
SAMPLED = 200, 202, 203, 208, 209, 210


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_read_is_the_model(searches, seed):
    """A step compares all rows, and all else, with the model when it is built."""
    found = composed(seed)
    try:
        searches(found.model)
    except UnsupportedModelError as error:
        assert re.search(REFUSED, str(error)) and REFUSED_TERMS & set(found.pieces)
        assert seed not in QUICK


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
