"""How far rounding may take a gap: as far as the sizes of its terms say."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pymc_flymc.bounds.bound import EPSILONS, rounding_error

A, B, C = 3.0, -5.0, 0.25


def allowed(gap):
    """Rounding of a graph of three numbers, in machine epsilons."""
    a, b, c = pt.dvectors("a", "b", "c")
    graph = rounding_error(
        gap(*(pt.exp(pt.log(x)) if x is not b else -pt.exp(-x) for x in (a, b, c)))
    )
    mode = pytensor.compile.Mode(linker="py", optimizer=None)
    function = pytensor.function([a, b, c], graph, mode=mode, on_unused_input="ignore")
    (found,) = function(np.array([A]), np.array([-np.log(-B)]), np.array([C]))
    return found / (EPSILONS * np.finfo(float).eps)


@pytest.mark.parametrize(
    ("gap", "size"),
    [
        (lambda a, b, c: a + b, A - B),
        (lambda a, b, c: a - b - c, A - B + C),
        (lambda a, b, c: (a + b) * (a + c), (A - B) * (A + C)),
        (lambda a, b, c: (a + b) / b, (A - B) / -B),
        (lambda a, b, c: pt.sqr(a + b), (A - B) ** 2),
        (lambda a, b, c: -(a + b), A - B),
        (lambda a, b, c: pt.switch(pt.gt(a, 0.0), a + b, c), A - B),
        (lambda a, b, c: pt.exp(a), np.exp(A)),
    ],
)
def test_sizes_of_terms_add_up(gap, size):
    assert allowed(gap) == pytest.approx(1.0 + size, rel=1e-12)
