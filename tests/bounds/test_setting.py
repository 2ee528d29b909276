"""What is said of the bounds of several likelihoods."""

import pytest

from pymc_flymc import JaakkolaJordan, Taylor
from pymc_flymc.bounds import AllRows
from pymc_flymc.sampling.bound_choice import settings_of

NAMES = ["y", "k"]


def test_one_for_all_or_one_for_each():
    jj, taylor = JaakkolaJordan(), Taylor()
    assert settings_of(jj, NAMES) == [jj, jj]
    assert settings_of("auto", NAMES) == ["auto", "auto"]
    assert settings_of({"k": taylor, "y": jj}, NAMES) == [jj, taylor]
    assert settings_of({"k": taylor}, NAMES) == ["auto", taylor]
    for none in (None, {"k": None, "y": None}):
        assert all(isinstance(each, AllRows) for each in settings_of(none, NAMES))


def test_none_is_for_all():
    with pytest.raises(ValueError, match="for all likelihoods or for none, not for 'k' alone"):
        settings_of({"k": None, "y": Taylor()}, NAMES)
    with pytest.raises(ValueError, match="bound= names 'z'"):
        settings_of({"z": Taylor()}, NAMES)
