"""Points that a model does not have are refused, and others completed."""

import numpy as np
import pytest

from pymc_flymc.reading.points import anchor_point, complete_point
from tests.support.models import half_line_model


@pytest.fixture(scope="module")
def model():
    return half_line_model(np.ones((40, 2)), np.arange(40) % 2)


@pytest.mark.parametrize(
    ("anchor", "message"),
    [
        ({"b": "x"}, r"anchor\['b'\] must be a number or an array of numbers, not 'x'"),
        ({"b": [0.0, np.nan]}, r"anchor\['b'\] must be finite, and holds nan"),
        ({"s": -1.0}, r"anchor\['s'\] must be strictly inside the range of 's', not -1.0"),
        ({"s": 0}, r"anchor\['s'\] must be strictly inside the range of 's', not 0"),
        ({1: 0.0}, r"anchor names \[1\]; the free variables are \['b', 's'\]"),
    ],
)
def test_anchors(model, anchor, message):
    with pytest.raises(ValueError, match=message):
        anchor_point(model, anchor)


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ({"b": np.zeros(2)}, "initial_point has no 's_log__'"),
        ({"b": np.zeros(3), "s_log__": 0.0}, r"initial_point\['b'\] has shape \(3,\)"),
        ({"b": [0.0, np.inf], "s_log__": 0.0}, r"initial_point\['b'\] must be finite.* holds inf"),
    ],
)
def test_initial_points(model, point, message):
    with pytest.raises(ValueError, match=message):
        complete_point(model, point)


def test_initial_point_is_completed(model):
    point = complete_point(model, {"b": 0.5, "s_log__": 1.0})
    np.testing.assert_array_equal(point["b"], [0.5, 0.5])
    assert point["s_log__"].shape == ()
    assert list(complete_point(model, None)) == ["b", "s_log__"]
