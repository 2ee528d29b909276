"""What is made once for equal graphs."""

import numpy as np
import pytensor.tensor as pt

from pymc_flymc.graphs.memoise import memoised


def test_equal_graphs_are_made_once():
    made = []

    def graph(factor):
        x = pt.dvector("x")
        return {"inputs": [x], "outputs": [pt.exp(x * factor)]}

    def make(name):
        made.append(name)
        return name

    weights = np.ones(3)
    assert memoised(make, "a", **graph(weights)) == "a"
    assert memoised(make, "b", **graph(np.ones(3))) == "a"
    assert memoised(make, "c", **graph(weights), also=1) == "c"
    constant = graph(weights)
    assert memoised(make, "d", **constant) == "a"
    weights[0] = 2.0  # the memory of the constant, which PyTensor takes for the same as before
    assert memoised(make, "e", **constant) == "e"
    assert made == ["a", "c", "e"]


def test_large_constants_do_not_outlive_their_model():
    made = []

    def make():
        made.append(None)

    x = pt.dvector("x")
    graph = {"inputs": [x], "outputs": [x * np.ones(200_000)]}
    memoised(make, **graph)
    memoised(make, **graph)
    assert len(made) == 2
