"""Types of records: those of what chains hand over, for nobody compares when a kernel is called."""

from typing import Annotated, NamedTuple

import numba
import numpy as np
import pytest
from numba import types

from pymc_flymc import FireflySlice
from pymc_flymc.kernels.native import Int32Vector, Vector, record_type, unwritten, vector
from pymc_flymc.sampling.adaptation import KERNELS
from tests.support.data import logistic_rows
from tests.support.models import intercepts_model, logistic_model
from tests.support.several import shop
from tests.support.steps import step_of


class Inner(NamedTuple):
    place: Int32Vector


class Outer(NamedTuple):
    n: int
    inner: Inner
    rows: Annotated[np.ndarray, lambda dtype: unwritten(numba.from_dtype(dtype), 2)]


class Alike(NamedTuple):
    first: Vector
    second: Vector


def test_a_record_has_the_types_that_its_fields_are_annotated_with():
    rows = np.zeros((2, 3), np.float32)
    rows.flags.writeable = False
    record = Outer(1, Inner(np.zeros(2, np.int32)), rows)
    assert record_type(Outer, np.dtype(np.float32)) == numba.typeof(record)
    assert record_type(Alike) == types.NamedUniTuple(vector(), 2, Alike)


@pytest.mark.parametrize("kernel", [*KERNELS, "of several likelihoods"])
@pytest.mark.slow_cases("local")
def test_chains_hand_over_what_their_kernel_was_compiled_for(any_size, kernel):
    if kernel == "of several likelihoods":
        step = step_of(shop(), kernel="metropolis")
    else:
        local = kernel == "local"
        model = intercepts_model() if local else logistic_model(*logistic_rows(60, [-0.5, 1.0]))
        is_slice = kernel == "slice"
        step = step_of(model, FireflySlice) if is_slice else step_of(model, kernel=kernel)
    chain = step.sampler.new_chain()
    (signature,) = step.target.compiled_kernel().signatures
    assert signature[2:] == tuple(map(numba.typeof, chain._arguments()))
