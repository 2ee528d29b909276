"""Limits of size that are lowered, so that small problems take the way of large ones."""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import pymc_flymc.reading.model
from pymc_flymc.anchor import effects, expanded_density
from pymc_flymc.bounds import softmax
from pymc_flymc.graphs import memoise
from pymc_flymc.out_of_core import batch_target
from pymc_flymc.out_of_core import source as sources
from pymc_flymc.regression import expansion, matrices

__all__ = ["any_size", "in_partitions", "no_row_kept_bright", "structured"]


@contextmanager
def any_size() -> Iterator[None]:
    """Take likelihoods of any number of rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pymc_flymc.reading.model, "ENOUGH_ROWS", 1)
        yield


#: Graphs of a model differ from those that are compiled otherwise, and are the same each time.
_of_structured: OrderedDict[Hashable, Any] = OrderedDict()


@contextmanager
def structured() -> Iterator[None]:
    """Take any effects of groups for many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memoise, "_kept", _of_structured)
        for module in (matrices, expansion, effects, softmax):
            patch.setattr(module, "LARGEST_DENSE", 1)
        patch.setattr(expanded_density, "MANY", 1)
        patch.setattr(effects, "LARGE_VARIABLE", 1)
        yield


@contextmanager
def in_partitions() -> Iterator[None]:
    """Cut few rows that lie elsewhere into several partitions, with tables in many parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "SINGLE", 20)
        patch.setattr(batch_target, "ENOUGH", 100)
        yield


@contextmanager
def no_row_kept_bright() -> Iterator[None]:
    """Give all rows a bound, also those that are bright nearly always."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pymc_flymc.target.target.MOSTLY", 1.0)
        yield
