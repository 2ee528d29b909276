"""Rows keep their values in the types of the model's containers, or are refused."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc.out_of_core.data_setting import source_of
from pymc_flymc.out_of_core.design_builder import cast_rows
from pymc_flymc.out_of_core.stored_model import read_stored
from tests.support.out_of_core import written_on_head

TYPES = ["bool", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"]
TYPES += ["float16", "float32", "float64", ">i4", ">f8"]


@pytest.mark.parametrize("of", TYPES)
@pytest.mark.parametrize("to", TYPES)
def test_small_numbers_have_all_types(of, to):
    values = np.array([[0, 1], [1, 0]]).astype(of)
    found = cast_rows(values, np.dtype(to), "x")
    assert found.dtype == to
    np.testing.assert_array_equal(found, [[0, 1], [1, 0]])


@pytest.mark.parametrize(
    ("value", "of", "to"),
    [
        (2**31, "int64", "int32"),
        (2**32 + 1, "int64", "int32"),
        (10**10, "float64", "int32"),
        (-1, "int64", "uint8"),
        (-1, "int64", "uint64"),
        (2**64 - 1, "uint64", "int32"),
        (300, "int32", "uint8"),
        (2, "int32", "bool"),
        (0.5, "float64", "bool"),
        (0.5, "float64", "int32"),
        (2**53 + 1, "int64", "float64"),
        (2**64 - 1, "uint64", "float64"),
        (2**24 + 1, "int32", "float32"),
        (1e300, "float64", "float32"),
    ],
)
def test_values_that_a_type_does_not_have(value, of, to):
    values = np.ones(5, of)
    values[3] = value
    with pytest.raises(ValueError, match=rf"'x' hold .*, which is no value .* of {to}"):
        cast_rows(values, np.dtype(to), "x")
    # What is left is good.
    cast_rows(values[:3], np.dtype(to), "x")


def test_floats_are_rounded_as_in_a_container():
    values = np.array([0.1, 1e-300])
    np.testing.assert_array_equal(cast_rows(values, np.dtype("f4"), "x"), values.astype("f4"))


@pytest.mark.parametrize("used_twice", [False, True])
def test_only_what_is_a_design_as_it_is_stays_float32(used_twice):
    """What is computed of it is computed in the type of the model's container."""
    rng = np.random.default_rng(0)
    data = {"X": rng.uniform(1, 2, size=(40, 2)).astype("f4"), "y": rng.integers(0, 2, 40)}

    def build(data):
        b = pm.Normal("b", shape=2)
        eta = data["X"] @ b + (pm.math.log(data["X"][:, 0]) if used_twice else 0.0)
        pm.Bernoulli("y_obs", logit_p=eta, observed=data["y"])

    model = written_on_head(data, build)
    (regression,) = read_stored(model, None, source_of(data)).regressions
    builder = regression.design.stored.builder
    assert builder.narrow == (() if used_twice else ("X",))
    design, _ = builder(data)
    expected = np.log(data["X"][:, 0].astype(float)) if used_twice else 0.0
    assert np.all((design.offset[:, 0] if design.offset.size else 0.0) == expected)
