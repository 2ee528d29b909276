"""The tutorial's tables of errors hold what is said."""

import copy
import pickle
import re
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_flymc import FireflyMH, Taylor, UnsupportedModelError
from tests.support.observing import MASKED, WITH_NAN, N, Y, Z, exp, model_of, sigmoid
from tests.support.steps import sample, step_of

SMALL = pt.constant(np.full(N, 20, np.uint8))
TABLES = (Path(__file__).parents[2] / "docs" / "errors.md").read_text()


def bernoulli(e, observed=Y):
    pm.Bernoulli("y", logit_p=e, observed=observed)


def with_discrete(e):
    bernoulli(e + pm.Poisson("k", 2.0))


#: What provokes each message that the tables have, but for those that need another one.
PROVOKED = {
    "the model has no observed variable that Firefly supports": lambda e: pm.Gumbel(
        "y", e, 1, observed=Z
    ),
    "cannot read the observed variable": lambda e: pm.Bernoulli("y", p=sigmoid(e) / 2, observed=Y),
    "cannot read the linear predictor": lambda e: bernoulli(exp(e)),
    "it takes some rows out of a term": lambda e: bernoulli(e[np.arange(N)[:, None]].sum(axis=1)),
    "has missing values": lambda e: bernoulli(e, MASKED),
    "dimensions, which is supported for likelihoods with one predictor only": lambda e: (
        pm.Categorical("y", logit_p=e[:, None, None] * np.arange(3), observed=Y[:, None])
    ),
    "samples continuous variables only": with_discrete,
    "NaN or infinite": lambda e: bernoulli(e + WITH_NAN),
    "has a value for each row; Firefly needs one for all rows": lambda e: pm.Weibull(
        "y", pm.HalfNormal("k", shape=2)[Y], exp(e), observed=np.exp(Z)
    ),
    "counts above zero where the mean is zero": lambda e: pm.Poisson(
        "y", np.zeros(N) * exp(e), observed=Y
    ),
    "values that are not 0 or 1": lambda e: bernoulli(e, Y + 1),
    "the likelihood of … depends on …, which this step does not sample": {"vars": "a"},
    "must be …, not …": {"bound": Taylor},
    "the start has … for": {"initvals": np.nan},
    "computes multiply of …, … in uint8": lambda e: bernoulli(e * (SMALL * SMALL)),
}
#: Provoked in test_propriety, test_mode_finding, test_collinear, test_units, test_comparison,
#: test_guarded_rows, test_rounded_sums and test_own.
SEARCHED = {
    "no bound of this package is one on … likelihoods",
    "the model keeps the probabilities of … off 0 and 1",
    "no posterior mode found: … rises for ever along …",
    "no posterior mode found in … passes over … has reached …",
    "the posterior is improper",
    "the columns that … multiply are collinear but for about … of their size",
    "under the … bound are rounding errors along a line",
    "the model has a density at …, and what Firefly reads of it has none there",
    "the log density of … at the start of the search for its mode",
}


def test_tables_of_errors_are_complete():
    rows = re.findall(r"^\| (.+?) \| .+ \|$", TABLES, re.MULTILINE)
    assert set(rows) - {"the message says"} == set(PROVOKED) | SEARCHED


@pytest.mark.parametrize("row", PROVOKED)
def test_tables_of_errors(row):
    provoked, settings = PROVOKED[row], {}
    if isinstance(provoked, dict):
        provoked, settings = bernoulli, provoked
    model = model_of(provoked)
    with model:
        pm.Normal("a", initval=settings.pop("initvals", None))
        with pytest.raises((UnsupportedModelError, ValueError)) as caught:
            FireflyMH(**settings)
    message = str(caught.value)
    place = -1
    for part in row.split("…"):
        place = message.find(part.strip(), place + 1)
        assert place >= 0, message


def test_step_of_another_model():
    first, second = model_of(bernoulli), model_of(bernoulli)
    step = step_of(first)
    with second, pytest.raises(ValueError, match="FireflyMH was built in another model"):
        pm.sample(step=step, progressbar=False)
    with second:  # a context alone says nothing
        assert step.vars and sample(first, step, tune=2, draws=2)


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))]
)
def test_copies_of_a_step(copied):
    """They are for processes of chains, and would not see that data change."""
    model = model_of(bernoulli)
    with pytest.raises(ValueError, match="this FireflyMH is a copy, which does not see"):
        sample(model, copied(step_of(model)))
