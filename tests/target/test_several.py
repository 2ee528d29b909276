"""Rows and sums of several likelihoods in one target."""

import numpy as np
import pymc as pm
import pytest
from scipy.special import gammaln

from pymc_flymc import FireflyMH
from pymc_flymc.bounds import ExpansionBound
from pymc_flymc.reading.model import read_model
from tests.support.patches import no_row_kept_bright
from tests.support.several import both_have_bright_rows, counts, shop


def grouped():
    """So many groups that designs are never written out; two regressions share their effects."""
    rng = np.random.default_rng(3)
    group, other = rng.integers(0, 350, 900), rng.integers(0, 350, 200)
    X = rng.normal(size=(900, 1))
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=1)
        a = pm.Normal("a", 0.0, 0.5, shape=350)
        pm.Bernoulli("y", logit_p=X @ b + a[group], observed=rng.integers(0, 2, 900))
        pm.Logistic("z", mu=a[other], s=0.7, observed=rng.logistic(size=200))
    return model


@pytest.mark.parametrize("make", [shop, counts, grouped])
@pytest.mark.slow_cases("counts")
def test_rows_and_collapsed_sums_add_up_to_the_model(any_size, make):
    """log p(theta) + sum log B + sum log(1 + (L/B - 1)) is the model's log density."""
    model, rng = make(), np.random.default_rng(4)
    with model, no_row_kept_bright():
        step = FireflyMH(kernel="metropolis")
    target, parts, logp = step.target, read_model(model).regressions, model.compile_logp()
    left_out = sum(gammaln(part.y + 1.0).sum() for part in parts if part.name == "visits")
    assert len(target.parts) == 2 and not target.spec.fresh
    place = target.data.rows.place
    assert place[-1] == target.n_slopes
    for scale in (0.0, 0.5, 1.0, 3.0):
        v = scale * rng.standard_normal(len(target.geometry.centre))
        theta = target.geometry.unstandardise(v)
        w = np.empty(target.n_slopes)
        total = target.density(theta, target.statistics, w)
        for i, (part, reading) in enumerate(zip(target.parts, parts, strict=True)):
            design, own = reading.design, w[place[i] : place[i + 1]]
            eta = design.predictor(own[: design.n_coefficients])
            odds = np.empty(design.n_rows)
            shared = own[design.n_predictors * design.width :].copy()
            part.log_factor(eta, target.data.parts[i].constants, shared, odds)
            if isinstance(part.bound, ExpansionBound):  # whose factors are without the rates
                rates = target.data.parts[i].constants[:, :2] @ own[-2:]
                total += (np.logaddexp(0.0, odds + rates) - rates).sum()
            else:
                total += np.logaddexp(0.0, odds).sum()
        # PyMC's own Student-t density is right to ten digits.
        expected = logp(step._layout.unravel(theta)) + left_out
        assert total == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("make", [shop, counts, grouped])
@pytest.mark.slow_cases("counts")
def test_bright_rows_have_their_own_odds(any_size, make):
    """What kernels keep of the bright rows is what the likelihoods' own factors say."""
    model, rng = make(), np.random.default_rng(7)
    with model:
        step = FireflyMH(kernel="metropolis")
    chain, data, parts = step.sampler.new_chain(), step.target.data, read_model(model).regressions
    for _ in range(200):
        chain.start(rng, 2.0 * rng.standard_normal(len(chain.state.v)))
        chain.advance(rng, 2, 0.0)
        if both_have_bright_rows(chain):
            break
    index, odds = (a[: chain.n_bright] for a in (chain.bright.index, chain.bright.log_factor))
    for i, rows in enumerate(data.parts):
        mine = (index >= rows.first) & (index < rows.first + len(rows.X))
        assert mine.any()
        design, own = parts[i].design, chain.state.w[slice(*data.rows.place[i : i + 2])]
        local = index[mine] - rows.first
        eta = design.rows(local).predictor(own[: design.n_coefficients])
        expected, shared = np.empty(len(local)), own[design.n_predictors * design.width :].copy()
        constants = np.ascontiguousarray(rows.constants[local])
        step.target.parts[i].log_factor(eta, constants, shared, expected)
        np.testing.assert_allclose(odds[mine], expected, rtol=1e-8)
