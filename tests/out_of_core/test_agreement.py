"""Rows that lie elsewhere are compared in the model's own containers."""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import UnsupportedModelError
from pymc_flymc.out_of_core.data_setting import source_of
from pymc_flymc.out_of_core.stored_model import read_stored
from pymc_flymc.regression.design import Design
from tests.support.out_of_core import written_on_head
from tests.support.readings import compare

N = 3000
RNG = np.random.default_rng(2)
DATA = {
    "x": RNG.normal(size=N).astype(np.float32),
    "group": RNG.integers(0, 5, N),
    "exposure": RNG.uniform(0.5, 2.0, N),
    "k": RNG.poisson(1.5, N),
}


def counts(data):
    a, b = pm.Normal("a", 0, 1, shape=5), pm.Normal("b", 0, 1)
    eta = a[data["group"]] + b * data["x"]
    mu = data["exposure"] * pm.math.exp(eta)
    pm.Poisson("y", mu=mu, observed=data["k"])


class Wrongly:
    """A design builder that gets one thing wrong in rows that the model does not hold."""

    def __init__(self, builder, change):
        self.builder, self.change = builder, change

    def __getattr__(self, name):
        return getattr(self.builder, name)

    def __call__(self, rows):
        design, y = self.builder(rows)
        return self.change(design, y) if len(y) > 40 else (design, y)


def without_exposure(design: Design, y):
    return replace(design, offset=np.empty((0, 1))), y


def shifted(design, y):
    return design, np.roll(y, 1)


def one_group(design, y):
    codes = design.sparse.codes.copy()
    codes[:1000] = 0
    return replace(design, sparse=replace(design.sparse, codes=codes)), y


def reading_of():
    model = written_on_head(DATA, counts)
    with model:
        return model, read_stored(model, None, source_of(DATA))


def test_as_read():
    compare(*reading_of())


@pytest.mark.parametrize("change", [without_exposure, shifted, one_group])
def test_rows_read_wrongly(change):
    model, reading = reading_of()
    (regression,) = reading.regressions
    design, stored = regression.design, regression.design.stored
    stored = replace(stored, builder=Wrongly(stored.builder, change))
    wrong = replace(regression, design=replace(design, stored=stored))
    with pytest.raises(UnsupportedModelError, match=r"in row [\d,]+\. At"):
        compare(model, replace(reading, regressions=(wrong,)))
