"""Tables of observed values: the same rows as those of the model in long format."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_flymc import UnsupportedModelError, weighted
from pymc_flymc.reading.model import read_model
from tests.support.readings import check_density, value_of
from tests.support.steps import identical, sample, step_of

P, J, K = 9, 4, 3
RNG = np.random.default_rng(0)
X, Q = RNG.normal(size=(P, K)), RNG.normal(size=(2, J))
GROUP = RNG.integers(0, 3, P)
CELL = RNG.integers(0, 5, (P, J))
CELL[0], CELL[1] = range(4), 4
EXPOSURE = RNG.uniform(0.5, 2.0, (P, J))
Y = RNG.integers(0, 2, (P, J))
person, item = np.indices((P, J)).reshape(2, -1)
exp = pm.math.exp


def persons():
    return pm.Normal("persons", 0.0, 1.0, shape=P)


def items(*shape):
    return pm.Normal("items", 0.0, 1.0, shape=(*shape, J))


def scale():
    return pm.HalfNormal("scale", 1.0)


def slopes(*shape):
    return pm.Normal("slopes", 0.0, 1.0, shape=(K, *shape))


#: Predictors of tables, and of their rows.
PREDICTORS = {
    "rasch": (
        lambda: persons()[:, None] - items()[None, :],
        lambda: persons()[person] - items()[item],
    ),
    "items alone": (lambda: items() + pm.Normal("c"), lambda: (items() + pm.Normal("c"))[item]),
    "non-centred": (
        lambda: (0.3 + scale() * persons())[:, None] - items(),
        lambda: (0.3 + scale() * persons())[person] - items()[item],
    ),
    "functions of effects": (
        lambda: exp(persons())[:, None] - pt.concatenate([[0.0], items()[1:]]),
        lambda: exp(persons())[person] - pt.concatenate([[0.0], items()[1:]])[item],
    ),
    "columns of persons": (
        lambda: (X @ slopes() + scale() * persons())[:, None] - items(),
        lambda: X[person] @ slopes() + (scale() * persons())[person] - items()[item],
    ),
    "sums of columns": (
        lambda: (X * slopes()).sum(axis=1)[:, None] - items(),
        lambda: X[person] @ slopes() - items()[item],
    ),
    "several regressions": (
        lambda: X @ slopes(J) + items(),
        lambda: (X[person] * slopes(J).T[item]).sum(axis=1) + items()[item],
    ),
    "known loadings": (
        lambda: pm.Normal("F", shape=(P, 2)) @ Q + items(),
        lambda: (pm.Normal("F", shape=(P, 2))[person] * Q.T[item]).sum(axis=1) + items()[item],
    ),
    "groups of persons": (
        lambda: pm.Normal("g", shape=3)[GROUP][:, None] + items(),
        lambda: pm.Normal("g", shape=3)[GROUP[person]] + items()[item],
    ),
    "groups with items of their own": (
        lambda: pm.Normal("g", shape=(3, J))[GROUP],
        lambda: pm.Normal("g", shape=(3, J))[GROUP[person], item],
    ),
    "an index for each cell": (
        lambda: pm.Normal("g", shape=5)[CELL] * EXPOSURE,
        lambda: pm.Normal("g", shape=5)[CELL.ravel()] * EXPOSURE.ravel(),
    ),
    "a column for each cell": (
        lambda: pm.Normal("b") * EXPOSURE + items() / 2.0,
        lambda: pm.Normal("b") * EXPOSURE.ravel() + (items() / 2.0)[item],
    ),
    "slopes of persons over items": (
        lambda: persons()[:, None] * Q[0] + items(),
        lambda: persons()[person] * Q[0][item] + items()[item],
    ),
    "Deterministic": (
        lambda: pm.Deterministic("eta", persons()[:, None] - items()),
        lambda: persons()[person] - items()[item],
    ),
    "pm.Data": (
        lambda: (pm.Data("X", X) @ slopes())[:, None] - items(),
        lambda: X[person] @ slopes() - items()[item],
    ),
}


def model_of(predictor, y=Y):
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=predictor(), observed=y)
    return model


@pytest.mark.parametrize("name", PREDICTORS)
def test_rows_are_those_of_the_long_format(name):
    table, rows = PREDICTORS[name]
    models = model_of(table), model_of(rows, Y.ravel())
    ours, theirs = (read_model(model) for model in models)
    check_density(models[0], ours)
    a, b = ours.regressions[0], theirs.regressions[0]
    np.testing.assert_array_equal(a.y, b.y)
    np.testing.assert_allclose(a.design.X, b.design.X)
    assert a.design.width == b.design.width and a.design.n_sparse == b.design.n_sparse
    columns = [each.design.sparse.csr() for each in (a, b)]
    np.testing.assert_allclose(*(each.toarray() for each in columns))
    assert columns[0].nnz == columns[1].nnz
    point = {v: 0.1 + RNG.normal(size=np.shape(u)) for v, u in models[0].initial_point().items()}
    w, u = (value_of(each.coefficients[0], point) for each in (ours, theirs))
    np.testing.assert_allclose(w, u)


@pytest.mark.parametrize("name", ["rasch", "non-centred", "Deterministic"])
@pytest.mark.parametrize("flattened", [pt.flatten, lambda eta: eta[person, item]])
def test_tables_that_are_flattened_or_looked_up(name, flattened):
    table, rows = PREDICTORS[name]
    ours = read_model(model_of(lambda: flattened(table()), Y.ravel())).regressions[0]
    theirs = read_model(model_of(rows, Y.ravel())).regressions[0]
    ours, theirs = (each.design.sparse.csr().toarray() for each in (ours, theirs))
    np.testing.assert_array_equal(ours, theirs)


def test_three_axes():
    time = RNG.normal(size=5)
    y = RNG.integers(0, 2, (P, J, 5))
    with pm.Model() as model:
        eta = persons()[:, None, None] - items()[:, None] + pm.Normal("u", shape=(J, 5))
        pm.Bernoulli("y", logit_p=eta + pm.Normal("b") * time, observed=y)
    reading = read_model(model)
    check_density(model, reading)
    assert reading.regressions[0].design.n_sparse == P + J + J * 5


COUNTS = RNG.poisson(1.5, (P, J))
REAL = RNG.normal(size=(P, J))
LEVELS = RNG.integers(0, 3, (P, J))


def eta_of():
    return persons()[:, None] - items()


#: Observed variables of a table.
FAMILIES = {
    "binomial": lambda e: pm.Binomial("y", n=COUNTS + 2, logit_p=e, observed=COUNTS),
    "trials of items": lambda e: pm.Binomial("y", n=9 + np.arange(J), logit_p=e, observed=COUNTS),
    "poisson": lambda e: pm.Poisson("y", mu=EXPOSURE * exp(e), observed=COUNTS),
    "negative binomial": lambda e: pm.NegativeBinomial("y", mu=exp(e), alpha=2.0, observed=COUNTS),
    "free alpha": lambda e: pm.NegativeBinomial("y", mu=exp(e), alpha=scale(), observed=COUNTS),
    "normal": lambda e: pm.Normal("y", e, scale(), observed=REAL),
    "log-normal": lambda e: pm.LogNormal("y", e, scale(), observed=np.exp(REAL)),
    "known errors": lambda e: pm.Normal("y", e, EXPOSURE, observed=REAL),
    "student-t": lambda e: pm.StudentT("y", nu=4.0, mu=e, sigma=scale(), observed=REAL),
    "weibull": lambda e: pm.Weibull("y", alpha=scale(), beta=exp(e), observed=np.exp(REAL)),
    "gamma": lambda e: pm.Gamma("y", alpha=2.0, beta=2.0 / exp(e), observed=np.exp(REAL)),
    "hurdle": lambda e: pm.HurdlePoisson("y", psi=0.7, mu=exp(e), observed=COUNTS),
    "hurdle with a predictor": lambda e: pm.HurdlePoisson(
        "y", psi=pm.math.sigmoid(0.3 + e), mu=exp(e), observed=COUNTS
    ),
    "censored": lambda e: pm.Censored(
        "y",
        pm.Weibull.dist(1.5, exp(e)),
        lower=None,
        upper=2.0,
        observed=np.minimum(np.exp(REAL), 2.0),
    ),
    "weighted": lambda e: weighted(
        "y", pm.Bernoulli.dist(logit_p=e), weights=1.0 + np.arange(J), observed=Y
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_families(name):
    with pm.Model() as model:
        FAMILIES[name](eta_of())
    check_density(model, read_model(model))


def test_refusals():
    with pm.Model() as several:
        pm.Categorical("y", logit_p=pm.Normal("b", shape=(P, J, 3)), observed=LEVELS)
    with pm.Model() as inflated:
        pm.ZeroInflatedPoisson("y", psi=0.7, mu=exp(eta_of()), observed=COUNTS)
    for model, what in (
        (several, "one predictor only"),
        (inflated, "one predictor only"),
        (model_of(lambda: pt.sort(pm.Normal("b") * np.ones((P, J)))), "not known to be linear"),
        (model_of(lambda: pm.HalfNormal("d", shape=J) * eta_of()), "a product of two things"),
    ):
        with pytest.raises(UnsupportedModelError, match=what):
            read_model(model)


@pytest.mark.slow
def test_draws_are_those_of_the_long_format():
    table, rows = PREDICTORS["rasch"]
    draws = []
    for predictor, y in ((table, Y), (rows, Y.ravel())):
        model = model_of(predictor, y)
        draws.append(sample(model, step_of(model), draws=30, tune=30, chains=1))
    identical(*draws)


MEASURED = """
import resource

import numpy as np
import pymc as pm
from pymc_flymc.reading.model import read_model

y = np.random.default_rng(0).integers(0, 2, (3000, 60))
with pm.Model() as model:
    persons, items = pm.Normal("persons", shape=3000), pm.Normal("items", shape=60)
    pm.Bernoulli("y", logit_p=persons[:, None] - items, observed=y)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
reading = read_model(model)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(reading.regressions[0].design.n_sparse, (after - before) * 1024 / y.size)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the unit is the kilobyte there")
def test_memory():
    """A few numbers for each row and factor, where matrices of zeros and ones would be 24 kB."""
    folder = Path(__file__).parents[2]
    command = [sys.executable, "-c", MEASURED]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    n_columns, bytes_a_row = result.stdout.split()
    assert n_columns == "3060", result.stderr
    assert float(bytes_a_row) < 400.0
