"""Batches of independent proposals keep the joint distribution of parameters and data."""

import functools
from dataclasses import replace

import numpy as np
import pytest

from pymc_flymc.out_of_core import batch_chain, batch_target, feasibility, proposals
from pymc_flymc.out_of_core import source as sources
from pymc_flymc.out_of_core.stored_rows import read_rows
from tests.support.joint_distribution import joint_p_values
from tests.support.out_of_core import logistic, step_elsewhere, written_on_head

N_SIMULATIONS = 1500
SLOPE = slice(3, 5)  # of the statistics of two coefficients
LEVEL = 1e-5
# Rows that are equal, four of a kind: there are 25 data sets but for the order of their rows.
X = np.repeat([[1.0, -1.5], [1.0, 2.0]], 4, axis=0)


_read = {}


def remembered(builder, partition, rows):
    """Read rows, once: thousands of rounds read the same few."""
    key = id(builder), partition.number, rows.tobytes()
    if key not in _read:
        _read[key] = read_rows(builder, partition, rows)
    return _read[key]


@functools.cache
def target_of(ones, tilt):
    """Target given a data set with so many ones among the rows of a kind."""
    y = np.concatenate([np.arange(4) < n for n in ones]).astype(np.int8)
    data = {"X": X, "y": y}
    target = step_elsewhere(written_on_head(data, logistic, len(y)), data).target
    ((_, tables),) = target.weighers
    assert len(tables) > 1
    (part,) = target.parts
    statistics = part.statistics.copy()
    statistics[SLOPE] += tilt
    target.proposer.parts = (replace(part, statistics=statistics),)
    return target


def p_values_of(tilt=0.0):
    def chain_of(y):
        return batch_chain.BatchChain(target_of(tuple(y.reshape(2, 4).sum(axis=1)), tilt))

    return joint_p_values(X, chain_of, 4, N_SIMULATIONS)


@pytest.fixture(autouse=True)
def as_asked(monkeypatch):
    monkeypatch.setattr(sources, "SINGLE", 5)
    # It is kept where batches are refused, too: their chains would be slow, not wrong.
    monkeypatch.setattr(feasibility, "_check", lambda weighed, names: None)
    monkeypatch.setattr(batch_target, "read_rows", remembered)
    # Superbatches are short here: no thousand proposals for four draws, and no threads.
    monkeypatch.setattr(sources, "in_order", lambda work, items, n_items: map(work, items))
    for module in (batch_chain, proposals):
        monkeypatch.setattr(module, "BATCH", 16)


@pytest.mark.slow
def test_joint_distribution_is_kept():
    p_values = p_values_of()
    assert min(p_values) > LEVEL / len(p_values)


@pytest.mark.slow
def test_joint_test_has_power():
    """A slope that is a little off is found out: the level above leaves power."""
    p_values = p_values_of(tilt=0.6)
    assert min(p_values) < LEVEL / len(p_values)
