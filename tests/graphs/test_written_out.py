"""Products written out: the same values."""

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.traversal import toposort
from pytensor.tensor.math import Dot, Prod

from pymc_flymc.graphs.affine import write_out_dots, write_out_products
from pymc_flymc.graphs.tools import plain_function


def test_products_written_out():
    """The same values, with zeros too; products of no numbers stay."""
    none, x = pt.tensor("none", shape=(2, 0), dtype="float64"), pt.matrix("x", shape=(3, 2))
    graphs = [pt.prod(none, axis=1), pt.prod(x), pt.prod(pt.exp(pt.prod(x, axis=0)))]
    written = write_out_products(graphs)
    assert not any(isinstance(node.op, Prod) for node in toposort(written[1:]))
    values = np.ones((2, 0)), np.array([[1.0, 2.0], [0.0, 3.0], [4.0, 5.0]])
    for before, after in zip(graphs, written, strict=True):
        wanted, found = plain_function([none, x], [before, after])(*values)
        np.testing.assert_array_equal(found, wanted)


def test_narrow_dots_written_out():
    """The same values, of matrices and of vectors; wide products, and those unknown, stay."""
    rng = np.random.default_rng(0)
    x, y = pt.matrix("x", shape=(None, 3)), pt.matrix("y")
    graphs = [pt.exp(x @ y), x @ y[:, 0], pt.dot(y, x), y @ y.T]
    written = write_out_dots(graphs)

    def multiplies(graph):
        ops = [getattr(node.op, "core_op", node.op) for node in toposort([graph])]
        return any(isinstance(op, Dot) for op in ops)

    assert [multiplies(graph) for graph in graphs] == [True] * 4
    assert [multiplies(graph) for graph in written] == [False, False, True, True]
    values = rng.normal(size=(5, 3)), rng.normal(size=(3, 4))
    for before, after in zip(graphs[:2], written[:2], strict=True):
        wanted, found = plain_function([x, y], [before, after])(*values)
        np.testing.assert_allclose(found, wanted, rtol=1e-13)
