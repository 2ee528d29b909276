"""Names for users, and for those who add likelihoods and bounds."""

from dataclasses import dataclass

import pytest

import pymc_flymc
from pymc_flymc import extending
from pymc_flymc.likelihoods import LIKELIHOODS, PoissonLog


@pytest.mark.parametrize("name", ["check_bound", "register_bound", "register_likelihood"])
def test_names_that_have_moved(name):
    with pytest.warns(DeprecationWarning, match=f"{name} is deprecated: .* pymc_flymc.extending"):
        moved = getattr(pymc_flymc, name)
    assert moved is getattr(extending, name)


def test_all_names_are_there():
    assert all(hasattr(extending, name) for name in extending.__all__)


def test_a_dataclass_must_be_frozen():
    @dataclass
    class Shifted(PoissonLog):
        by: float = 1.0

    with pytest.raises(ValueError, match="a frozen dataclass"):
        extending.register_likelihood(Shifted())


def test_all_of_a_smooth_likelihood_must_be_there():
    """Without an attribute it would be taken for one without limits on derivatives."""

    class Plain(extending.Likelihood):
        growth = 0.0

        def derivative_bound(self, order, low, high, y):
            return 1.0 + 0.0 * y

    with pytest.raises(ValueError, match="one with growth and log_concave if it has"):
        extending.register_likelihood(Plain())


def test_a_family_is_taken_back():
    before, family = list(LIKELIHOODS), PoissonLog()
    extending.register_likelihood(family)
    assert LIKELIHOODS[0] is family
    extending.unregister_likelihood(family)
    assert before == LIKELIHOODS
    with pytest.raises(ValueError, match="this likelihood is not registered; those that are: "):
        extending.unregister_likelihood(family)
