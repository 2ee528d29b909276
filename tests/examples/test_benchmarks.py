"""What benchmarks take from the package is there."""

import pytest

from examples.benchmarks.setup import PARTS, owner_of


@pytest.mark.parametrize("where", [where for places in PARTS.values() for where in places])
def test_parts_of_the_setup(where):
    owner, name = owner_of(*where)
    assert callable(getattr(owner, name))
