"""Warnings of chains that were stuck, or whose proposals have heavy tails."""

import logging

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import Taylor
from pymc_flymc.compat.arviz import pareto_index
from pymc_flymc.sampling.diagnostics import ChainDiagnostics, Drawn
from pymc_flymc.sampling.proposal_weights import Independence
from tests.support.data import logistic_rows
from tests.support.models import logistic_model
from tests.support.steps import sample, step_of


def said(moved, log_weights=None):
    """What is wrong with draws, once the last one is known."""
    diagnostics = ChainDiagnostics(len(moved), ())
    weights = np.full(len(moved), np.nan) if log_weights is None else log_weights
    drawn = (Drawn(*draw, 1.0, np.nan, np.zeros(0)) for draw in zip(moved, weights, strict=True))
    verdicts = [diagnostics.record(draw) for draw in drawn]
    assert not any(verdicts[:-1])
    return verdicts[-1] or ""


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.6, 0.99])
@pytest.mark.parametrize("n", [30, 200, 1000])
def test_chains_that_move_at_an_even_rate_are_silent(rate, n):
    rng = np.random.default_rng(0)
    # Each is named with a probability of 1e-4 at most.
    assert not any(said(rng.random(n) < rate) for _ in range(50))


@pytest.mark.parametrize("start", [0, 300, 900])
@pytest.mark.parametrize("rate", [0.2, 0.9])
def test_a_stuck_chain_is_named(rate, start):
    moved = np.random.default_rng(1).random(1000) < rate
    moved[start : start + 100] = False
    assert "stuck for 1" in said(moved)
    assert "stuck for 1,000 of 1,000" in said(np.zeros(1000, bool))


@pytest.mark.parametrize("k", [0.2, 0.3, 0.8, 1.2])
def test_the_index_of_weights(k):
    """Of Pareto distributions; the error of an estimate from 4,000 is about (1 + k) / sqrt(190)."""
    log_weights = k * np.random.default_rng(0).standard_exponential(4000)
    assert pareto_index(log_weights) == pytest.approx(k, abs=4 * (1 + k) / np.sqrt(190))
    assert Independence.of(log_weights).heavy_tails == (k > 0.5)
    assert not Independence.of(-log_weights).heavy_tails


def independent_chain(rng, log_weights, n):
    """Whether each state of a chain of independent proposals is a new one, and its log weight."""
    now, moved, kept = log_weights[0], np.zeros(n, bool), np.empty(n)
    for i in range(n):
        if -rng.standard_exponential() < log_weights[i] - now:
            now, moved[i] = log_weights[i], True
        kept[i] = now
    return moved, kept


@pytest.mark.parametrize(("distribution", "loud"), [("normal", False), ("pareto", True)])
def test_weights_of_a_chain(distribution, loud):
    """Log weights with a standard deviation of 0.8 are usual; a Pareto k of 1 is not."""
    rng, n_loud = np.random.default_rng(0), 0
    for _ in range(40):
        draw = rng.standard_exponential if loud else lambda n: 0.8 * rng.standard_normal(n)
        n_loud += "vary too much" in said(*independent_chain(rng, draw(2000), 2000))
    # Of 600 such chains, of other seeds, 481 and none are named: 32 of 40, less three standard
    # errors, and at most one.
    assert n_loud >= 24 if loud else n_loud <= 1


def test_equal_weights_are_silent():
    assert not said(np.ones(1000, bool), np.full(1000, 1e3))
    assert not said(np.ones(1000, bool), np.full(1000, -np.inf))


def metropolis_chain(rng, log_density, start, n, n_transitions=5):
    """Mean acceptance probabilities of draws, and draws, of a random walk."""
    now, accept, draws = np.array(start, float), np.empty(n), np.empty((n, len(start)))
    for i in range(n):
        total = 0.0
        for _ in range(n_transitions):
            new = now + rng.standard_normal(len(now))
            probability = np.exp(min(0.0, log_density(new) - log_density(now)))
            total += probability
            if rng.random() < probability:
                now = new
        accept[i], draws[i] = total / n_transitions, now
    return accept, draws


def said_of_edges(accept, draws, rescaling_acceptance_probability=np.nan, rescaled=True):
    names = ["log_tau", *"abcde"[: draws.shape[1] - 1]]
    diagnostics = ChainDiagnostics(len(draws), names, rescaled)
    ways = zip(accept, np.full(len(draws), rescaling_acceptance_probability), draws, strict=True)
    drawn = (Drawn(True, np.nan, *each) for each in ways)
    *_, last = map(diagnostics.record, drawn)
    return last or ""


@pytest.mark.parametrize(
    "log_density",
    [
        lambda x: -0.5 * (x @ x),
        lambda x: -0.5 * x[0] ** 2 - abs(x[1]),  # heavier tails
        lambda x: x[0] - np.exp(x[0]) - 0.5 * x[1] ** 2,  # one tail is steep
        lambda x: -0.5 * x[0] ** 2 - (np.inf if x[1] < 0 else x[1]),  # one ends
    ],
)
def test_chains_that_leave_their_edges_are_silent(log_density):
    rng = np.random.default_rng(0)
    for _ in range(5):
        assert not said_of_edges(*metropolis_chain(rng, log_density, [0.0, 0.5], 1000))


def test_the_neck_of_a_funnel_is_named():
    """Where log tau is small no step of the usual size is accepted."""

    def log_density(x):
        z = x[1:] * np.exp(-x[0])
        return -0.5 * (x[0] / 3.0) ** 2 - 0.5 * (z @ z) - 5.0 * x[0]

    rng, found = np.random.default_rng(0), 0
    for _ in range(12):
        accept, draws = metropolis_chain(rng, log_density, np.zeros(6), 1000)
        found += "where a chain's log_tau is smallest" in said_of_edges(accept, draws)
        assert draws[:, 0].min() > -6.0  # two standard deviations
        assert not said_of_edges(accept, draws, 0.3)  # other moves lead away from there
        # Those of another scale do not.
        assert bool(said_of_edges(accept, draws, 0.3, np.arange(6) == 1)) == bool(
            said_of_edges(accept, draws)
        )
    # Of 60 such chains, of other seeds, 43 are named: 9 of 12, less three standard errors.
    assert found >= 4


def warnings_of(caplog):
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


@pytest.fixture(scope="module")
def joint():
    """A model that joint moves suit."""
    model = logistic_model(*logistic_rows(2000))
    return model, step_of(model, bound=Taylor(), kernel="joint")


def test_a_healthy_run_is_silent(joint, caplog):
    stats = sample(*joint, draws=300).sample_stats
    assert not [line for line in warnings_of(caplog) if "Firefly" in line]
    assert stats["moved"].mean() > 0.5
    assert np.all(np.isfinite(stats["log_weight"]))
    # Of three parameters, in standard deviations.
    assert 1.0 < stats["distance"].mean() < 3.0


@pytest.mark.parametrize("cores", [1, 2])
def test_a_stuck_chain_says_so_at_the_end(joint, caplog, monkeypatch, cores):
    model, step = joint
    new_chain = step.adaptation.new_chain

    def stuck_chain(*args):
        chain = new_chain(*args)
        advance = chain.advance

        def stay(rng, n, gain):
            return advance(rng, n, gain) if gain else 0.0

        chain.advance = stay
        return chain

    monkeypatch.setattr(step.adaptation, "new_chain", stuck_chain)
    idata = sample(model, step, draws=100, cores=cores)
    found = [line for line in warnings_of(caplog) if "stuck for 100 of 100" in line]
    assert len(found) == 2  # of two chains
    assert not idata.sample_stats["moved"].any() and "warning" not in idata.sample_stats


def test_heavy_tails_are_named(any_size, caplog):
    """Of priors of what the rows say nothing about: proposals are normal."""
    x, y = logistic_rows(400)
    with pm.Model() as model:
        beta = pm.Normal("beta", shape=x.shape[1])
        alone = pm.StudentT("alone", nu=1.5, shape=2)
        pm.Bernoulli("y", logit_p=x @ beta + 1e-9 * alone.sum(), observed=y)
    step = step_of(model, bound=Taylor(), kernel="joint", proposal="independent")
    sample(model, step, draws=1000, tune=20)
    found = [line for line in warnings_of(caplog) if "Firefly" in line]
    assert any("stuck" in line or "vary too much" in line for line in found)
