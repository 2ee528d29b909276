"""The ledger: what earlier parts of a sweep have shown is kept, and counts in the whole."""

import numpy as np
import pytest

from tests.sweep import run
from tests.sweep.combinations import combinations_of
from tests.sweep.ledger import add_to_ledger, read_ledger
from tests.sweep.models import MODELS
from tests.sweep.table import failures, limit_of, overview, summary

RESULTS = [
    {"combination": "a/plain/Taylor/hmc", "error": "ValueError: of a test"},
    {"combination": "a/plain/none/hmc", "refused": "no: such, bound"},
    {"combination": "b/plain/Taylor/hmc"}
    | {"draws": 400, "n_effective": 99.6, "z": {"mean 0": 0.1, "low 0": 2.9}, "telling": False},
    {"combination": "b/plain/Taylor/mala"}
    | {"draws": 400, "n_effective": 30.4, "z": {"mean 0": -1.0, "low 0": -9.0}, "telling": True},
    {"combination": "c/plain/Taylor/joint-independent", "warns": True}
    | {"draws": 400, "n_effective": 9.4, "z": {"mean 0": -1.0, "low 0": -9.0}, "telling": False},
]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "ledger.csv"
    add_to_ledger(path, RESULTS)
    return path


def test_what_results_say_is_kept(path):
    known = read_ledger(path)
    assert {each["combination"] for each in known} == {each["combination"] for each in RESULTS}
    assert limit_of(known) == limit_of(RESULTS)
    assert overview(known) == overview(RESULTS)
    key = "combination"
    assert {e[key] for e in failures(known)} == {"a/plain/Taylor/hmc", "b/plain/Taylor/mala"}
    assert summary(known) in summary(RESULTS)


def test_later_results_take_the_place_of_earlier_ones(path):
    later = RESULTS[3] | {"z": {"mean 0": np.nan, "low 0": 0.5}}
    before = path.read_text()
    add_to_ledger(path, [later])
    known = {each["combination"]: each for each in read_ledger(path)}
    assert len(known) == len(RESULTS)
    assert known[later["combination"]]["z"].keys() == {"mean 0"}
    assert [each["combination"] for each in failures(list(known.values()))] == [
        "a/plain/Taylor/hmc",
        "b/plain/Taylor/mala",  # not a number is no score
    ]
    add_to_ledger(path, [RESULTS[3]])
    assert path.read_text() == before


def test_what_is_known_is_not_run_again(path, tmp_path, monkeypatch):
    one, *others = combinations_of(MODELS["normal/plain"])
    monkeypatch.setattr(run, "run_combination", lambda c, *_: {"combination": c.name})
    journal = tmp_path / "normal.jsonl"
    run.run_models(["normal/plain"], run.Effort(), journal, [{"combination": one.name}])
    assert {e["combination"] for e in run.read_results([journal])} == {e.name for e in others}
