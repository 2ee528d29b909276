"""Machine code is found on disk by the graph as it was written, and only for the same graph."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.builders import OpFromGraph

from pymc_flymc.compat import pytensor_cache
from pymc_flymc.graphs.compilation import _compile
from pymc_flymc.graphs.memoise import kept_on_disk
from pymc_flymc.kernels.native import vector

pytestmark = pytest.mark.skipif(pytensor_cache.DISABLE_JIT, reason="nothing is compiled")


@pytest.fixture
def value_of(tmp_path, monkeypatch):
    """Return a function of a graph's factor, its value at one, and whether it was compiled."""
    monkeypatch.setattr(pytensor_cache, "_FOLDER", tmp_path)

    def evaluate(factor, change=pt.exp):
        x, compiled = pt.dvector("x"), []
        y = change(x) * factor

        def compile():
            compiled.append(None)
            return _compile([x], [y])

        function = kept_on_disk(compile, [vector()], [x], [y])
        return function(np.ones(1))[0][0], bool(compiled)

    return evaluate


def test_equal_graphs_are_compiled_once(value_of):
    assert value_of(2.25) == (2.25 * np.exp(1.0), True)
    assert value_of(2.25) == (2.25 * np.exp(1.0), False)
    assert value_of(3.25) == (3.25 * np.exp(1.0), True)
    assert value_of(2.25, pt.log1p) == (2.25 * np.log1p(1.0), True)


def test_arrays_are_compared_as_they_are_now(value_of):
    factor = np.full(1, 4.25)
    assert value_of(factor) == (4.25 * np.exp(1.0), True)
    factor[0] = 5.25  # the memory of the constant, which PyTensor takes for the same as before
    assert value_of(factor) == (5.25 * np.exp(1.0), True)


def test_settings_of_pytensor_are_part_of_the_key(value_of):
    value_of(6.25)
    with pytensor.config.change_flags(numba__fastmath=not pytensor.config.numba__fastmath):
        assert value_of(6.25)[1]


def test_operations_of_others_are_compiled_again(value_of):
    def change(x):
        inner = x.type()
        own = OpFromGraph([inner], [pt.exp(inner)], pullback=lambda *given: given[2], inline=True)
        return own(x)

    assert value_of(7.25, change) == (7.25 * np.exp(1.0), True)
    assert value_of(7.25, change) == (7.25 * np.exp(1.0), True)


def test_broken_files_and_lost_machine_code(value_of, tmp_path, monkeypatch):
    value_of(8.25)
    (path,) = tmp_path.iterdir()
    path.write_bytes(b"\0broken")
    assert value_of(8.25)[1]
    assert not value_of(8.25)[1]
    monkeypatch.setattr(pytensor_cache, "cache_key", lambda function: "0" * 64)
    path.unlink()
    value_of(8.25)  # notes another place than that of the machine code
    assert value_of(8.25) == (8.25 * np.exp(1.0), True)
