"""Which bound and which moves "auto" takes."""

import arviz as az
import numpy as np
import pymc as pm
import pytest
from scipy.special import expit

import pymc_flymc.sampling.choice
from pymc_flymc import FireflyMH, ImplicitResampling, JaakkolaJordan, Taylor, reporting
from pymc_flymc.sampling import candidates
from pymc_flymc.sampling import kernel_selection as selections
from pymc_flymc.sampling.adaptation import HAMILTONIAN, JOINT, SURROGATE
from pymc_flymc.sampling.candidates import Candidate
from pymc_flymc.sampling.kernel_selection import KernelSelection
from pymc_flymc.sampling.pilot_runs import JointPilot, PilotRun
from pymc_flymc.sampling.proposal_weights import Independence
from pymc_flymc.sampling.sampler import Sampler
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


@pytest.mark.parametrize(("rows_per_group", "is_local"), [(1, True), (30, False)])
def test_sweeps_where_rows_hardly_inform_the_noise(rows_per_group, is_local):
    model, _ = normal_effects(rows_per_group)
    task = setup.read(model, None, None, None, "auto")
    assert (KernelSelection(task)._local() is not None) == is_local


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
def selection(monkeypatch):
    """Of a plain logistic regression on 4,000 rows; nothing of it has been compiled or tried."""
    found = []

    def record(task, *_):
        found.append(KernelSelection(task))
        raise StopIteration

    monkeypatch.setattr(pymc_flymc.sampling.choice, "choose_sampler", record)
    with logistic_model(*logistic_rows(4000, 3)), pytest.raises(StopIteration):
        FireflyMH()
    return found[0]


def test_many_bright_rows_hold_back_conditional_updates(selection, monkeypatch):
    found = []
    for bright in (3.0, 30.0, 300.0):
        monkeypatch.setattr(candidates, "estimate_rows", lambda *_, bright=bright: bright)
        trajectories = selection.candidates.conditional()
        found.append((trajectories.gradients, trajectories.held_back))
    # By as much as there are more bright rows than parameters.
    np.testing.assert_allclose(np.array(found) / found[0], np.outer([1.0, 10.0, 100.0], [1.0, 1.0]))


def test_moves_that_miss_tails_are_not_selected(selection, monkeypatch):
    chosen = []
    monkeypatch.setattr(selection, "_try", lambda candidate, *_: setattr(candidate, "cost", 1.0))
    monkeypatch.setattr(selection, "_say", lambda best, why: chosen.append(best.spec))
    monkeypatch.setattr(Candidate, "built", lambda candidate: None)
    for rows in (None, 1.0):
        found = {JOINT: rows}
        monkeypatch.setattr(selection, "_rows_in_tails", lambda each, f=found: f.get(each.spec))
        selection.best()
    assert chosen[0] is JOINT and chosen[1] is not JOINT


@pytest.mark.parametrize("fault", ["rows", "distribution"])
def test_surrogates_are_tried_where_they_can_help(selection, monkeypatch, fault):
    """What makes joint moves fail decides: bright rows, of which a surrogate must treat most."""
    rows = 50.0
    (time, of_parameters) = (1000.0, 1.0) if fault == "rows" else (1000.0, 800.0)
    monkeypatch.setattr(
        candidates, "pilot_approximation", lambda *_: Independence(of_parameters, False)
    )
    monkeypatch.setattr(
        selections, "pilot_joint_moves", lambda *_: JointPilot(Independence(time, False), rows)
    )
    joint = selection.candidates.joint(Taylor(), rows)
    joint.sampler = Sampler(object(), None, None)
    left = selection.candidates.surrogates(rows, 0, Taylor())
    before = [each.rows for each in left]
    drawn = selection.costs.drawn * rows
    assert before[0] == drawn and before[-1] == 0.0
    selection._try(joint, None, left)
    assert joint.cost > selection.all_rows
    # Log weights add up over rows: with half of them exact, transitions are fewer by a square root.
    slower = time / of_parameters
    expected = [each * slower ** (each / drawn) for each in before]
    np.testing.assert_allclose([each.rows for each in left], expected)
    dear = [each.least for each in left if each.rows > selection.all_rows]
    assert bool(dear) == (fault == "rows")


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


def test_a_stuck_surrogate_does_not_make_all_rows_cheap(selection, monkeypatch):
    """Where nothing is accepted, what its trajectories took divided by that says nothing."""
    stuck = PilotRun(1e6, 100.0, 0.0, True)
    monkeypatch.setattr(selections, "pilot_chain", lambda *_: stuck)
    candidate = selection.candidates.surrogates(50.0, 0, Taylor())[0]
    candidate.sampler = object()
    before = selection.all_rows
    selection._try(candidate, None, [])
    assert selection.all_rows == before


@pytest.mark.parametrize("ended", [True, False])
def test_moves_whose_price_a_short_chain_hardly_shows(selection, ended, monkeypatch):
    """Weights of surrogate moves need a pilot run to its end."""
    pilot = PilotRun(1000.0, 10.0, 0.8, ended)
    monkeypatch.setattr(selections, "pilot_chain", lambda *arguments: pilot)
    for spec, dearer in (SURROGATE, not ended), (HAMILTONIAN, False):
        candidate = Candidate(spec, spec.name, lambda: None)
        selection._run_chain(candidate, np.inf, np.inf, [])
        assert candidate.cost == (selections.USUAL if dearer else 1.0) * pilot.cost


def test_a_chain_that_was_cut_off_tells_the_fewest_gradients(selection, monkeypatch):
    """One transition may have been enough for an effective draw, and bright rows at fault."""
    pilot = PilotRun(1e9, 600.0, 0.8, False, transitions=15.0)
    monkeypatch.setattr(selections, "pilot_chain", lambda *arguments: pilot)
    left = selection.candidates.surrogates(50.0, 0, Taylor())
    held_back = Candidate(HAMILTONIAN, "", lambda: None, held_back=4.0)
    selection._run_chain(held_back, np.inf, np.inf, left)
    assert selection.least_gradients == 10.0
    assert {each.gradients for each in left} == {10.0}


@pytest.mark.parametrize("ended", [True, False])
def test_no_row_bright_is_cheaper_than_all_rows_read(selection, ended, monkeypatch):
    """However many gradients trajectories take where no row holds them back: they are the same."""
    limits = []

    def pilot(sampler, others, costs, to_beat, limit):
        limits.append(to_beat)
        return PilotRun(1e9, 600.0, 0.8, ended, transitions=15.0)

    monkeypatch.setattr(selections, "pilot_chain", pilot)
    monkeypatch.setattr(selection, "_with_all_rows", lambda: "all rows")
    monkeypatch.setattr(selection, "_say", lambda *_: None)
    for as_all_rows in (True, False):
        each = Candidate(HAMILTONIAN, "", lambda: "few rows", 0.0, False, as_all_rows=as_all_rows)
        monkeypatch.setattr(selection.candidates, "all", lambda each=each: [each])
        assert selection.best() == ("few rows" if as_all_rows else "all rows")
        assert selection.found_gradients == (600.0 if as_all_rows and ended else np.inf)
        selection.found_gradients = np.inf
    assert limits[0] == np.inf > limits[1]


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


def test_fewer_exact_rows_take_no_fewer_transitions(selection, monkeypatch):
    pilot = PilotRun(1e9, 10.0, 0.8, True, transitions=8.0)
    monkeypatch.setattr(selections, "pilot_chain", lambda *arguments: pilot)
    few, some, many = selection.candidates.surrogates(50.0, 0, Taylor())[:3]
    before = few.rows, many.rows
    selection._run_chain(some, np.inf, np.inf, [few, many])
    assert (few.rows, many.rows) == (8.0 * before[0], before[1])


def test_what_could_not_save_enough_is_not_tried(selection):
    most = selection.all_rows / candidates.USUAL
    rows = 1.001 * most, 0.999 * most
    dear, cheap = (Candidate(SURROGATE, "", lambda: None, each) for each in rows)
    assert not selection._may_pay(dear, None) and selection._may_pay(cheap, None)
    cheap.rows, best = 10.0, Candidate(HAMILTONIAN, "", lambda: None)
    for saved, pays in (selection.worthwhile + 1.0, True), (selection.worthwhile - 1.0, False):
        best.cost = cheap.rows + saved
        assert selection._may_pay(cheap, best) == pays
