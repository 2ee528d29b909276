"""The sweep: a slice of it with each run, more of it with the slow suite, all by its command."""

import re
import sys
import time

import numpy as np
import pytest

from pymc_flymc.bounds import BOUNDS
from pymc_flymc.likelihoods import LIKELIHOODS
from pymc_flymc.reading.model import read_model
from tests.support.steps import sample
from tests.sweep import run
from tests.sweep.combinations import combinations_of
from tests.sweep.families import FAMILIES
from tests.sweep.models import MODELS
from tests.sweep.moves import MOVES
from tests.sweep.reference import density_of, posterior_of
from tests.sweep.run import Effort, read_results, run_combination, run_processes
from tests.sweep.table import failures, overview, summary, table

#: A model that the quick suite samples, with a combination.
QUICK = {"binomial-logit/elsewhere": "Taylor/joint"}
#: And others, which take as long to compile as to sample.
LONG = {
    "student-t/nuisance": "Tangent/mala-single-q",
    "bernoulli-logit/groups": "none/slice-random",
    "poisson/weights": "Taylor/surrogate",
    "laplace/plain": "Tangent/slice-random",
    "gamma-free/plain": "ScaledTaylor/surrogate",
    "bernoulli-logit/plain": "JaakkolaJordan(slack=0)/hmc-diagonal",
    "softmax/predictors": "Bohning/hmc",
    "negative-binomial-free/several": "FreeJaakkolaJordan/metropolis",
    "zero-inflated-poisson/groups": "Taylor/joint",
    "binomial-logit/many-groups": "JaakkolaJordan/local",
}

#: Where psi is not limited from above, moves under a Taylor bound hardly come there, and warn. They
#: must be asked for.
LONG_TAILS = "zero-inflated-.*/end/Taylor/.*"


def test_every_registered_family_is_in_the_sweep():
    for family in LIKELIHOODS:
        known = type(family) in FAMILIES
        assert known, f"add a model for {family.name} to tests/sweep/families.py"
    for bound in BOUNDS:
        assert any(bound.supports(family) for family in LIKELIHOODS), bound.name


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("hurdle-poisson/predictors", marks=pytest.mark.slow),
        "ordered-logit/nuisance",
        "von-mises/groups",
    ],
)
def test_models_are_read_as_their_families(name):
    model = MODELS[name]
    with model.patches():
        found = [type(each.likelihood) for each in read_model(model.whole).regressions]
    assert model.family in found


def test_each_bound_meets_each_kernel():
    found = [each.name.split("/")[2:] for each in combinations_of(MODELS["poisson/plain"])]
    core = {name for name, moves in MOVES.items() if moves.core}
    assert {moves for bound, moves in found if bound == "Taylor"} >= core
    assert ["auto", "auto"] in found
    found = [each.name.split("/")[2:] for each in combinations_of(MODELS["cauchy/nuisance"])]
    tangent = {moves for bound, moves in found if bound == "Tangent"}
    assert tangent >= core - {"joint", "surrogate"}
    assert not tangent & {"joint", "surrogate"}
    assert any(bound == "none" for bound, _ in found)
    names = [each.name for each in combinations_of(MODELS["cauchy/many-groups"])]
    assert "cauchy/many-groups/Tangent(slack=0)/local" in names
    assert "cauchy/many-groups/auto/local" in names


def test_density_of_many_points_is_that_of_the_model():
    for name in ("beta-binomial/groups", "gamma-free/weights", "ordered-logit/nuisance"):
        model, rng = MODELS[name].whole, np.random.default_rng(0)
        points = rng.normal(size=(3, sum(v.size for v in model.initial_point().values())))
        start, one = model.initial_point(), model.compile_logp()
        ends = np.cumsum([np.size(v) for v in start.values()])[:-1]
        for point, value in zip(points, density_of(model)(points), strict=True):
            parts = zip(start.items(), np.split(point, ends), strict=True)
            at = {key: part.reshape(np.shape(v)) for (key, v), part in parts}
            assert value == pytest.approx(one(at), rel=1e-12)


def test_grids_are_as_fine_as_the_posterior_needs(monkeypatch):
    model = MODELS["poisson/plain"].whole
    expected = posterior_of(model)
    monkeypatch.setattr("tests.sweep.reference.POINTS", {2: 13})
    found = posterior_of(model)
    assert 13 < len(found.axes[0]) < len(expected.axes[0])
    # The fourth power of what every other point may be off.
    np.testing.assert_allclose(found.variance, expected.variance, rtol=1e-6)
    monkeypatch.setattr("tests.sweep.reference.FINEST", 1.0)
    with pytest.raises(ValueError, match="no grid holds the posterior"):
        posterior_of(model)


def combination(name, rest):
    (found,) = [each for each in combinations_of(MODELS[name]) if each.name == f"{name}/{rest}"]
    return found


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in LONG)]
)
def test_a_slice_of_the_sweep(name):
    # So few draws tell nothing of the tails, however long the chains are.
    effort = Effort(tune=300, draws=8000, transitions=40_000, tails=False)
    chosen = combination(name, (QUICK | LONG)[name])
    result = run_combination(chosen, posterior_of(chosen.model.whole), effort)
    # Of some hundred scores in all: one in 150 suites of exact samplers fails, whatever the seeds.
    assert np.max(np.abs(list(result["z"].values()))) < 4.0, result
    assert result["n_effective"] > 1000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rest"),
    [
        ("poisson/plain", "Taylor/joint"),
        ("student-t/weights", "Tangent/hmc"),
        ("bernoulli-logit/elsewhere", "Taylor/joint"),
    ],
)
def test_the_same_through_pymc(name, rest):
    chosen = combination(name, rest)
    model = chosen.model.sampled
    with chosen.model.patches():
        idata = sample(model, chosen.step(), tune=500, draws=20_000)
    parts = [idata.posterior[v.name].to_numpy() for v in model.free_RVs]
    draws = np.concatenate([part.reshape(*part.shape[:2], -1) for part in parts], axis=2)
    found = run.compare(draws, posterior_of(chosen.model.whole))
    assert np.max(np.abs(list(found.z.values()))) < 4.0, found


@pytest.mark.slow
def test_a_share_of_the_sweep(tmp_path):
    """Three in a hundred, always the same ones, at fewer draws than by the command."""
    options = ["--draws=50000", "--transitions=250000", "--share=0.03"]
    groups = list(dict.fromkeys(name.split("/")[0] for name in MODELS))
    run_processes(groups, options, tmp_path, jobs=2, until=np.inf, patience=600.0)
    results = read_results(tmp_path.glob("*.jsonl"))
    assert len(results) > 60
    found = failures(results)
    failed = [each for each in found if not re.fullmatch(LONG_TAILS, each["combination"])]
    assert not failed, f"{summary(results)}\n{table(failed)}"


def test_a_combination_that_raises_is_noted(tmp_path, monkeypatch):
    chosen = list(combinations_of(MODELS["normal/plain"]))[:2]

    def sampled(combination, posterior, effort):
        if combination is chosen[0]:
            raise ZeroDivisionError("nothing")
        return {"combination": combination.name, "refused": "no"}

    monkeypatch.setattr(run, "combinations_of", lambda model: chosen)
    monkeypatch.setattr(run, "posterior_of", lambda model: None)
    monkeypatch.setattr(run, "run_combination", sampled)
    for _ in range(2):  # what has a result is not run again
        run.run_models(["normal/plain"], Effort(), tmp_path / "normal.jsonl")
        results = read_results(tmp_path.glob("*.jsonl"))
        assert [each.get("error", "no") for each in results] == ["ZeroDivisionError: nothing", "no"]
        monkeypatch.setattr(run, "run_combination", None)
    assert failures(results) == results[:1]
    assert "1 CRASHED, 1 refused" in summary(results)
    assert table(results).count("CRASHED") == 1
    assert "**1:\N{NO-BREAK SPACE}nan, 1 wrong**" in overview(results)


#: In the place of a process that samples: it dies with its first combination, and then hangs.
MORTAL = """
import os, pathlib, sys, time
journal = pathlib.Path(sys.argv[1])
lines = journal.read_text() if journal.exists() else ""
at = lines.count("died")
with journal.open("a") as file:
    file.write(chr(10) + '{"started": "normal/plain/none/%d"}' % at)
if at == 0:
    os.kill(os.getpid(), 9)
if at == 1:
    time.sleep(100)
"""


def test_a_combination_whose_process_dies_or_hangs_is_noted(tmp_path, monkeypatch):
    begin, journal = run.subprocess.Popen, tmp_path / "normal.jsonl"

    def mortal(command, **options):
        return begin([sys.executable, "-c", MORTAL, str(journal)], **options)

    monkeypatch.setattr(run.subprocess, "Popen", mortal)
    until = time.monotonic() + 60.0
    run_processes(["normal"], [], tmp_path, jobs=1, until=until, patience=1.0)
    errors = {each["combination"]: each["error"] for each in read_results([journal])}
    assert errors == {
        "normal/plain/none/0": "the process died: -9",
        "normal/plain/none/1": "the process died: no result for 1 seconds",
    }
