"""Graphs, taken apart and written out."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from pymc_flymc.graphs.tools import (
    fold_constants,
    freeze,
    known_length,
)


def test_lengths_are_known_from_data():
    with pm.Model():
        flags = pm.Data("flags", np.array([1, 0, 1, 1]))
        columns = pm.Normal("columns", shape=(2, flags.shape[0] + 1))
        some = columns[:, :4][:, pt.nonzero(flags)[0]]
    assert columns.type.shape[1] is None and freeze(some, {}).type.shape[1] is None
    assert known_length(columns, 1) == 5
    assert known_length(some, 1) == 3  # by evaluation


def test_one_of_several_results_of_constants_is_folded():
    x = pt.vector("x", shape=(2,))
    _, last = pt.split(pt.constant(np.arange(5.0)) * 2.0, [3, 2], n_splits=2, axis=0)
    (of_x,) = [v for v in fold_constants(x + last).owner.inputs if v is not x]
    np.testing.assert_array_equal(of_x.data, [6.0, 8.0])
