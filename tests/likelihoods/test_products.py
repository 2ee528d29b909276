"""Products in graphs, without what cancels."""

import numpy as np
import pytensor.tensor as pt
import pytest

from pymc_flymc.graphs.tools import free_inputs, plain_function
from pymc_flymc.likelihoods.products import simplified

A, B, V = pt.dscalar("a"), pt.dscalar("b"), pt.dvector("v")
MU = pt.exp(V)
VALUES = {A: 1.7, B: -0.6, V: np.array([0.3, -2.0, 5.0])}

#: Products, and what they depend on once simplified.
CASES = {
    "sd in proportion": (MU**2 / (MU / A**0.5) ** 2 * pt.sign(MU / A**0.5), [A]),
    "coefficient of variation": (MU**2 / (B * MU) ** 2 * pt.sign(B * MU), [B]),
    "a scale": (1 / (MU / pt.sqr(MU * A)), [A, V]),
    "not in proportion": (MU**2 / A**2 * pt.sign(A), [A, V]),
    "roots of squares": (pt.sqrt(pt.sqr(B)) * B * V / V, [B]),
    "a sign of a square": (pt.sign(B**2 * V) / V * V**3 * B / B**2, [B, V]),
    "nothing left": (V / V * 2.0, []),
    "other powers": (V**B * V / V, [B, V]),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    product, expected = CASES[name]
    found = simplified(product)
    assert set(free_inputs([found])) == set(expected)
    value, simple = plain_function(list(VALUES), [product, found])(*VALUES.values())
    np.testing.assert_allclose(*np.broadcast_arrays(simple, value), rtol=1e-12)


def test_what_has_nothing_to_cancel_stays():
    product = 2.0 * A / MU
    assert simplified(product) is product


def test_without_signs():
    """Right where they are one."""
    product = MU * pt.sign(B * V)
    assert free_inputs([simplified(product, signs=False)]) == [V]
