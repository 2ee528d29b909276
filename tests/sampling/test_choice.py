"""Which bound and which moves "auto" takes."""

from dataclasses import dataclass, field

import arviz as az
import numpy as np
import pymc as pm
import pytest
from scipy.special import expit

import pymc_flymc.sampling.choice
from pymc_flymc import FireflyMH, ImplicitResampling, JaakkolaJordan, Taylor, reporting
from pymc_flymc.bounds import AllRows
from pymc_flymc.sampling import candidates, choice
from pymc_flymc.sampling.adaptation import HAMILTONIAN, JOINT, SURROGATE
from pymc_flymc.sampling.candidates import Candidate, Candidates
from pymc_flymc.sampling.choice import select_sampler
from pymc_flymc.sampling.proposal_weights import Independence
from pymc_flymc.steps import setup
from tests.support.data import logistic_rows
from tests.support.models import logistic_model
from tests.support.steps import drive, logistic_step


def test_joint_moves_where_the_posterior_is_concentrated():
    X, y = logistic_rows(20_000, 5)
    model, step = logistic_step(X, y)
    assert isinstance(step.bounds[0], Taylor)
    draws, drawn = drive(step, model.initial_point(), tune=300, draws=2000, chains=1)
    # Few rows: a pass over the data would read 20,000.
    assert drawn["likelihood_queries"].mean() < 50
    assert az.ess(draws).min() > 0.7 * 2000


def test_all_rows_where_no_subset_pays():
    X, y = logistic_rows(400, 100)
    target = logistic_step(X, y, prior_sd=3.0)[1].target
    assert target.spec.name == "hamiltonian" and not target.subsamples


def normal_effects(rows_per_group):
    """Return a model of eight groups with a free scale of effects, and of noise; and outcomes."""
    rng, groups = np.random.default_rng(0), np.repeat(np.arange(8), rows_per_group)
    y = rng.normal(0.3, 1.2, size=len(groups))
    with pm.Model() as model:
        mu, t, s = pm.Normal("mu"), pm.HalfNormal("t"), pm.HalfNormal("s")
        pm.Normal("y", pm.Normal("a", mu, t, shape=8)[groups], s, observed=y)
    return model, y


@pytest.mark.slow
@pytest.mark.parametrize(("rows_per_group", "is_local"), [(1, True), (30, False)])
def test_sweeps_where_rows_hardly_inform_the_noise(rows_per_group, is_local):
    model, _ = normal_effects(rows_per_group)
    task = setup.read(model, None, None, None, "auto")
    assert (choice._local_sweeps(task) is not None) == is_local


@pytest.mark.slow
def test_small_scales_of_the_noise_are_reached():
    """The variance of log s, of a row a group, with effects and their mean integrated out."""
    model, y = normal_effects(1)
    with model:
        options = dict(draws=4000, chains=4, cores=1, random_seed=1, progressbar=False)
        drawn = np.log(pm.sample(step=FireflyMH(), **options).posterior["s"].values)
    x = np.linspace(-14.0, 3.0, 800)
    s, t = np.exp(x)[:, None], np.exp(x)[None]
    v, n = s**2 + t**2, len(y)
    log_density = -0.5 * (n * np.log(v) + y.var() * n / v + np.log1p(v / n) - np.log(v / n))
    log_density += -0.5 * y.mean() ** 2 / (1.0 + v / n) - 0.5 * (s**2 + t**2) + np.log(s * t)
    p = np.exp(log_density - log_density.max()).sum(axis=1)
    p /= p.sum()
    mean = p @ x
    squares = (drawn - mean) ** 2
    error = squares.std() / np.sqrt(az.ess(squares).item())
    assert abs(squares.mean() - p @ (x - mean) ** 2) < 4.0 * error


@pytest.mark.slow
def test_rare_categories():
    """Indicators of a few rows, all of one outcome: skewed tails, where joint moves stick."""
    X, y = logistic_rows(20_000, 4)
    rare = np.zeros((20_000, 20))
    for j in range(20):
        rare[10 * j : 10 * j + 8, j] = 1.0
    y[:200] = 1
    X, settings = np.column_stack([X, rare]), {"bound": "auto", "prior_sd": 5.0}
    target = logistic_step(X, y, **settings)[1].target
    assert target.spec.name != "joint" and target.subsamples
    # A surrogate treats exactly the rows that make the tails skewed.
    target = logistic_step(X, y, kernel="surrogate", **settings)[1].target
    found = target.data.exact.X[:, 4:].any(axis=1).sum()
    assert found > 0.9 * min(len(target.data.exact.X), 160)


def test_rare_events_with_skewed_predictors():
    """Far out the rows of extreme predictors make the weights of joint proposals vary."""
    rng, n = np.random.default_rng(5), 100_000
    X = np.column_stack([rng.lognormal(0.0, 1.5, (n, 4)), rng.normal(size=(n, 4))])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = rng.random(n) < expit(X @ [0.3, 0.2, 0.1, 0.0, 0.3, 0.2, 0.0, 0.0] - 6.0)
    X = np.column_stack([np.ones(n), X])
    target = logistic_step(X, y.astype(int), bound="auto", prior_sd=2.0)[1].target
    assert target.spec.name == "surrogate" and len(target.data.exact.X) > 0


@pytest.mark.slow
def test_no_independent_proposals_for_a_funnel():
    X, y = logistic_rows(20_000, 6)
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", 1.0)
        raw = pm.Normal("raw", 0.0, 1.0, shape=6)
        pm.Bernoulli("y", logit_p=X @ (sigma * raw), observed=y)
        step = FireflyMH()
    assert step.target.spec.name != "joint" and step.target.subsamples
    draws, drawn = drive(step, model.initial_point(), tune=300, draws=1000, chains=1)
    # Less than a pass over the 20,000 rows; the ridge of scale and coefficients stays slow.
    assert drawn["likelihood_queries"].mean() < 20_000
    assert np.unique(draws[0, :, 0]).size > 500


@pytest.fixture
def task(monkeypatch):
    """Of a plain logistic regression on 4,000 rows; nothing of it has been compiled or tried."""
    found = []

    def record(task, *_):
        found.append(task)
        raise StopIteration

    monkeypatch.setattr(pymc_flymc.sampling.choice, "choose_sampler", record)
    with logistic_model(*logistic_rows(4000, 3)), pytest.raises(StopIteration):
        FireflyMH()
    return found[0]


@dataclass
class Selection:
    """What a selection does with candidates that are given: nothing is built.

    `joint` is what the weights of joint moves show, `tails` the rows that kernels miss there.
    """

    joint: tuple = (Independence(1.0, False), 1.0)
    tails: dict = field(default_factory=dict)
    tried: list = field(default_factory=list)

    def of(self, task, candidates, monkeypatch):
        def weigh(candidate, *_):
            self.tried.append(candidate)
            return self.joint

        def far(_, candidate, __):
            return self.tails.get(candidate.spec.name)

        monkeypatch.setattr(Candidate, "sampler", lambda candidate, _: candidate)
        monkeypatch.setattr(Candidates, "all", lambda _: candidates)
        monkeypatch.setattr(choice, "weigh_joint_moves", weigh)
        monkeypatch.setattr(choice, "_rows_in_tails", far)
        return select_sampler(task)


def kernel(spec, usual, bound=None, **more):
    return Candidate(spec, [bound or Taylor()], usual, **more)


EVERY = kernel(HAMILTONIAN, 1000.0, AllRows())


def test_many_bright_rows_hold_back_conditional_updates(task, monkeypatch):
    found = []
    selection = Candidates(task)
    selection.n_rows = 10**9
    for bright in (3.0, 30.0, 300.0):
        monkeypatch.setattr(candidates, "estimate_rows", lambda *_, bright=bright: bright)
        given, _ = selection.conditional()
        each = 2.0 * selection.costs.evaluation + 2.0 * selection.costs.bright * bright
        found.append(given.usual / each)
    # By as much as there are more bright rows than parameters.
    np.testing.assert_allclose(found, candidates.GRADIENTS * np.array([1.0, 10.0, 100.0]))


def test_all_rows_are_read_unless_others_promise_a_good_deal_more(task, monkeypatch):
    """But never where no row is bright: trajectories are the same."""
    monkeypatch.setattr(candidates, "estimate_rows", lambda *_: 3.0)
    selection = Candidates(task)
    given, every = selection.conditional()
    assert every.reads_all and not given.reads_all
    each = 2.0 * selection.costs.evaluation
    selection.n_rows = int(candidates.USUAL * given.usual / candidates.GRADIENTS - each)
    assert [each.reads_all for each in selection.conditional()] == [True]
    selection.n_rows += 1
    assert len(selection.conditional()) == 2
    monkeypatch.setattr(candidates, "estimate_rows", lambda *_: 0.9)
    selection.n_rows = 1
    given, every = selection.conditional()
    assert given.usual < every.usual == np.inf


def test_the_cheapest_is_taken_untried_if_others_are_dearer(task, monkeypatch):
    best, dear = kernel(HAMILTONIAN, 10.0), kernel(SURROGATE, 11.0)
    selection = Selection()
    assert selection.of(task, [EVERY, dear, best], monkeypatch) is best
    assert not selection.tried


@pytest.mark.parametrize(
    ("time", "heavy", "is_taken"), [(1.0, False, True), (1.0, True, False), (1e6, False, False)]
)
def test_joint_moves_are_weighed(task, monkeypatch, time, heavy, is_taken):
    joint, other = kernel(JOINT, 0.0, rows=10.0), kernel(HAMILTONIAN, 500.0)
    selection = Selection(joint=(Independence(time, heavy), 1.0))
    found = selection.of(task, [joint, other, EVERY], monkeypatch)
    assert found is (joint if is_taken else other)
    assert selection.tried == [joint]


def test_moves_that_miss_tails_are_not_selected(task, monkeypatch):
    """Nor are others under expansions that treat fewer rows exactly than are bright there."""
    few, some, many = (
        kernel(SURROGATE, usual, n_exact=n) for usual, n in ((5.0, 0), (50.0, 20), (400.0, 90))
    )
    for rows, expected in (None, few), (20.0, EVERY):
        selection = Selection(tails={"surrogate": rows})
        assert selection.of(task, [few, some, many, EVERY], monkeypatch) is expected
    joint = kernel(JOINT, 0.0, rows=1.0)
    selection = Selection(tails={"joint": 1e6})
    assert selection.of(task, [joint, few, EVERY], monkeypatch) is few


def test_surrogates_learn_of_the_weights_of_joint_moves(task):
    """Log weights add up over rows: with half of them exact, transitions are fewer by a root."""
    selection, rows, slower = Candidates(task), 50.0, 1000.0
    drawn = selection.costs.drawn * rows
    for share in (0.0, 0.5, 1.0):
        before = kernel(SURROGATE, 1.0, rows=share * drawn)
        after = selection.slowed(before, slower, rows)
        assert after.rows == pytest.approx(before.rows * slower**share)
        assert before.rows == share * drawn  # a candidate is a value
    # Where the approximation has no density, nothing is learnt.
    assert selection.slowed(kernel(SURROGATE, 1.0, rows=drawn), np.nan, rows).rows == drawn
    other = kernel(HAMILTONIAN, 1.0, rows=drawn)
    assert selection.slowed(other, slower, rows) is other


@pytest.mark.parametrize("few", [True, False])
def test_few_rows_that_are_all_read_need_no_step(task, caplog, monkeypatch, few):
    """They take less time than the rest of an update: no more of them than that are few."""
    caplog.set_level("INFO", "pymc.flymc")
    most = Candidates(task).costs.few_rows
    assert 200 < most < 500
    made = Candidates.__init__

    def with_rows(self, task):
        made(self, task)
        self.n_rows = int(most) + (not few)

    monkeypatch.setattr(Candidates, "__init__", with_rows)
    Selection().of(task, [EVERY], monkeypatch)
    assert "rows are read in every step" in caplog.messages[0]
    assert any("leave out step=" in line for line in caplog.messages) == few


def test_the_choice_is_the_same_again(caplog, monkeypatch):
    """It counts, and has random numbers of its own: costs are the same to the last digit."""
    # The log also says what takes long, which depends on the machine: here nothing does.
    monkeypatch.setattr(reporting, "PATIENCE", 1e6)
    caplog.set_level("INFO", "pymc.flymc")
    X, y = logistic_rows(400, 12)
    found = []
    for seed in range(2):
        np.random.seed(seed)
        caplog.clear()
        target = logistic_step(X, y, prior_sd=3.0)[1].target
        said = [line for line in caplog.messages if "rows" in line]
        found.append((target.spec.name, target.n_exact, said))
    assert found[0] == found[1] and len(said) > 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "surrogate", "brightness": ImplicitResampling()}, "drawn again"),
        ({"kernel": "hamiltonian", "proposal": "pcn"}, "follows trajectories"),
        ({"kernel": "joint", "bound": JaakkolaJordan()}, "needs bound=Taylor"),
        ({"kernel": "joint", "bound": {"y": None}}, "needs bound=Taylor"),
        ({"kernel": "surrogate", "bound": Taylor(order=3)}, "second order"),
        ({"kernel": "nuts"}, "kernel"),
    ],
)
def test_contradictions_are_refused(settings, message):
    with logistic_model(*logistic_rows(400, 2)), pytest.raises(ValueError, match=message):
        FireflyMH(**settings)


def test_kernels_by_name():
    X, y = logistic_rows(2_000, 3)
    for kernel in ("joint", "surrogate", "metropolis", "hamiltonian"):
        assert logistic_step(X, y, kernel=kernel)[1].target.spec.name == kernel


def test_kernels_that_need_a_bound_take_it_by_name():
    X, y = logistic_rows(2_000, 3)
    for kernel in ("joint", "surrogate"):
        target = logistic_step(X, y, kernel=kernel, bound={"y": Taylor()})[1].target
        assert target.spec.name == kernel


@pytest.mark.slow
def test_normal_outcomes_are_not_read():
    """Effects of groups that are hardly there, a funnel, take many gradients."""
    rng, n = np.random.default_rng(0), 3000
    X, y, group = rng.normal(size=(n, 3)), rng.normal(size=n), rng.integers(0, 50, n)
    with pm.Model():
        effects = pm.Normal("a", 0.0, pm.HalfNormal("s", 1.0), shape=50)[group]
        mu = X @ pm.Normal("beta", 0.0, 1.0, shape=3) + effects
        pm.Normal("y", mu, pm.HalfNormal("sigma", 1.0), observed=y)
        step = FireflyMH()
    assert step.target.subsamples and step.target.expected_bright < 1.0
