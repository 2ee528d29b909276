"""Violated bounds are reported by the chains that meet them."""

import warnings

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_flymc import (
    ExplicitResampling,
    FireflyHMC,
    FireflyMALA,
    FireflyMH,
    FireflySlice,
    ImplicitResampling,
    JaakkolaJordan,
    Taylor,
)
from pymc_flymc.bounds import row_factor
from pymc_flymc.graphs.compilation import compile_log_factor
from tests.support.data import logistic_rows
from tests.support.models import logistic_model
from tests.support.out_of_core import logistic, step_elsewhere, written_on_head
from tests.support.steps import drive, step_of

ROWS = logistic_rows(2000, [-0.5, 1.0])
MODEL = logistic_model(*ROWS)


@pytest.fixture(autouse=True)
def without_checks_before(monkeypatch):
    """Bounds of these tests are let through that steps check before they use them."""
    for check in ("check_declared", "check_compiled"):
        monkeypatch.setattr(f"pymc_flymc.steps.setup.{check}", lambda *arguments: None)


class OnePerCent(JaakkolaJordan):
    """Larger than it should be by one per cent of the gap, on one per cent of the rows."""

    def prepare(self, problem, log_factor):
        prepared = super().prepare(problem, log_factor)
        gap = -np.log1p(-prepared.bright[::100])
        prepared.constants[::100, 1] -= 0.01 * gap
        return prepared


class TooTight(Taylor):
    """A bound on remainders a twentieth as large as it is."""

    def remainders(self, *arguments):
        near, far, fastest = super().remainders(*arguments)
        return 0.05 * near, 0.05 * far, fastest


class AboveByOne(Taylor):
    """A bound that each row that is read shows to be violated."""

    def remainder(self, *arguments):
        return super().remainder(*arguments) - 1.0


MESSAGE = (
    "the Jaakkola-Jordan bound on bernoulli-logit likelihoods is violated at row ([0-9,]*00|0): log"
)


@pytest.mark.parametrize("cls", [FireflyMH, FireflyHMC, FireflyMALA, FireflySlice])
def test_one_per_cent_of_a_gap_is_reported(cls):
    step = step_of(MODEL, cls, bound=OnePerCent(slack=0.0))
    with pytest.raises(RuntimeError, match=f"{cls.__name__}: {MESSAGE}"):
        drive(step, MODEL.initial_point(), tune=0, draws=1000)


def test_a_chain_that_tunes_warns_once():
    step = step_of(MODEL, FireflyHMC, bound=OnePerCent(slack=0.0))
    step.setup_chain(np.random.default_rng(0), 300, 1000)
    point, counts = MODEL.initial_point(), []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(200):
            point, [stats] = step.step(point)
            counts.append(stats["bound_violations"])
    assert sum(counts) > 2
    assert [str(w.message)[:36] for w in caught] == ["FireflyHMC: while it tunes, the Jaak"]
    step.stop_tuning()
    with pytest.raises(RuntimeError, match=MESSAGE):
        for _ in range(1000):
            point, _ = step.step(point)


@pytest.mark.parametrize("kernel", ["metropolis", "joint", "surrogate", "hamiltonian"])
@pytest.mark.slow_cases("hamiltonian")
def test_all_kernels_report(kernel):
    step = step_of(MODEL, bound=TooTight(), kernel=kernel)
    with pytest.raises(RuntimeError, match=r"the Taylor bound on bernoulli-logit .* is violated"):
        drive(step, MODEL.initial_point(), tune=0, draws=1000)


def test_rows_elsewhere():
    X, y = logistic_rows(400, [-0.5, 1.0])
    data = {"X": X, "y": y}
    with pytest.raises(RuntimeError, match=r"the Taylor bound .* is violated at row \d+"):
        step_elsewhere(written_on_head(data, logistic), data, bound=AboveByOne())


def test_several_likelihoods_name_the_row_of_their_own():
    (X, y), n = ROWS, 1000
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=2)
        pm.Bernoulli("first", logit_p=X[:n] @ beta, observed=y[:n])
        pm.Bernoulli("second", logit_p=X[n:] @ beta, observed=y[n:])
    bound = {"first": JaakkolaJordan(), "second": OnePerCent(slack=0.0)}
    with pytest.raises(RuntimeError, match=r"violated at row ([0-9,]*00|0): log B"):
        drive(step_of(model, FireflyHMC, bound=bound), model.initial_point(), tune=0, draws=1000)


@pytest.mark.parametrize("settings", [{}, {"slack": 0.0}, {"xi": 0.5, "slack": 0.0}, None])
def test_bounds_that_are_none_too_tight_are_not_reported(settings):
    bound = None if settings is None else JaakkolaJordan(**settings)
    step = step_of(MODEL, FireflyHMC, bound=bound)
    _, stats = drive(step, MODEL.initial_point(), tune=100, draws=100 if bound is None else 1000)
    assert not stats["bound_violations"].any()
    assert not stats["non_finite_ratios"].any()


@pytest.mark.parametrize("cls", [FireflyMH, FireflyHMC, FireflySlice])
def test_ratios_that_are_not_finite_are_counted(cls):
    X, y = logistic_rows(60, [-0.5])
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0)
        pm.Potential("root", 1e-3 * pt.sqrt(0.05 - b))
        pm.Bernoulli("y", logit_p=X[:, 0] * b, observed=y)
    step = step_of(model, cls, bound=JaakkolaJordan())
    draws, stats = drive(step, model.initial_point(), tune=100, draws=300)
    assert stats["non_finite_ratios"].sum() > 0
    assert draws.max() < 0.05


FEW = logistic_rows(60, [0.0, -0.5])
#: The first bound has no value where the predictor of the row with the smallest number, or of one
#: like it, is larger than for this coefficient; the second where the coefficient is larger.
LEAST, FROM_COEFFICIENT = -0.7, 0.05


class NotAtSome(JaakkolaJordan):
    """A bound whose gap is NaN for rows with large predictors, which it is prepared without."""

    largest = LEAST * float(FEW[0][:, 1].min())

    def prepare(self, problem, log_factor):
        log_factor = compile_log_factor(row_factor(problem.likelihood, JaakkolaJordan()))
        return super().prepare(problem, log_factor)

    def gap(self, likelihood, arguments, *more):
        gap = super().gap(likelihood, arguments, *more)
        return pt.switch(pt.gt(arguments[0], self.largest), np.nan, gap)


class WithoutRadius(Taylor):
    """A bound whose powers of the radius are NaN for some coefficients."""

    largest = FROM_COEFFICIENT

    def collapsed(self, likelihood, w, *more):
        total, shared = super().collapsed(likelihood, w, *more)
        return total, pt.switch(pt.gt(w[0], self.largest), np.nan, shared)


#: All rows are read in each sweep, or each dark one with a chance of nine in ten.
SCHEMES = {
    "implicit": ImplicitResampling(q=0.9),
    **{
        scheme: ExplicitResampling(fraction=1.0, scheme=scheme)
        for scheme in ("cycle", "with_replacement", "without_replacement")
    },
}
CONDITIONAL = {
    **{name: (FireflyMH, {"kernel": "metropolis", "brightness": s}) for name, s in SCHEMES.items()},
    "hmc": (FireflyHMC, {"brightness": SCHEMES["implicit"]}),
    "slice": (FireflySlice, {"brightness": SCHEMES["implicit"]}),
}


def few_rows():
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0)
        pm.Bernoulli("y", logit_p=FEW[0][:, 1] * b, observed=FEW[1])
    return model


@pytest.mark.slow_cases("with_replacement", "without_replacement")
@pytest.mark.parametrize("moves", CONDITIONAL)
def test_odds_that_are_nan_are_counted(moves):
    """Of rows that are dark when parameters come where their odds are NaN, and stay so."""
    cls, settings = CONDITIONAL[moves]
    model = few_rows()
    step = step_of(model, cls, bound=NotAtSome(slack=0.0), **settings)
    draws, stats = drive(step, model.initial_point(), tune=0, draws=300)
    unknown = draws[..., 0].ravel() < LEAST
    assert unknown.any()
    assert stats["non_finite_ratios"].ravel()[unknown].mean() > 0.5


@pytest.mark.parametrize("moves", ["implicit", "cycle"])
def test_no_chain_starts_where_odds_are_nan(moves):
    cls, settings = CONDITIONAL[moves]
    model = few_rows()
    step = step_of(model, cls, bound=NotAtSome(slack=0.0), **settings)
    with pytest.raises(ValueError, match="not finite at initvals"):
        drive(step, {"b": np.array(-2.0)}, tune=0, draws=1)


@pytest.mark.slow
def test_odds_of_rows_of_groups_that_are_nan_are_counted():
    group = np.arange(60) % 4
    with pm.Model() as model:
        a = pm.Normal("a", 0.0, pm.HalfNormal("t", 1.0), shape=4)
        pm.Bernoulli("y", logit_p=a[group], observed=FEW[1])
    bound = NotAtSome(slack=0.0)
    bound.largest = 0.3
    step = step_of(model, bound=bound, kernel="local")
    _, stats = drive(step, model.initial_point(), tune=0, draws=300)
    assert stats["non_finite_ratios"].sum() > 0


@pytest.mark.slow_cases("hamiltonian")
@pytest.mark.parametrize("kernel", ["joint", "surrogate", "metropolis", "hamiltonian"])
def test_no_move_goes_where_rates_are_nan(kernel):
    """There all rows would seem dark, and their expansion would be sampled."""
    model = few_rows()
    step = step_of(model, bound=WithoutRadius(), kernel=kernel)
    draws, stats = drive(step, model.initial_point(), tune=0, draws=1000)
    assert draws.max() <= FROM_COEFFICIENT
    assert stats["non_finite_ratios"].sum() > 0


def test_no_move_goes_where_rates_of_rows_elsewhere_are_nan():
    X, y = logistic_rows(400, [-0.5, 1.0])
    data = {"X": X, "y": y}
    model = written_on_head(data, logistic)
    bound = WithoutRadius()
    bound.largest = -0.4
    step = step_elsewhere(model, data, bound=bound)
    draws, stats = drive(step, model.initial_point(), tune=0, draws=300)
    assert draws[..., 0].max() <= bound.largest
    assert stats["non_finite_ratios"].sum() > 0
