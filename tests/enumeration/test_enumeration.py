"""Kernels leave the augmented distribution invariant, by enumeration or as textbooks do.

Mutants of them do not: see `tests.mutants`.
"""

import pytest

from tests.enumeration.running import PACKAGE, SCHEMES, Server


@pytest.fixture(scope="module")
def server():
    with Server(native=False) as running:
        yield running


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.slow_cases("local-effects", "rescaling-surrogate", "slice-two")
def test_joint_distribution_is_invariant(server, scheme):
    result = server.run(SCHEMES[scheme], scheme, PACKAGE.parent)
    assert result.returncode == 0, result.stdout + result.stderr
