"""What is said, before sampling, of how long it takes: never more than is known."""

import itertools
import time
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import beta, gamma

from pymc_flymc import FireflyHMC, FireflyMALA, FireflyMH, FireflySlice
from pymc_flymc.kernels.geometry import dense_geometry
from pymc_flymc.regression.design import Design
from pymc_flymc.regression.sparse_columns import SparseColumns
from pymc_flymc.sampling import rehearsal, time_estimates
from pymc_flymc.sampling.chain import FireflyChain
from pymc_flymc.sampling.effective_draws import effective_draws
from pymc_flymc.sampling.nuts_gradients import PER_ROOT, nuts_gradients
from pymc_flymc.sampling.pilot_runs import CUT_OFF, JointPilot, PilotRun
from pymc_flymc.sampling.proposal_weights import Independence
from pymc_flymc.sampling.rehearsal import TELLING, EstimatedTime, ExpectedTime, rehearse
from pymc_flymc.sampling.sampler import Sampler
from pymc_flymc.sampling.time_estimates import (
    PilotTime,
    chain_time,
    in_words,
    joint_time,
    verdict,
)
from tests.support.data import logistic_rows
from tests.support.models import logistic_model
from tests.support.steps import logistic_step, step_of


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.02, "less than 0.1 s"),
        (0.2349, "about 0.2 s"),
        (1.26, "about 1.3 s"),
        (37.0, "about 40 s"),
        (119.0, "about 120 s"),
        (1740.0, "about 30 min"),
        (3.4 * 3600, "about 3 h"),
        (9.4 * 86400, "about 9 days"),
    ],
)
def test_durations_are_round(seconds, words):
    assert in_words(seconds) == words


def test_the_faster_one_is_named():
    ours = EstimatedTime(0.04)
    assert verdict(ours, EstimatedTime(1.8)) == (
        "about 40 s of one core for 1,000 effective draws of the slowest parameter; "
        "NUTS would take about 30 min"
    )
    # Within a factor of two estimates do not tell which is faster.
    assert verdict(ours, EstimatedTime(0.03)).endswith("; NUTS would take about 30 s")
    advice = "; NUTS would take about 15 s: leave out step="
    assert verdict(ours, EstimatedTime(0.015)).endswith(advice)
    brief = "; NUTS would take less than 0.1 s: leave out step="
    assert verdict(EstimatedTime(9e-5), EstimatedTime(6e-5)).endswith(brief)
    # What is known only from one side decides nothing.
    assert "NUTS would take at least about 30 min" in verdict(
        EstimatedTime(0.04), EstimatedTime(1.8, True)
    )
    assert "NUTS" not in verdict(ours, EstimatedTime(0.01, True))
    for seconds, words in (0.04, "at least about 40 s"), (1e-6, "less than 0.1 s"):
        assert verdict(EstimatedTime(seconds, True), EstimatedTime(1.8)).startswith(words)


@pytest.mark.parametrize("correlation", [0.0, 0.9, 0.9999])
def test_correlations_hold_nuts_back(correlation):
    """Scales do not: a diagonal mass matrix knows them."""
    root = np.linalg.cholesky([[1.0, correlation], [correlation, 1.0]])
    factor = np.array([[1e3], [1e-3]]) * root
    found = nuts_gradients(dense_geometry(np.zeros(2), factor))
    condition = (1.0 + correlation) / (1.0 - correlation)
    # Rounding of the smallest eigenvalue, times the condition number.
    assert found == pytest.approx(PER_ROOT * np.sqrt(condition), rel=1e-15 * condition + 1e-12)


def test_a_rehearsal_tells_where_one_weight_stands_out():
    weights = np.zeros(1000)
    found = joint_time(JointPilot(Independence.of(weights), 0.0, seconds=1.0))
    assert found.seconds == pytest.approx(1.0) and not found.rough
    weights[0] = np.log(20.0)
    assert joint_time(JointPilot(Independence.of(weights), 0.0, seconds=1.0)).rough
    weights[:600] = -np.inf
    assert joint_time(JointPilot(Independence.of(weights), 0.0, seconds=1.0)) is None
    _, step = logistic_step(*logistic_rows(400), kernel="joint")
    sampler = Sampler(step.target, step.adaptation, step.sampler.brightness)
    # Of an hour each, too few draws fit into a rehearsal.
    assert PilotTime(3600.0, 1.0, rough=True).of_sampling(sampler, np.empty(0)) is None
    assert PilotTime(3600.0, 1.0).of_sampling(sampler, np.empty(0)).seconds > 3600.0


def test_a_line_of_the_log(caplog):
    X, y = logistic_rows(20_000, 5)
    with caplog.at_level("INFO", logger="pymc.flymc"):
        logistic_step(X, y)
    (line,) = [each for each in caplog.messages if "of one core" in each]
    # Some 0.5 ms a gradient and five gradients an effective draw, or 20 times faster or slower.
    assert "FireflyMH: less than 0.1 s" in line or "FireflyMH: about" in line
    assert "NUTS would take about" in line


FORCED = {
    "joint": (FireflyMH, {"kernel": "joint"}),
    "surrogate": (FireflyMH, {"kernel": "surrogate"}),
    "walks": (FireflyMH, {"kernel": "metropolis"}),
    "all rows": (FireflyMH, {"bound": None, "transitions": 5}),
    "hmc": (FireflyHMC, {}),
    "mala": (FireflyMALA, {}),
    "slices": (FireflySlice, {}),
}


@pytest.mark.parametrize("kind", FORCED)
def test_moves_that_were_asked_for_are_timed(kind, caplog, monkeypatch):
    """By a rehearsal."""
    monkeypatch.setattr(time_estimates, "rehearse", rehearse)
    cls, settings = FORCED[kind]
    with caplog.at_level("INFO", logger="pymc.flymc"):
        step_of(logistic_model(*logistic_rows(2_000, 3)), cls, **settings)
    (line,) = [each for each in caplog.messages if "of one core" in each]
    assert line.startswith(f"{cls.__name__}: ")


def test_moves_that_take_long_have_a_time_yet(monkeypatch, caplog):
    """That of one draw, at least: too few of them fit into a rehearsal."""
    monkeypatch.setattr(time_estimates, "rehearse", rehearse)
    seconds = 0.3
    monkeypatch.setattr(time, "thread_time", lambda t=itertools.count(): seconds * next(t))
    with caplog.at_level("INFO", logger="pymc.flymc"):
        step_of(logistic_model(*logistic_rows(2_000, 3)), FireflyHMC)
    (line,) = [each for each in caplog.messages if "of one core" in each]
    assert "at least about 5 min" in line  # a thousand of them


def test_of_chains_that_hardly_move_no_time_is_said(monkeypatch, caplog):
    """Their draws take next to no time, and are worth nothing."""
    for at_least in (False, True):
        found = EstimatedTime(1e-6, at_least)
        monkeypatch.setattr(time_estimates, "rehearse", lambda *_, found=found: found)
        caplog.clear()
        with caplog.at_level("INFO", logger="pymc.flymc"):
            step_of(logistic_model(*logistic_rows(2_000, 3)), FireflyHMC)
        assert any("of one core" in each for each in caplog.messages) != at_least


@pytest.mark.parametrize("kernel", ["auto", "metropolis"])
def test_nothing_is_timed_where_the_log_is_silent(kernel, monkeypatch, caplog):
    timed = []
    for what in ("rehearse", "time_of_nuts"):
        monkeypatch.setattr(time_estimates, what, lambda *_, what=what: timed.append(what))
    monkeypatch.setattr(time_estimates, "BRIEF", 0.0)
    with caplog.at_level("WARNING", logger="pymc.flymc"):
        step_of(logistic_model(*logistic_rows(2_000, 3)), FireflyMH, kernel=kernel)
    assert not timed


def test_a_chain_that_never_moves_has_none():
    assert chain_time(PilotRun(np.inf, np.inf, 0.0, False)) is None
    dear = chain_time(PilotRun(30.0, 0.0, 0.5, False, 15.0, 3.0))
    assert dear == PilotTime(3.0, 15.0, at_least=True)


def test_a_pilot_run_that_was_ended_says_no_more_than_what_a_draw_takes(monkeypatch):
    """Its draws may all be worth one: what is said to be the least must not be more."""
    monkeypatch.setattr(time_estimates, "rehearse", lambda *_: None)
    _, step = logistic_step(*logistic_rows(400), kernel="hamiltonian")
    sampler = Sampler(step.target, step.adaptation, step.sampler.brightness)
    each = PilotTime(CUT_OFF * 2.0, CUT_OFF * 5.0, at_least=True)
    said = each.of_sampling(sampler, np.empty(0))
    assert said == EstimatedTime(2.0 + rehearsal.PYMC_DRAW, at_least=True)


@pytest.mark.parametrize(("given", "each"), [(None, 23), (40, 40), (2, 2)])
def test_a_draw_of_few_transitions_is_no_effective_one(given, each):
    """Effective ones take 20 transitions, and autocorrelations decay: 0.1 is left after 23."""
    _, step = logistic_step(*logistic_rows(400), kernel="joint")
    sampler = Sampler(step.target, step.adaptation, step.sampler.brightness, given)
    draw, draws = PilotTime(1.0, 20.0).of_draw(sampler)
    assert draw == pytest.approx(each / 20.0 + rehearsal.PYMC_DRAW)
    left = (19.0 / 21.0) ** each
    assert draws == pytest.approx((1.0 + left) / (1.0 - left))


@pytest.mark.parametrize("correlation", [-0.4, 0.0, 0.5, 0.9])
def test_effective_draws(correlation):
    """Of many chains of known autocorrelation: off by less, on average, than they vary."""
    noise = np.random.default_rng(1).normal(size=(20_000, 51))
    draws = noise.copy()
    for i in range(1, len(draws)):
        draws[i] = correlation * draws[i - 1] + np.sqrt(1.0 - correlation**2) * noise[i]
    draws[:, -1] = 0.3
    found = effective_draws(draws)
    ratios = found[:-1] * (1.0 + correlation) / (1.0 - correlation) / len(draws)
    assert abs(ratios.mean() - 1.0) < ratios.std() < 0.1
    assert found[-1] == 0.0


def test_of_many_parameters_no_estimate_that_is_off_is_the_slowest():
    """All are worth the same here: the smallest of their estimates says too little."""
    rng, n, of_one = np.random.default_rng(2), 4000, gamma(20.0, scale=5.0)
    estimates = of_one.rvs((n, 2, rehearsal.PARAMETERS), rng)
    found = np.array(
        [rehearsal._slowest(each, np.zeros(rehearsal.PARAMETERS, bool)) for each in estimates]
    )
    middle = (rehearsal.JUDGED + 1) / 2.0  # of independent estimates, the order statistic
    expected = beta(middle, middle).expect(of_one.ppf)
    assert abs(found.mean() - 2.0 * expected) < 4.0 * found.std() / np.sqrt(n)
    smallest = estimates.sum(axis=1).min(axis=1)
    assert (found > smallest).all()
    few = estimates[0, :, :10]
    assert rehearsal._slowest(few, np.ones(10, bool)) == few.sum(axis=0).min()
    # One that is slower than all effects, such as their scale, is not lost among them.
    scale = np.ones((2, 1))
    alone = np.arange(1 + rehearsal.PARAMETERS) == 0
    assert rehearsal._slowest(np.hstack([scale, estimates[0]]), alone) == 2.0


def test_all_but_effects_are_watched():
    """Of effects an even choice is, and of hundreds of coefficients."""
    n, many, rng = 2 * rehearsal.PARAMETERS, rehearsal.PARAMETERS, np.random.default_rng(3)
    scales = np.sort(rng.choice(n, 5, replace=False))
    effects = np.setdiff1d(np.arange(n), scales)

    def watched(n, dense):
        return rehearsal._Watched.of(SimpleNamespace(centre=np.zeros(n), dense=dense))

    places, alone = watched(n, scales)
    np.testing.assert_array_equal(places[alone], scales)
    assert alone.sum() == 5 and len(places) == 5 + many and np.isin(places[~alone], effects).all()
    places, alone = watched(n, np.arange(n))
    assert not alone.any() and len(places) == many
    places, alone = watched(4, np.arange(2))
    np.testing.assert_array_equal(places, np.arange(4))
    assert alone.all()


def test_a_rehearsal_is_as_long_as_it_pays(monkeypatch):
    """It ends when draws are enough, or with its time, starts apart; too few tell nothing."""
    _, step = logistic_step(*logistic_rows(400), kernel="joint")
    sampler = Sampler(step.target, step.adaptation, step.sampler.brightness)
    others, lengths = np.empty(0), []

    def counted(draws):
        lengths.append(len(draws))
        return np.full(draws.shape[1], 100.0)

    monkeypatch.setattr(rehearsal, "effective_draws", counted)
    for seconds in (1e-5, 3.5e-4, 1.0):
        ticks = itertools.count()
        monkeypatch.setattr(time, "thread_time", lambda s=seconds, t=ticks: s * next(t))
        lengths.clear()
        found = rehearse(sampler, others, ExpectedTime(1e-5, 0.0))
        if seconds == 1.0:
            assert found is None and not lengths
            continue
        each = sum(lengths) * (seconds + rehearsal.PYMC_DRAW) / 200.0
        assert found.seconds == pytest.approx(each) and not found.at_least
        in_time = (
            int(np.ceil(rehearsal.LEAST_SECONDS / rehearsal.CHAINS / seconds))
            - rehearsal.MOST_TUNING
        )
        assert lengths == [min(rehearsal.ENOUGH, in_time)] * rehearsal.CHAINS
    # Without a pilot run, the first chain's tuning tells what a draw takes, and goes on.
    seconds = 2.0**-10
    monkeypatch.setattr(time, "thread_time", lambda t=itertools.count(): seconds * next(t))
    lengths.clear()
    assert rehearse(sampler, others).seconds > seconds
    in_time = rehearsal.LEAST_SECONDS / rehearsal.CHAINS / seconds
    assert lengths == [in_time - int(rehearsal.TUNES * in_time)] * rehearsal.CHAINS
    monkeypatch.setattr(
        rehearsal, "effective_draws", lambda draws: np.full(draws.shape[1], 0.4 * TELLING)
    )
    monkeypatch.setattr(time, "thread_time", lambda t=itertools.count(): 1e-5 * next(t))
    assert rehearse(sampler, others, ExpectedTime(1e-5, 0.0)).at_least
    monkeypatch.setattr(FireflyChain, "advance", None)
    assert rehearse(sampler, others, ExpectedTime(1.0, 0.0)) is None  # nothing is begun


def test_clocks_decide_nothing(monkeypatch):
    X, y = logistic_rows(400, 12)
    found = []
    for seconds in (1e-9, 10.0):
        ticks = itertools.count()
        monkeypatch.setattr(time, "thread_time", lambda s=seconds, t=ticks: s * next(t))
        target = logistic_step(X, y, prior_sd=3.0)[1].target
        found.append((target.spec.name, target.n_exact))
    assert found[0] == found[1]


def test_a_gradient_is_timed_on_some_rows(monkeypatch):
    """What a call takes whatever it reads is left out: rows alone are multiplied."""
    sizes = []
    monkeypatch.setattr(
        time_estimates, "_pass_seconds", lambda _, n: sizes.append(n) or 1e-3 + 1e-7 * n
    )
    X, y = logistic_rows(200_000, 9)
    problem = _problem(X, y)
    assert time_estimates.gradient_seconds(problem) == pytest.approx(0.02)
    assert sizes == [20_002, 1]


def test_a_gradient_looks_effects_up():
    """Of two hundred groups it takes about as long as of two, not a hundred times as long."""
    n, times = 20_000, []
    for n_groups in (2, 200):
        codes = np.arange(n, dtype=np.int32)[:, None] % n_groups
        sparse = SparseColumns.of_codes(codes, np.ones((n, 1)), n_groups)
        design = Design(np.ones((n, 1)), np.empty((0, 1)), False, sparse=sparse)
        problem = SimpleNamespace(
            design=design,
            y=np.zeros(n),
            own=SimpleNamespace(w=np.zeros(1 + n_groups)),
            derivatives=lambda arguments, y: SimpleNamespace(first=arguments),
        )
        times.append(time_estimates.gradient_seconds(problem))
    assert times[1] < 10 * times[0]


def _problem(X, y):
    """Stand-in for a problem: its design's shape is all that is looked at."""

    class Design:
        n_rows, n_predictors = len(y), 1

    class Problem:
        design = Design()

    Problem.design.X = X
    return Problem()
